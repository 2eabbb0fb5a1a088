package objects

import (
	"fmt"
	"log/slog"

	"ringcli/trace"
	"ringcli/verbs"
)

// Few and telling: these are recorded always.
var (
	stateRecord  = trace.NewKind(trace.Verbs, "queue pair state", "$state", "qpn")
	failedRecord = trace.NewKind(trace.Verbs, "completion failed", "$status", "qpn", "wr_id", "$state")
)

// Hex writes a number of 24 bits as errors do.
func Hex(n uint32) string { return fmt.Sprintf("0x%06x", n) }

// TraceModified records a change that a queue pair has taken.
func TraceModified(qpn uint32, from, to verbs.QPState, a *verbs.QPAttr, mask verbs.AttrMask) {
	if to != from {
		stateRecord.Instant(trace.Intern(to.String()), uint64(qpn), 0, 0)
	}
	if !trace.Enabled(trace.Verbs) {
		return
	}
	attrs := []slog.Attr{slog.String("qpn", Hex(qpn)), slog.String("from", from.String()), slog.String("to", to.String())}
	for _, attr := range []struct {
		mask  verbs.AttrMask
		attrs []slog.Attr
	}{
		{verbs.AttrAccess, []slog.Attr{slog.String("qp_access_flags", a.Access.String())}},
		{verbs.AttrPKeyIndex, []slog.Attr{slog.Int("pkey_index", int(a.PKeyIndex))}},
		{verbs.AttrPort, []slog.Attr{slog.Int("port_num", a.PortNum)}},
		{verbs.AttrAV, []slog.Attr{slog.String("dgid", a.AH.GRH.DGID.String()), slog.Int("sgid_index", a.AH.GRH.SGIDIndex), slog.Int("udp_port", int(a.AH.UDP.Port))}},
		{verbs.AttrPathMTU, []slog.Attr{slog.Int("path_mtu", a.PathMTU.Bytes())}},
		{verbs.AttrDestQPN, []slog.Attr{slog.String("dest_qp_num", Hex(a.DestQPN))}},
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

// TraceFailed records a completion that is no success. Flushed requests follow
// another failure and are printed only.
func TraceFailed(qpn uint32, state verbs.QPState, c *verbs.Completion, receive bool) {
	if c.Status != verbs.FlushError {
		failedRecord.Instant(trace.Intern(c.Status.String()), uint64(qpn), c.ID, trace.Intern(state.String()))
	}
	if trace.Enabled(trace.Verbs) {
		trace.Debug(trace.Verbs, "completion failed", slog.String("qpn", Hex(qpn)), slog.String("state", state.String()),
			slog.String("status", c.Status.String()), slog.String("wr_id", fmt.Sprintf("%#x", c.ID)), slog.Bool("receive", receive))
	}
}
