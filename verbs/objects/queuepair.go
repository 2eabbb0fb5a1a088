package objects

import (
	"fmt"
	"log/slog"
	"sync/atomic"

	"ringcli/trace"
	"ringcli/verbs"
	"ringcli/verbs/memory"
)

// QueuePair is what the queue pairs of providers have alike: the number, what they were
// created with, room for inline data, and the other objects, which are not closed before
// them. A provider's QP embeds it.
type QueuePair struct {
	Domain         *Domain
	SendCQ, RecvCQ *CQ
	InitAttr       verbs.QPInitAttr
	QPN            uint32 // set by the provider

	closed atomic.Bool
	inline *memory.Block // MaxInlineData bytes for each place of the send queue
}

// Prepare makes it a queue pair of the domain, or tells why there cannot be such a one.
// Retain comes next.
func (q *QueuePair) Prepare(p *Domain, a *verbs.QPInitAttr) error {
	if p.closed.Load() {
		return fmt.Errorf("create queue pair: protection domain: %w", verbs.ErrClosed)
	}
	send, ok1 := a.SendCQ.(*CQ)
	recv, ok2 := a.RecvCQ.(*CQ)
	if !ok1 || !ok2 || send.ctx != p.ctx || recv.ctx != p.ctx {
		return fmt.Errorf("create queue pair: %w: both completion queues must be of the same context", verbs.ErrInvalid)
	}
	q.Domain, q.SendCQ, q.RecvCQ, q.InitAttr = p, send, recv, *a
	return verbs.CheckQP(a, p.ctx.limits)
}

// Retain keeps the domain and the completion queues from being closed, and makes room
// for inline data in so many places of the send queue.
func (q *QueuePair) Retain(places int) (err error) {
	if most := q.Domain.ctx.limits.MaxQP; q.count(1) > int64(most) {
		q.count(-1)
		return fmt.Errorf("create queue pair: %w: %d are open, which is the most", verbs.ErrNoMemory, most)
	}
	if n := q.InitAttr.Cap.MaxInlineData * places; n > 0 {
		if q.inline, err = memory.Alloc(uint64(n)); err != nil {
			q.count(-1)
			return fmt.Errorf("create queue pair: inline buffers: %w", err)
		}
	}
	return nil
}

// count counts the queue pair, and returns how many the Context has; one completion
// queue counts it once a side.
func (q *QueuePair) count(n int64) int64 {
	q.Domain.children.Add(n)
	q.SendCQ.users.Add(n)
	q.RecvCQ.users.Add(n)
	return q.Domain.ctx.queuePairs.Add(n)
}

// Shut makes Live fail, and reports whether this call did.
func (q *QueuePair) Shut() bool { return !q.closed.Swap(true) }

// Release undoes Retain, at the end of Close.
func (q *QueuePair) Release() error {
	if trace.Enabled(trace.Verbs) {
		trace.Debug(trace.Verbs, "queue pair closed", slog.String("qpn", verbs.Hex(q.QPN)))
	}
	q.count(-1)
	return q.inline.Free()
}

func (q *QueuePair) Num() uint32  { return q.QPN }
func (q *QueuePair) PD() verbs.PD { return q.Domain }

// Live returns an error once the queue pair is closed.
func (q *QueuePair) Live() error {
	if q.closed.Load() {
		return fmt.Errorf("QP 0x%06x: %w", q.QPN, verbs.ErrClosed)
	}
	return nil
}

// CopyInline copies the data of a request to the room at its place of the send queue,
// and returns where they are: nowhere if there are none.
func (q *QueuePair) CopyInline(place int, sgl []verbs.SGE) verbs.SGE {
	n, at := q.InitAttr.Cap.MaxInlineData, 0
	if n == 0 {
		return verbs.SGE{}
	}
	room := q.inline.Bytes()[place*n:][:n]
	for i := range sgl {
		at += copy(room[at:], memory.Bytes(sgl[i].Addr, int(sgl[i].Length)))
	}
	return verbs.SGE{Addr: memory.Addr(room), Length: uint32(at)}
}

