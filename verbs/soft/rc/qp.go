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

// QP is a queue pair. It is not safe for concurrent use.
//
//	RESET ─▶ INIT ─▶ RTR ─▶ RTS ◀─▶ SQD
//	  ▲                └──────┬──────┘
//	  └───── any ─────▶ ERR ◀─┘ failure, or becomeErr
type QP struct {
	cfg   Config
	state verbs.QPState
	attr  verbs.QPAttr
	mtu   int

	requester
	responder
}

// New returns a QP in RESET.
func New(cfg Config) *QP {
	q := &QP{cfg: cfg}
	q.requester.init(cfg.Cap)
	q.responder.init(cfg.Cap)
	q.becomeReset()
	return q
}

func (q *QP) State() verbs.QPState { return q.state }
func (q *QP) Num() uint32          { return q.cfg.QPN }

// Attr returns the attributes as they are now; RQPSN and SQPSN are the PSNs that
// are expected and sent next, as rdma_rxe reports them.
func (q *QP) Attr() verbs.QPAttr {
	a := q.attr
	a.State, a.CurState = q.state, q.state
	a.RQPSN, a.SQPSN = q.expected, q.next
	a.Cap = q.cfg.Cap
	return a
}

// Modify applies a change that verbs.CheckModify has let through.
func (q *QP) Modify(a *verbs.QPAttr, mask verbs.AttrMask, out *Output) {
	q.setAttrs(a, mask)
	if mask&verbs.AttrState == 0 || a.State == q.state {
		return
	}
	switch a.State {
	case verbs.StateReset:
		q.becomeReset()
	case verbs.StateErr:
		q.clear()
		q.becomeErr(out)
	case verbs.StateRTS:
		q.becomeRTS()
	default: // INIT, RTR and SQD: nothing but the name changes
		q.state = a.State
	}
}

func (q *QP) setAttrs(a *verbs.QPAttr, mask verbs.AttrMask) {
	q.attr.Set(a, mask)
	q.mtu, q.kept = q.attr.PathMTU.Bytes(), q.attr.AH.UDP.LowIPIDs
	if mask&verbs.AttrRQPSN != 0 {
		q.expect(a.RQPSN)
	}
	if mask&verbs.AttrSQPSN != 0 {
		q.next, q.cur, q.una, q.sent = a.SQPSN, a.SQPSN, a.SQPSN, a.SQPSN
	}
	if mask&verbs.AttrMaxDestRDAtomic != 0 {
		q.remember(int(a.MaxDestRDAtomic))
	}
}

func (q *QP) becomeReset() {
	q.state = verbs.StateReset
	q.attr, q.mtu = verbs.QPAttr{}, 0
	q.requester.reset(q.cfg.Window)
	q.responder.reset()
}

func (q *QP) becomeRTS() {
	q.state = verbs.StateRTS
	q.reads = slices.Grow(q.reads, int(q.attr.MaxRDAtomic))
}

// becomeErr flushes both queues. Answers that the responder still owes (READ
// responses of earlier requests, the NAK that brought the QP here) stay, so that
// the peer learns what happened.
func (q *QP) becomeErr(out *Output) {
	if q.state == verbs.StateErr {
		return
	}
	q.state = verbs.StateErr
	q.ackOwed = false
	q.requestGap.since = 0
	q.flushSends(out)
	q.flushRecvs(out)
}

// Step takes one packet that is addressed to this QP and whose ICRC is right.
// The packet's slices must stay valid until the Orders are carried out. bad is
// what wire.Parse said of it: nil, or wire.ErrPad.
//
// early says that packets before this one are missing. It is dropped; a caller that
// keeps it and steps it again, once Next has moved, spares the peer from sending
// it again.
func (q *QP) Step(p *wire.Packet, bad error, now int64, out *Output) (early bool) {
	if !q.state.Receives() {
		return false // RESET, INIT and ERR take nothing
	}
	if p.Flags&wire.IsResponse != 0 {
		return bad == nil && q.state != verbs.StateRTR && q.stepResponse(p, now, out)
	}
	return p.Flags&wire.IsRequest != 0 && q.stepRequest(p, bad, now, out)
}

// Next returns the PSNs of the request and of the response that are to come next.
func (q *QP) Next() (request, response uint32) { return q.expected, q.una }

// Emit appends up to budget packets that may be sent now: READ responses, NAKs
// and requests, and with acks set the ACK that is owed. It reports whether it
// stopped for the budget alone.
func (q *QP) Emit(now int64, acks bool, budget int, out *Output) (more bool) {
	start := len(out.Packets)
	if q.emitResponses(budget, out) {
		return true
	}
	if q.state == verbs.StateRTS || q.state == verbs.StateSQD {
		more = q.emitRequests(now, budget-(len(out.Packets)-start), out)
	}
	if acks || q.ackCount >= ackEvery {
		q.emitAck(out)
	}
	return more
}

// OwesAck reports whether Emit with acks set would send an ACK.
func (q *QP) OwesAck() bool { return q.ackOwed }

// Unacknowledged returns how many SEND and WRITE packets were taken since the last ACK.
func (q *QP) Unacknowledged() int { return q.ackCount }

// Timeout returns the retransmission timer in nanoseconds; 0 is none.
func (q *QP) Timeout() int64 { return int64(verbs.AckTimeout(q.attr.Timeout)) }

// Deadline returns the time at which Tick wants to be called, or 0 for never.
func (q *QP) Deadline() int64 {
	first := q.timer
	for _, t := range [...]int64{q.rnrUntil, q.probe, q.requestGap.deadline(), q.responseGap.deadline()} {
		if t != 0 && (first == 0 || t < first) {
			first = t
		}
	}
	return first
}

// Idle reports whether nothing is outstanding as requester.
func (q *QP) Idle() bool { return q.sqHead == q.sqTail }

// packets returns how many packets carry length bytes: at least one.
func (q *QP) packets(length uint64) int {
	return max(1, int((length+uint64(q.mtu)-1)/uint64(q.mtu)))
}

func ringSize(n int) int { return 1 << bits.Len(uint(max(n, 1)-1)) }
