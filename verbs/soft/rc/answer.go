package rc

import (
	"slices"

	"ringcli/verbs"
	"ringcli/verbs/soft/wire"
)

// answer is a READ or an atomic: remembered for replay, and in the queue of
// answers with the next PSN to send.
type answer struct {
	valid  bool // false: no such answer yet
	atomic bool
	replay bool // in the queue: the requester asked again
	slot   int  // in remembered
	first  uint32
	last   uint32
	cur    uint32 // in the queue: PSN of the next response
	msn    uint32
	va     uint64
	length uint32
	rkey   uint32
	orig   *uint64 // atomic: the value before, filled in by the caller's Order
}

// owed is what the responder owes besides an ACK: answers in order, then
// one NAK.
type owed struct {
	queue []answer
	nak   wire.Syndrome // 0: none
	nakAt uint32        // PSN
}

func (o *owed) clear() { o.queue, o.nak = o.queue[:0], 0 }

// remember makes room for as many READs and atomics at once as max_dest_rd_atomic
// says, and forgets those that were answered before.
func (r *responder) remember(n int) {
	if n == len(r.remembered) {
		return
	}
	r.queue = make([]answer, 0, 2*n) // one a slot; a READ repeated in parts may take more
	r.remembered = make([]answer, n)
	r.origs = make([]uint64, n)
	r.nextAnswer = 0
}

func (q *QP) stepRead(p *wire.Packet, out *Output) {
	length := p.RETH.DMALen()
	switch {
	case q.attr.Access&verbs.AccessRemoteRead == 0, length > verbs.MaxMessage, len(p.Payload) != 0, !q.freeSlot():
		q.refuse(wire.NakInvalidRequest, out)
		return
	case length != 0 && !q.cfg.Memory.Remote(p.RETH.RKey(), p.RETH.VA(), uint64(length), verbs.AccessRemoteRead):
		q.refuse(wire.NakRemoteAccess, out)
		return
	}
	last := wire.PSNAdd(p.PSN, q.packets(uint64(length))-1)
	q.answer(answer{first: p.PSN, last: last, va: p.RETH.VA(), length: length, rkey: p.RETH.RKey()})
}

func (q *QP) stepAtomic(p *wire.Packet, out *Output) {
	va := p.Atomic.VA()
	switch {
	case q.attr.Access&verbs.AccessRemoteAtomic == 0, va%8 != 0, len(p.Payload) != 0, !q.freeSlot():
		q.refuse(wire.NakInvalidRequest, out)
		return
	case !q.cfg.Memory.Remote(p.Atomic.RKey(), va, 8, verbs.AccessRemoteAtomic):
		q.refuse(wire.NakRemoteAccess, out)
		return
	}
	orig := &q.origs[q.nextAnswer]
	order := Order{Kind: FetchAdd, Addr: va, Value: p.Atomic.SwapAdd(), Result: orig}
	if p.Opcode == wire.CompareSwap {
		order = Order{Kind: CompSwap, Addr: va, Value: p.Atomic.Compare(), Swap: p.Atomic.SwapAdd(), Result: orig}
	}
	out.Orders = append(out.Orders, order)
	q.answer(answer{atomic: true, first: p.PSN, last: p.PSN, orig: orig})
}

// freeSlot prepares the slot of the oldest READ or atomic for a new one. By then
// a requester that keeps to max_dest_rd_atomic has the oldest one's answer, though
// it may have asked for it twice: a replay that is still queued is dropped. If the
// answer itself is still queued there are too many outstanding: false.
func (q *QP) freeSlot() bool {
	if len(q.remembered) == 0 {
		return false
	}
	for len(q.queue) > 0 && q.queue[0].slot == q.nextAnswer {
		if !q.queue[0].replay {
			return false
		}
		q.queue = q.queue[:copy(q.queue, q.queue[1:])]
	}
	return true
}

// answer remembers a new READ or atomic and queues it. Its response acknowledges
// whatever came before.
func (q *QP) answer(a answer) {
	q.msn = (q.msn + 1) & wire.PSNMask
	a.valid, a.msn, a.cur, a.slot = true, q.msn, a.first, q.nextAnswer
	q.remembered[q.nextAnswer] = a
	q.nextAnswer = (q.nextAnswer + 1) % len(q.remembered)
	q.queue = append(q.queue, a)
	q.expected = wire.PSNAdd(a.last, 1)
	q.ackOwed = false
}

