package shm

import "ringcli/verbs"

// counters count what a queue pair does, guarded by its lock.
type counters struct {
	requests, requestBytes  uint64 // slots filled, and what they carry or name
	executed, executedBytes uint64
	rnrs                    uint64 // requests that found no receive
	rnrsExceeded            uint64
	retriesExceeded         uint64
	sendErrors, recvErrors  uint64 // completions that are no flush
	accessErrors            uint64 // requests that the peer refused
	invalidRequests         uint64
}

func (c *counters) add(o *counters) {
	c.requests += o.requests
	c.requestBytes += o.requestBytes
	c.executed += o.executed
	c.executedBytes += o.executedBytes
	c.rnrs += o.rnrs
	c.rnrsExceeded += o.rnrsExceeded
	c.retriesExceeded += o.retriesExceeded
	c.sendErrors += o.sendErrors
	c.recvErrors += o.recvErrors
	c.accessErrors += o.accessErrors
	c.invalidRequests += o.invalidRequests
}

func (c *counters) sendFailed(s verbs.Status) {
	c.sendErrors++
	switch s {
	case verbs.RNRRetryExceeded:
		c.rnrsExceeded++
	case verbs.RetryExceeded:
		c.retriesExceeded++
	case verbs.RemoteAccessError:
		c.accessErrors++
	case verbs.RemoteInvalidRequest:
		c.invalidRequests++
	}
}

// list names the counters as mlx5 and rdma_rxe do where these have them; a piece of
// a request counts as a packet.
func (c *counters) list() []verbs.Counter {
	return []verbs.Counter{
		{Name: "port_xmit_packets", Value: c.requests},
		{Name: "port_rcv_packets", Value: c.executed},
		{Name: "port_xmit_data", Value: c.requestBytes / 4}, // in words, as InfiniBand counts
		{Name: "port_rcv_data", Value: c.executedBytes / 4},
		{Name: "sent_requests", Value: c.requests},
		{Name: "rcvd_rnr_err", Value: c.rnrs},
		{Name: "rnr_nak_retry_err", Value: c.rnrsExceeded},
		{Name: "retry_exceeded_err", Value: c.retriesExceeded},
		{Name: "req_cqe_error", Value: c.sendErrors},
		{Name: "resp_cqe_error", Value: c.recvErrors},
		{Name: "req_remote_access_errors", Value: c.accessErrors},
		{Name: "req_remote_invalid_request", Value: c.invalidRequests},
	}
}
