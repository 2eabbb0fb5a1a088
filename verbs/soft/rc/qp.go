package rc

import (
	"math/bits"
	"slices"

	"ringcli/verbs"
	"ringcli/verbs/soft/wire"
)

// Memory answers for registered memory. A QP asks anew for every packet, so that
// a region that was deregistered is not touched any more.
type Memory interface {
	// Local reports whether lkey covers length bytes at addr in the QP's PD,
	// for writing if write is set.
	Local(lkey uint32, addr uint64, length uint32, write bool) bool
	// Remote reports whether rkey covers length bytes at addr in the QP's PD
	// and gives the right.
	Remote(rkey uint32, addr uint64, length uint64, right verbs.Access) bool
}

// Config is what a QP is born with.
type Config struct {
	QPN      uint32
	Cap      verbs.QPCap
	SigAll   bool
	Memory   Memory
	Counters *Counters
	// Window is the most request packets in flight; loss makes it smaller for
	// a while. It must be at least 1 and below 2^22.
	Window int
	// KeepEarly says that the caller keeps packets that Step calls early. Then it can
	// be worth while to wait for what is missing before it is asked for again.
	KeepEarly bool
}

const (
	// minWindow is what loss may shrink the window to: below four packets each
	// loss costs a timeout, since too little comes after it to provoke a NAK. A peer
	// that keeps what comes early loses less with a larger one.
	minWindow, minWindowKept = 4, 32
	// readBurst is how many response packets one READ request asks for. A long
	// READ becomes several requests, so that the responses in flight never
	// exceed the window: a responder has none for responses.
	readBurst = 16
	// ackEvery is the most request packets without an AckReq, as rdma_rxe has it. Where
	// half the window is less it is that, so that the window slides and does not jump, but
	// not less than fewestAckEvery.
	ackEvery, fewestAckEvery = 64, 32
)

// connection is what both halves of a queue pair read; the QP alone changes it.
type connection struct {
	cfg   Config
	state verbs.QPState
	attr  verbs.QPAttr
	mtu   int // bytes
}

// packets returns how many packets carry length bytes: at least one.
func (c *connection) packets(length uint64) int {
	return max(1, int((length+uint64(c.mtu)-1)/uint64(c.mtu)))
}

// covered reports whether the lkeys of sge cover its memory, for writing if write is set.
func (c *connection) covered(sge []verbs.SGE, write bool) bool {
	for i := range sge {
		s := &sge[i]
		if s.Length != 0 && !c.cfg.Memory.Local(s.LKey, s.Addr, s.Length, write) {
			return false
		}
	}
	return true
}

// QP is a queue pair: a requester and a responder that share a connection. It is not safe
// for concurrent use.
//
//	RESET ─▶ INIT ─▶ RTR ─▶ RTS ◀─▶ SQD
//	  ▲                └──────┬──────┘
//	  └───── any ─────▶ ERR ◀─┘ failure, or becomeErr
type QP struct {
	conn      connection
	requester requester
	responder responder
}

// New returns a QP in RESET.
func New(cfg Config) *QP {
	q := &QP{conn: connection{cfg: cfg}}
	q.requester.init(&q.conn)
	q.responder.init(&q.conn)
	q.becomeReset()
	return q
}

func (q *QP) State() verbs.QPState { return q.conn.state }
func (q *QP) Num() uint32          { return q.conn.cfg.QPN }

// Attr returns the attributes as they are now; RQPSN and SQPSN are the PSNs that
// are expected and sent next, as rdma_rxe reports them.
func (q *QP) Attr() verbs.QPAttr {
	a := q.conn.attr
	a.State, a.CurState = q.conn.state, q.conn.state
	a.RQPSN, a.SQPSN = q.responder.expected, q.requester.next
	a.Cap = q.conn.cfg.Cap
	return a
}

// Modify applies a change that verbs.CheckModify has let through.
func (q *QP) Modify(a *verbs.QPAttr, mask verbs.AttrMask, out *Output) {
	q.setAttrs(a, mask)
	if mask&verbs.AttrState == 0 || a.State == q.conn.state {
		return
	}
	switch a.State {
	case verbs.StateReset:
		q.becomeReset()
	case verbs.StateErr:
		q.responder.clear()
		q.becomeErr(out)
	case verbs.StateRTS:
		q.conn.state = verbs.StateRTS
		q.requester.reads = slices.Grow(q.requester.reads, int(q.conn.attr.MaxRDAtomic))
	default: // INIT, RTR and SQD: nothing but the name changes
		q.conn.state = a.State
	}
}

func (q *QP) setAttrs(a *verbs.QPAttr, mask verbs.AttrMask) {
	q.conn.attr.Set(a, mask)
	q.conn.mtu, q.requester.kept = q.conn.attr.PathMTU.Bytes(), q.conn.attr.AH.UDP.LowIPIDs
	if mask&verbs.AttrRQPSN != 0 {
		q.responder.expect(a.RQPSN)
	}
	if mask&verbs.AttrSQPSN != 0 {
		q.requester.begins(a.SQPSN)
	}
	if mask&verbs.AttrMaxDestRDAtomic != 0 {
		q.responder.remember(int(a.MaxDestRDAtomic))
	}
}