// duplicate answers a request that was carried out before.
func (q *QP) duplicate(p *wire.Packet) {
	if p.Flags&(wire.IsRead|wire.IsAtomic) == 0 {
		q.ackOwed = true
		q.ackCount++
		return
	}
	for i := range q.remembered {
		// The latest first: of those from a whole round of PSNs ago, one may
		// have the same PSN.
		n := len(q.remembered)
		a := q.remembered[(q.nextAnswer+n-1-i)%n]
		into := wire.PSNDiff(p.PSN, a.first)
		if into < 0 || wire.PSNDiff(p.PSN, a.last) > 0 || a.atomic != (p.Flags&wire.IsAtomic != 0) || !a.valid {
			continue
		}
		if !a.atomic {
			// A READ may come again from the middle on.
			offset := uint64(into) * uint64(q.mtu)
			length := p.RETH.DMALen()
			last := wire.PSNAdd(p.PSN, q.packets(uint64(length))-1)
			if p.RETH.RKey() != a.rkey || p.RETH.VA() != a.va+offset || uint64(length) > uint64(a.length)-offset || wire.PSNDiff(last, a.last) > 0 {
				return
			}
			a.first, a.last, a.va, a.length = p.PSN, last, p.RETH.VA(), length
		}
		a.replay, a.cur = true, a.first
		q.again(a)
		return
	}
}

// again queues a replay at its place in the order of PSNs, in which duplicates are
// answered, before new requests (IBTA, C9-110). What follows it in the queue stays:
// the network may have doubled this one request, and a requester that went back
// repeats the others too.
func (q *QP) again(a answer) {
	at := 0
	for at < len(q.queue) && wire.PSNDiff(q.queue[at].last, a.first) < 0 {
		at++
	}
	if at < len(q.queue) && q.queue[at].slot == a.slot && wire.PSNDiff(a.last, q.queue[at].cur) >= 0 {
		// What is asked for again is still being answered: that goes on from there.
		o := &q.queue[at]
		if wire.PSNDiff(o.last, a.last) > 0 {
			a.last, a.length = o.last, o.length+uint32(wire.PSNDiff(o.first, a.first))*uint32(q.mtu)
		}
		a.replay = o.replay
		*o = a
		return
	}
	if len(q.queue) < cap(q.queue) {
		q.queue = slices.Insert(q.queue, at, a)
	}
}

// emitResponses appends READ responses and atomic ACKs, then the NAK, and reports
// whether it stopped for the budget.
//
// A replay whose region is gone is dropped: the requester, or the network, repeats a
// READ whose answer came long ago, for its owner deregisters only then. A responder
// silently drops a duplicate READ that it cannot answer any more (IBTA volume 1,
// chapter 9, responder error behaviour, class D; so do the Linux drivers hfi1 and qib,
// rc_rcv_error); rdma_rxe fails the QP.
func (q *QP) emitResponses(budget int, out *Output) (more bool) {
	done := 0
	for done < len(q.queue) {
		a := &q.queue[done]
		for wire.PSNDiff(a.cur, a.last) <= 0 {
			if budget <= 0 {
				q.queue = q.queue[:copy(q.queue, q.queue[done:])]
				return true
			}
			budget--
			if a.atomic {
				q.emitAtomicAck(a, out)
			} else if !q.emitReadResponse(a, out) {
				if a.replay {
					break
				}
				q.clear()
				q.owe(wire.NakRemoteAccess, a.cur)
				q.becomeErr(out)
				q.emitNak(out)
				return false
			}
			q.cfg.Counters.ResponsePkts++
			a.cur = wire.PSNAdd(a.cur, 1)
		}
		done++
	}
	q.queue = q.queue[:0]
	q.emitNak(out)
	return false
}

func (q *QP) emitReadResponse(a *answer, out *Output) bool {
	offset := int(wire.PSNDiff(a.cur, a.first)) * q.mtu
	length := min(q.mtu, int(a.length)-offset)
	addr := a.va + uint64(offset)
	if length != 0 && !q.cfg.Memory.Remote(a.rkey, addr, uint64(length), verbs.AccessRemoteRead) {
		return false
	}
	first, last := a.cur == a.first, a.cur == a.last
	op := wire.ReadRespMiddle
	switch {
	case first && last:
		op = wire.ReadRespOnly
	case first:
		op = wire.ReadRespFirst
	case last:
		op = wire.ReadRespLast
	}
	f := q.responseBTH(op, a.cur)
	f.PadCount = uint8(wire.Pad(length))
	p := out.packet(&f)
	if first || last {
		wire.AETH(p.Header[wire.BTHLen:]).Encode(wire.SyndromeAck, a.msn)
	}
	p.Len = uint32(length)
	if length != 0 {
		p.FirstFrag, p.Frags = uint32(len(out.Frags)), 1
		out.Frags = append(out.Frags, Frag{Addr: addr, Len: uint32(length)})
	}
	return true
}

func (q *QP) emitAtomicAck(a *answer, out *Output) {
	f := q.responseBTH(wire.AtomicAck, a.cur)
	h := out.packet(&f).Header[wire.BTHLen:]
	wire.AETH(h).Encode(wire.SyndromeAck, a.msn)
	wire.AtomicAckETH(h[wire.AETHLen:]).Encode(*a.orig)
}
