package shm

import (
	"reflect"

	"ringcli/verbs"
)

// counters count what a queue pair does, guarded by its lock; a piece of a request
// counts as a packet.
type counters struct {
	Requests        uint64 `counter:"port_xmit_packets"` // slots filled
	Executed        uint64 `counter:"port_rcv_packets"`
	RequestBytes    uint64 `counter:"port_xmit_data"` // what slots carry or name
	ExecutedBytes   uint64 `counter:"port_rcv_data"`
	Sent            uint64 `counter:"sent_requests"` // as many as Requests; set when listed
	RNRs            uint64 `counter:"rcvd_rnr_err"`  // requests that found no receive
	RNRsExceeded    uint64 `counter:"rnr_nak_retry_err"`
	RetriesExceeded uint64 `counter:"retry_exceeded_err"`
	SendErrors      uint64 `counter:"req_cqe_error"` // completions that are no flush
	RecvErrors      uint64 `counter:"resp_cqe_error"`
	AccessErrors    uint64 `counter:"req_remote_access_errors"` // requests that the peer refused
	InvalidRequests uint64 `counter:"req_remote_invalid_request"`
}

func (c *counters) add(o *counters) {
	to, from := reflect.ValueOf(c).Elem(), reflect.ValueOf(o).Elem()
	for i := range to.NumField() {
		to.Field(i).SetUint(to.Field(i).Uint() + from.Field(i).Uint())
	}
}

func (c *counters) sendFailed(s verbs.Status) {
	c.SendErrors++
	switch s {
	case verbs.RNRRetryExceeded:
		c.RNRsExceeded++
	case verbs.RetryExceeded:
		c.RetriesExceeded++
	case verbs.RemoteAccessError:
		c.AccessErrors++
	case verbs.RemoteInvalidRequest:
		c.InvalidRequests++
	}
}