func (q *QP) becomeReset() {
	q.conn.state = verbs.StateReset
	q.conn.attr, q.conn.mtu = verbs.QPAttr{}, 0
	q.requester.reset()
	q.responder.reset()
}

// becomeErr flushes both queues. Answers that the responder still owes (READ
// responses of earlier requests, the NAK that brought the QP here) stay, so that
// the peer learns what happened.
func (q *QP) becomeErr(out *Output) {
	if q.conn.state == verbs.StateErr {
		return
	}
	q.conn.state = verbs.StateErr
	q.requester.flush(out)
	q.responder.flush(out)
}

// settle moves the QP to ERR if one of its halves has failed. A requester's failure
// cancels the answers that the responder owes.
func (q *QP) settle(out *Output) {
	if q.requester.failed {
		q.responder.clear()
	}
	if q.requester.failed || q.responder.failed {
		q.requester.failed, q.responder.failed = false, false
		q.becomeErr(out)
	}
}

// CheckSend tells whether PostSend would take a work request, and returns the bytes
// of its message.
func (q *QP) CheckSend(wr *verbs.WorkRequest) (length uint64, err error) {
	return q.requester.check(wr)
}

// PostSend queues one work request. The SGL is copied, the memory is not.
func (q *QP) PostSend(wr *verbs.WorkRequest, out *Output) error { return q.requester.post(wr, out) }

// PostRecv queues one receive request. The SGL is copied, the memory is not.
func (q *QP) PostRecv(wr *verbs.WorkRequest, out *Output) error { return q.responder.post(wr, out) }

// Step takes one packet that is addressed to this QP and whose ICRC is right.
// The packet's slices must stay valid until the Orders are carried out. bad is
// what wire.Parse said of it: nil, or wire.ErrPad.
//
// early says that packets before this one are missing. It is dropped; a caller that
// keeps it and steps it again, once Next has moved, spares the peer from sending
// it again.
func (q *QP) Step(p *wire.Packet, bad error, now int64, out *Output) (early bool) {
	switch {
	case !q.conn.state.Receives(): // RESET, INIT and ERR take nothing
	case p.Flags&wire.IsRequest != 0:
		early = q.responder.step(p, bad, now, out)
	case p.Flags&wire.IsResponse != 0 && bad == nil && q.conn.state != verbs.StateRTR:
		early = q.requester.step(p, now, out)
	}
	q.settle(out)
	return early
}

// Next returns the PSNs of the request and of the response that are to come next.
func (q *QP) Next() (request, response uint32) { return q.responder.expected, q.requester.una }

// Tick does what the clock demands. Call Emit afterwards.
func (q *QP) Tick(now int64, out *Output) {
	q.responder.nakGap(now)
	q.requester.tick(now, out)
	q.settle(out)
}

// Emit appends up to budget packets that may be sent now: READ responses, NAKs
// and requests, and with acks set the ACK that is owed. It reports whether it
// stopped for the budget alone.
func (q *QP) Emit(now int64, acks bool, budget int, out *Output) (more bool) {
	start := len(out.Packets)
	if q.responder.emit(budget, out) {
		return true
	}
	q.settle(out)
	if q.conn.state == verbs.StateRTS || q.conn.state == verbs.StateSQD {
		more = q.requester.emit(now, budget-(len(out.Packets)-start), out)
		q.settle(out)
	}
	if acks || q.responder.ackCount >= ackEvery {
		q.responder.emitAck(out)
	}
	return more
}

// OwesAck reports whether Emit with acks set would send an ACK.
func (q *QP) OwesAck() bool { return q.responder.ackOwed }

// Unacknowledged returns how many SEND and WRITE packets were taken since the last ACK.
func (q *QP) Unacknowledged() int { return q.responder.ackCount }

// Timeout returns the retransmission timer in nanoseconds; 0 is none.
func (q *QP) Timeout() int64 { return int64(verbs.AckTimeout(q.conn.attr.Timeout)) }

// Deadline returns the time at which Tick wants to be called, or 0 for never.
func (q *QP) Deadline() int64 {
	r := &q.requester
	first := r.timer
	for _, t := range [...]int64{r.rnrUntil, r.probe, q.responder.requestGap.deadline(), r.responseGap.deadline()} {
		if t != 0 && (first == 0 || t < first) {
			first = t
		}
	}
	return first
}

// Idle reports whether nothing is outstanding as requester.
func (q *QP) Idle() bool { return q.requester.sqHead == q.requester.sqTail }

func ringSize(n int) int { return 1 << bits.Len(uint(max(n, 1)-1)) }
