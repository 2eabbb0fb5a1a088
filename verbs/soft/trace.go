package soft

import (
	"fmt"
	"log/slog"

	"ringcli/trace"
	"ringcli/verbs"
	"ringcli/verbs/soft/wire"
)

// Packets are recorded and printed while the events of the wire are traced at
// level debug. The QPN is the packet's, the receiver's, so that the two ends
// record a packet alike.
var (
	packetSent     = trace.NewKind(trace.Wire, "packet sent", "$opcode", "qpn", "psn", "bytes")
	packetReceived = trace.NewKind(trace.Wire, "packet received", "$opcode", "qpn", "psn", "bytes")
)

// opcodeTexts are the interned names of all opcodes.
var opcodeTexts = func() (texts [256]uint64) {
	unknown := trace.Intern("unknown opcode")
	for i := range texts {
		texts[i] = unknown
		if o := wire.Opcode(i); o.Flags() != 0 {
			texts[i] = trace.Intern(o.String())
		}
	}
	return texts
}()

// tracePacket records and prints one packet of a queue pair. headers are those
// from the BTH on; bytes is the length of the payload.
func tracePacket(kind trace.Kind, what string, q *qp, headers []byte, bytes int) {
	b := wire.BTH(headers)
	op := b.Opcode()
	kind.Instant(opcodeTexts[op], uint64(b.DestQPN()), uint64(b.PSN()), uint64(bytes))
	attrs := []slog.Attr{
		slog.String("op", op.String()), slog.String("from", verbs.Hex(q.QPN)), slog.String("to", verbs.Hex(b.DestQPN())),
		slog.String("psn", verbs.Hex(b.PSN())), slog.Int("bytes", bytes),
	}
	if kind == packetReceived {
		attrs[1] = slog.String("from", verbs.Hex(q.rc.Attr().DestQPN))
	}
	if b.AckReq() {
		attrs = append(attrs, slog.Bool("ack_req", true))
	}
	if flags := op.Flags(); flags&wire.HasAETH != 0 {
		h := wire.AETH(headers[wire.BTHLen:])
		attrs = append(attrs, slog.String("syndrome", h.Syndrome().String()), slog.Int("msn", int(h.MSN())))
	} else if flags&wire.HasRETH != 0 {
		h := wire.RETH(headers[wire.BTHLen:])
		attrs = append(attrs, slog.String("remote_addr", fmt.Sprintf("%#x", h.VA())), slog.String("rkey", fmt.Sprintf("%#x", h.RKey())),
			slog.Uint64("length", uint64(h.DMALen())))
	}
	trace.Debug(trace.Wire, what, attrs...)
}
