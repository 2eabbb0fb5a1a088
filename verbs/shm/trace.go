package shm

import (
	"log/slog"

	"ringcli/trace"
	"ringcli/verbs"
	"ringcli/verbs/objects"
)

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

func traceRequest(kind trace.Kind, what string, q *qp, s *slot) {
	if !trace.Enabled(trace.Wire) {
		return
	}
	to := q.QPN
	if kind == requestSent {
		to = q.attr.DestQPN
	}
	kind.Instant(opcodeTexts[s.op], uint64(to), uint64(s.seq), uint64(s.length))
	trace.Debug(trace.Wire, what, slog.String("op", verbs.Opcode(s.op).String()), slog.String("to", objects.Hex(to)), slog.Int("number", int(s.seq)),
		slog.Int("bytes", int(s.length)), slog.Int("of", int(s.total)))
}
