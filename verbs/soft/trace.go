package soft

import (
	"fmt"
	"log/slog"
	"net/netip"

	"ringcli/trace"
	"ringcli/verbs"
	"ringcli/verbs/soft/rc"
	"ringcli/verbs/soft/wire"
)

// Packets are recorded and printed while the events of the wire are traced at
// level debug. The QPN is the packet's, the receiver's, so that the two ends
// record a packet alike.
var (
	packetSent     = trace.NewKind(trace.Wire, "packet sent", "$opcode", "qpn", "psn", "bytes")
	packetReceived = trace.NewKind(trace.Wire, "packet received", "$opcode", "qpn", "psn", "bytes")
)

// Few and telling: these are recorded always.
var (
	stateRecord  = trace.NewKind(trace.Verbs, "queue pair state", "$state", "qpn")
	failedRecord = trace.NewKind(trace.Verbs, "completion failed", "$status", "qpn", "wr_id", "$state")
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

// hex writes a number of 24 bits as errors do.
func hex(n uint32) string { return fmt.Sprintf("0x%06x", n) }

// tracePacket records and prints one packet of a queue pair. headers are those
// from the BTH on; bytes is the length of the payload.
func tracePacket(kind trace.Kind, what string, q *qp, headers []byte, bytes int) {
	b := wire.BTH(headers)
	op := b.Opcode()
	kind.Instant(opcodeTexts[op], uint64(b.DestQPN()), uint64(b.PSN()), uint64(bytes))
	attrs := []slog.Attr{
		slog.String("op", op.String()), slog.String("from", hex(q.num)), slog.String("to", hex(b.DestQPN())),
		slog.Int("psn", int(b.PSN())), slog.Int("bytes", bytes),
	}
	if kind == packetReceived {
		attrs[1] = slog.String("from", hex(q.rc.Attr().DestQPN))
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

func traceSent(q *qp, packets []rc.Packet) {
	for i := range packets {
		p := &packets[i]
		tracePacket(packetSent, "packet sent", q, p.Header[:p.HeaderLen], int(p.Len))
	}
}

// traceDropped prints why a packet is ignored.
func traceDropped(why string, src netip.AddrPort, b []byte) {
	trace.Debug(trace.Wire, "packet dropped: "+why, slog.String("source", src.String()), slog.Int("bytes", len(b)))
}

// traceModified records a change that a queue pair has taken.
func traceModified(q *qp, from verbs.QPState, a *verbs.QPAttr, mask verbs.AttrMask) {
	to := q.rc.State()
	if to != from {
		stateRecord.Instant(trace.Intern(to.String()), uint64(q.num), 0, 0)
	}
	if !trace.Enabled(trace.Verbs) {
		return
	}
	attrs := []slog.Attr{slog.String("qpn", hex(q.num)), slog.String("from", from.String()), slog.String("to", to.String())}
	for _, attr := range []struct {
		mask  verbs.AttrMask
		attrs []slog.Attr
	}{
		{verbs.AttrAccess, []slog.Attr{slog.String("qp_access_flags", a.Access.String())}},
		{verbs.AttrPKeyIndex, []slog.Attr{slog.Int("pkey_index", int(a.PKeyIndex))}},
		{verbs.AttrPort, []slog.Attr{slog.Int("port_num", a.PortNum)}},
		{verbs.AttrAV, []slog.Attr{slog.String("dgid", a.AH.GRH.DGID.String()), slog.Int("sgid_index", a.AH.GRH.SGIDIndex), slog.String("peer", q.peer.String())}},
		{verbs.AttrPathMTU, []slog.Attr{slog.Int("path_mtu", a.PathMTU.Bytes())}},
		{verbs.AttrDestQPN, []slog.Attr{slog.String("dest_qp_num", hex(a.DestQPN))}},
		{verbs.AttrRQPSN, []slog.Attr{slog.Int("rq_psn", int(a.RQPSN))}},
		{verbs.AttrMaxDestRDAtomic, []slog.Attr{slog.Int("max_dest_rd_atomic", int(a.MaxDestRDAtomic))}},
		{verbs.AttrMinRNRTimer, []slog.Attr{slog.Int("min_rnr_timer", int(a.MinRNRTimer))}},
		{verbs.AttrTimeout, []slog.Attr{slog.Int("timeout", int(a.Timeout))}},
		{verbs.AttrRetryCnt, []slog.Attr{slog.Int("retry_cnt", int(a.RetryCnt))}},
		{verbs.AttrRNRRetry, []slog.Attr{slog.Int("rnr_retry", int(a.RNRRetry))}},
		{verbs.AttrSQPSN, []slog.Attr{slog.Int("sq_psn", int(a.SQPSN))}},
		{verbs.AttrMaxRDAtomic, []slog.Attr{slog.Int("max_rd_atomic", int(a.MaxRDAtomic))}},
	} {
		if mask&attr.mask != 0 {
			attrs = append(attrs, attr.attrs...)
		}
	}
	trace.Debug(trace.Verbs, "queue pair modified", attrs...)
}

// traceFailed records a completion that is no success. Flushed requests follow
// another failure and are printed only.
func traceFailed(q *qp, c *rc.Completion) {
	state := q.rc.State().String()
	if c.Status != verbs.FlushError {
		failedRecord.Instant(trace.Intern(c.Status.String()), uint64(q.num), c.ID, trace.Intern(state))
	}
	if trace.Enabled(trace.Verbs) {
		trace.Debug(trace.Verbs, "completion failed", slog.String("qpn", hex(q.num)), slog.String("state", state),
			slog.String("status", c.Status.String()), slog.String("wr_id", fmt.Sprintf("%#x", c.ID)), slog.Bool("receive", c.Recv))
	}
}
