package shm

import (
	"fmt"
	"log/slog"

	"ringcli/trace"
	"ringcli/verbs"
)

// Requests are recorded and printed while the events of the wire are traced at
// level debug; each piece of a long one by itself. The QPN is the executing end's,
// so that both ends record a request alike.
var (
	requestSent     = trace.NewKind(trace.Wire, "request sent", "$opcode", "qpn", "number", "bytes")
	requestExecuted = trace.NewKind(trace.Wire, "request executed", "$opcode", "qpn", "number", "bytes")
)

// Few and telling: these are recorded always.
var (
	stateRecord  = trace.NewKind(trace.Verbs, "queue pair state", "$state", "qpn")
	failedRecord = trace.NewKind(trace.Verbs, "completion failed", "$status", "qpn", "wr_id", "$state")
)

var opcodeTexts = func() (texts [verbs.OpFetchAdd + 1]uint64) {
	for i := range texts {
		texts[i] = trace.Intern(verbs.Opcode(i).String())
	}
	return texts
}()

func hex(n uint32) string { return fmt.Sprintf("0x%06x", n) }

func traceRequest(kind trace.Kind, what string, q *qp, s *slot) {
	if !trace.Enabled(trace.Wire) {
		return
	}
	to := q.num
	if kind == requestSent {
		to = q.attr.DestQPN
	}
	kind.Instant(opcodeTexts[s.op], uint64(to), uint64(s.seq), uint64(s.length))
	trace.Debug(trace.Wire, what, slog.String("op", verbs.Opcode(s.op).String()), slog.String("to", hex(to)), slog.Int("number", int(s.seq)),
		slog.Int("bytes", int(s.length)), slog.Int("of", int(s.total)))
}

// traceModified records a change that a queue pair has taken.
func traceModified(q *qp, from verbs.QPState, a *verbs.QPAttr, mask verbs.AttrMask) {
	if q.state != from {
		stateRecord.Instant(trace.Intern(q.state.String()), uint64(q.num), 0, 0)
	}
	if !trace.Enabled(trace.Verbs) {
		return
	}
	attrs := []slog.Attr{slog.String("qpn", hex(q.num)), slog.String("from", from.String()), slog.String("to", q.state.String())}
	if mask&verbs.AttrAV != 0 {
		attrs = append(attrs, slog.String("dgid", a.AH.GRH.DGID.String()))
	}
	if mask&verbs.AttrDestQPN != 0 {
		attrs = append(attrs, slog.String("dest_qp_num", hex(a.DestQPN)))
	}
	trace.Debug(trace.Verbs, "queue pair modified", append(attrs, slog.String("set", mask.String()))...)
}

// traceFailed records a completion that is no success. Flushed requests follow
// another failure and are printed only.
func traceFailed(q *qp, c *verbs.Completion, receive bool) {
	state := q.state.String()
	if c.Status != verbs.FlushError {
		failedRecord.Instant(trace.Intern(c.Status.String()), uint64(q.num), c.ID, trace.Intern(state))
	}
	if trace.Enabled(trace.Verbs) {
		trace.Debug(trace.Verbs, "completion failed", slog.String("qpn", hex(q.num)), slog.String("state", state),
			slog.String("status", c.Status.String()), slog.String("wr_id", fmt.Sprintf("%#x", c.ID)), slog.Bool("receive", receive))
	}
}