// TraceCreated prints that the queue pair is there, and where.
func (q *QueuePair) TraceCreated(where slog.Attr) {
	if trace.Enabled(trace.Verbs) {
		c := &q.InitAttr.Cap
		trace.Debug(trace.Verbs, "queue pair created", slog.String("qpn", verbs.Hex(q.QPN)), slog.Int("max_send_wr", c.MaxSendWR),
			slog.Int("max_recv_wr", c.MaxRecvWR), where)
	}
}

// The first 16 numbers are left alone, as rdma_rxe does (0 and 1 are reserved by the
// specification), and the last 16.
const firstQPN, lastQPN = 16, 1<<24 - 17

// NewQPN returns a number that is not taken, and that nobody can guess: RoCE asks a packet
// for no more than its queue pair's number and a PSN of its window.
func NewQPN(taken func(uint32) bool) uint32 {
	for {
		if n := verbs.Random32() >> 8; n >= firstQPN && n <= lastQPN && !taken(n) {
			return n
		}
	}
}

// Few and telling: these are recorded always.
var (
	stateRecord  = trace.NewKind(trace.Verbs, "queue pair state", "$state", "qpn")
	failedRecord = trace.NewKind(trace.Verbs, "completion failed", "$status", "qpn", "wr_id", "$state")
)

// TraceModified records a change that a queue pair has taken.
func TraceModified(qpn uint32, from, to verbs.QPState, a *verbs.QPAttr, mask verbs.AttrMask) {
	if to != from {
		stateRecord.Instant(trace.Intern(to.String()), uint64(qpn), 0, 0)
	}
	if !trace.Enabled(trace.Verbs) {
		return
	}
	attrs := []slog.Attr{slog.String("qpn", verbs.Hex(qpn)), slog.String("from", from.String()), slog.String("to", to.String())}
	for _, attr := range []struct {
		mask  verbs.AttrMask
		attrs []slog.Attr
	}{
		{verbs.AttrAccess, []slog.Attr{slog.String("qp_access_flags", a.Access.String())}},
		{verbs.AttrPKeyIndex, []slog.Attr{slog.Int("pkey_index", int(a.PKeyIndex))}},
		{verbs.AttrPort, []slog.Attr{slog.Int("port_num", a.PortNum)}},
		{verbs.AttrAV, []slog.Attr{slog.String("dgid", a.AH.GRH.DGID.String()), slog.Int("sgid_index", a.AH.GRH.SGIDIndex), slog.Int("udp_port", int(a.AH.UDP.Port))}},
		{verbs.AttrPathMTU, []slog.Attr{slog.Int("path_mtu", a.PathMTU.Bytes())}},
		{verbs.AttrDestQPN, []slog.Attr{slog.String("dest_qp_num", verbs.Hex(a.DestQPN))}},
		{verbs.AttrRQPSN, []slog.Attr{slog.String("rq_psn", verbs.Hex(a.RQPSN))}},
		{verbs.AttrMaxDestRDAtomic, []slog.Attr{slog.Int("max_dest_rd_atomic", int(a.MaxDestRDAtomic))}},
		{verbs.AttrMinRNRTimer, []slog.Attr{slog.Int("min_rnr_timer", int(a.MinRNRTimer))}},
		{verbs.AttrTimeout, []slog.Attr{slog.Int("timeout", int(a.Timeout))}},
		{verbs.AttrRetryCnt, []slog.Attr{slog.Int("retry_cnt", int(a.RetryCnt))}},
		{verbs.AttrRNRRetry, []slog.Attr{slog.Int("rnr_retry", int(a.RNRRetry))}},
		{verbs.AttrSQPSN, []slog.Attr{slog.String("sq_psn", verbs.Hex(a.SQPSN))}},
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
		trace.Debug(trace.Verbs, "completion failed", slog.String("qpn", verbs.Hex(qpn)), slog.String("state", state.String()),
			slog.String("status", c.Status.String()), slog.String("wr_id", fmt.Sprintf("%#x", c.ID)), slog.Bool("receive", receive))
	}
}
