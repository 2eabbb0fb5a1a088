package shm

import (
	"log/slog"

	"ringcli/trace"
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

// Requests are recorded and printed while the events of the wire are traced at
// level debug; each piece of a long one by itself. The QPN is the executing end's,
// so that both ends record a request alike.
var (
	requestSent     = trace.NewKind(trace.Wire, "request sent", "$opcode", "qpn", "number", "bytes")
	requestExecuted = trace.NewKind(trace.Wire, "request executed", "$opcode", "qpn", "number", "bytes")
)

var opcodeTexts = func() (texts [verbs.OpFetchAdd + 1]uint64) {
	for i := range texts {
		texts[i] = trace.Intern(verbs.Opcode(i).String())
	}
	return texts
}()

func traceRequest(kind trace.Kind, what string, c *connection, s *slot) {
	if !trace.Enabled(trace.Wire) {
		return
	}
	to := c.qp.QPN
	if kind == requestSent {
		to = c.attr.DestQPN
	}
	kind.Instant(opcodeTexts[s.op], uint64(to), uint64(s.seq), uint64(s.length))
	trace.Debug(trace.Wire, what, slog.String("op", verbs.Opcode(s.op).String()), slog.String("to", verbs.Hex(to)), slog.Int("number", int(s.seq)),
		slog.Int("bytes", int(s.length)), slog.Int("of", int(s.total)))
}

// Losses implements verbs.LossCounter: nothing is lost in shared memory, nor sent again.
func (q *qp) Losses() (l verbs.Losses, counted bool) { return l, true }
