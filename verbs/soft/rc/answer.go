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

func (r *responder) stepRead(p *wire.Packet, out *Output) {
	length := p.RETH.DMALen()
	switch {
	case r.conn.attr.Access&verbs.AccessRemoteRead == 0, length > verbs.MaxMessage, len(p.Payload) != 0, !r.freeSlot():
		r.refuse(wire.NakInvalidRequest, out)
		return
	case length != 0 && !r.conn.cfg.Memory.Remote(p.RETH.RKey(), p.RETH.VA(), uint64(length), verbs.AccessRemoteRead):
		r.refuse(wire.NakRemoteAccess, out)
		return
	}
	last := wire.PSNAdd(p.PSN, r.conn.packets(uint64(length))-1)
	r.answer(answer{first: p.PSN, last: last, va: p.RETH.VA(), length: length, rkey: p.RETH.RKey()})
}

func (r *responder) stepAtomic(p *wire.Packet, out *Output) {
	va := p.Atomic.VA()
	switch {
	case r.conn.attr.Access&verbs.AccessRemoteAtomic == 0, va%8 != 0, len(p.Payload) != 0, !r.freeSlot():
		r.refuse(wire.NakInvalidRequest, out)
		return
	case !r.conn.cfg.Memory.Remote(p.Atomic.RKey(), va, 8, verbs.AccessRemoteAtomic):
		r.refuse(wire.NakRemoteAccess, out)
		return
	}
	orig := &r.origs[r.nextAnswer]
	order := Order{Kind: FetchAdd, Addr: va, Value: p.Atomic.SwapAdd(), Result: orig}
	if p.Opcode == wire.CompareSwap {
		order = Order{Kind: CompSwap, Addr: va, Value: p.Atomic.Compare(), Swap: p.Atomic.SwapAdd(), Result: orig}
	}
	out.Orders = append(out.Orders, order)
	r.answer(answer{atomic: true, first: p.PSN, last: p.PSN, orig: orig})
}

// freeSlot prepares the slot of the oldest READ or atomic for a new one. By then
// a requester that keeps to max_dest_rd_atomic has the oldest one's answer, though
// it may have asked for it twice: a replay that is still queued is dropped. If the
// answer itself is still queued there are too many outstanding: false.
func (r *responder) freeSlot() bool {
	if len(r.remembered) == 0 {
		return false
	}
	for len(r.queue) > 0 && r.queue[0].slot == r.nextAnswer {
		if !r.queue[0].replay {
			return false
		}
		r.queue = r.queue[:copy(r.queue, r.queue[1:])]
	}
	return true
}

// answer remembers a new READ or atomic and queues it. Its response acknowledges
// whatever came before.
func (r *responder) answer(a answer) {
	r.msn = (r.msn + 1) & wire.PSNMask
	a.valid, a.msn, a.cur, a.slot = true, r.msn, a.first, r.nextAnswer
	r.remembered[r.nextAnswer] = a
	r.nextAnswer = (r.nextAnswer + 1) % len(r.remembered)
	r.queue = append(r.queue, a)
	r.expected = wire.PSNAdd(a.last, 1)
	r.ackOwed = false
}

// duplicate answers a request that was carried out before.
func (r *responder) duplicate(p *wire.Packet) {
	if p.Flags&(wire.IsRead|wire.IsAtomic) == 0 {
		r.ackOwed = true
		r.ackCount++
		return
	}
	for i := range r.remembered {
		// The latest first: of those from a whole round of PSNs ago, one may
		// have the same PSN.
		n := len(r.remembered)
		a := r.remembered[(r.nextAnswer+n-1-i)%n]
		into := wire.PSNDiff(p.PSN, a.first)
		if into < 0 || wire.PSNDiff(p.PSN, a.last) > 0 || a.atomic != (p.Flags&wire.IsAtomic != 0) || !a.valid {
			continue
		}
		if !a.atomic {
			// A READ may come again from the middle on.
			offset := uint64(into) * uint64(r.conn.mtu)
			length := p.RETH.DMALen()
			last := wire.PSNAdd(p.PSN, r.conn.packets(uint64(length))-1)
			if p.RETH.RKey() != a.rkey || p.RETH.VA() != a.va+offset || uint64(length) > uint64(a.length)-offset || wire.PSNDiff(last, a.last) > 0 {
				return
			}
			a.first, a.last, a.va, a.length = p.PSN, last, p.RETH.VA(), length
		}
		a.replay, a.cur = true, a.first
		r.again(a)
		return
	}
}

// again queues a replay at its place in the order of PSNs, in which duplicates are
// answered, before new requests (IBTA, C9-110). What follows it in the queue stays:
// the network may have doubled this one request, and a requester that went back
// repeats the others too.
func (r *responder) again(a answer) {
	at := 0
	for at < len(r.queue) && wire.PSNDiff(r.queue[at].last, a.first) < 0 {
		at++
	}
	if at < len(r.queue) && r.queue[at].slot == a.slot && wire.PSNDiff(a.last, r.queue[at].cur) >= 0 {
		// What is asked for again is still being answered: that goes on from there.
		o := &r.queue[at]
		if wire.PSNDiff(o.last, a.last) > 0 {
			a.last, a.length = o.last, o.length+uint32(wire.PSNDiff(o.first, a.first))*uint32(r.conn.mtu)
		}
		a.replay = o.replay
		*o = a
		return
	}
	if len(r.queue) < cap(r.queue) {
		r.queue = slices.Insert(r.queue, at, a)
	}
}

// emit appends READ responses and atomic ACKs, then the NAK, and reports
// whether it stopped for the budget.
//
// A replay whose region is gone is dropped: the requester, or the network, repeats a
// READ whose answer came long ago, for its owner deregisters only then. A responder
// silently drops a duplicate READ that it cannot answer any more (IBTA volume 1,
// chapter 9, responder error behaviour, class D; so do the Linux drivers hfi1 and qib,
// rc_rcv_error); rdma_rxe fails the QP.
func (r *responder) emit(budget int, out *Output) (more bool) {
	done := 0
	for done < len(r.queue) {
		a := &r.queue[done]
		for wire.PSNDiff(a.cur, a.last) <= 0 {
			if budget <= 0 {
				r.queue = r.queue[:copy(r.queue, r.queue[done:])]
				return true
			}
			budget--
			if a.atomic {
				r.emitAtomicAck(a, out)
			} else if !r.emitReadResponse(a, out) {
				if a.replay {
					break
				}
				r.clear()
				r.owe(wire.NakRemoteAccess, a.cur)
				r.failed = true
				r.emitNak(out)
				return false
			}
			r.conn.cfg.Counters.ResponsePkts++
			a.cur = wire.PSNAdd(a.cur, 1)
		}
		done++
	}
	r.queue = r.queue[:0]
	r.emitNak(out)
	return false
}

func (r *responder) emitReadResponse(a *answer, out *Output) bool {
	offset := int(wire.PSNDiff(a.cur, a.first)) * r.conn.mtu
	length := min(r.conn.mtu, int(a.length)-offset)
	addr := a.va + uint64(offset)
	if length != 0 && !r.conn.cfg.Memory.Remote(a.rkey, addr, uint64(length), verbs.AccessRemoteRead) {
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
	f := r.responseBTH(op, a.cur)
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

func (r *responder) emitAtomicAck(a *answer, out *Output) {
	f := r.responseBTH(wire.AtomicAck, a.cur)
	h := out.packet(&f).Header[wire.BTHLen:]
	wire.AETH(h).Encode(wire.SyndromeAck, a.msn)
	wire.AtomicAckETH(h[wire.AETHLen:]).Encode(*a.orig)
}
