package rc

import (
	"ringcli/verbs"
	"ringcli/verbs/soft/wire"
)

// sendWQE is a posted send. Its PSNs are given when it is begun.
type sendWQE struct {
	verbs.WorkRequest // its SGL lies in memory of the send queue
	length            uint32
	begun             bool
	first             uint32 // PSN of the first packet
	last              uint32 // PSN of the last packet, or of the last response
}

func (w *sendWQE) isRead() bool { return w.Opcode == verbs.OpRead }

// requester is the sending half: the send queue and its place in the PSNs.
//
//	una ≤ cur ≤ next, una ≤ sent ≤ next
//	 │     │     │        │
//	 │     │     │        └ one past the highest PSN ever sent
//	 │     │     └ PSN of the next message to begin
//	 │     └ PSN to send next: smaller than sent while going back
//	 └ oldest PSN not acknowledged; it lies in the message at sqHead
//
// Work requests sqHead..sqCur-1 are sent, sqCur is being sent, up to sqTail they
// wait. Indices only grow; the ring's size is a power of two.
type requester struct {
	sq                    []sendWQE
	sqHead, sqCur, sqTail uint32

	una, cur, next, sent uint32

	window, windowMax, windowAcked int
	sinceAckReq                    int

	reads    []uint32 // last PSNs of READ requests and atomics in flight, oldest first
	timer    int64    // retransmission deadline, 0 if off
	rnrUntil int64    // nothing is sent before, 0 if not waiting
	retries  uint8    // since the last progress
	rnrTries uint8
	wentBack bool // further NAKs are the same loss, until recover is acknowledged
	timedOut bool // a timer, and no NAK, went back last
	recover  uint32

	// What loss makes of it. A peer that keeps what comes early (kept) is sent what
	// it misses alone.
	kept        bool   // the peer keeps what comes early, as those do that promise UDP.LowIPIDs
	partial     bool   // sending again, up to partEnd only, and then from where it was
	partEnd     uint32 // PSN
	goOn, sqOn  uint32 // cur and sqCur from there on
	responseGap gap
	lossy       int   // packets to be acknowledged until the wire counts as clean again
	probe       int64 // deadline of the next probe, 0 if off
	probes      uint8 // since the last progress
	probed      bool  // the last of them sent a SEND or WRITE packet, whose end is recover
	rtt         int64 // smoothed, of a lossy wire
	rttPSN      uint32
	rttAt       int64 // when rttPSN was sent, 0: not measuring
}

func (r *requester) init(c verbs.QPCap) {
	r.sq = make([]sendWQE, ringSize(c.MaxSendWR))
	sges := make([]verbs.SGE, len(r.sq)*c.MaxSendSGE)
	for i := range r.sq {
		r.sq[i].SGL = sges[i*c.MaxSendSGE : i*c.MaxSendSGE : (i+1)*c.MaxSendSGE]
	}
	r.reads = make([]uint32, 0, 256)
}

func (r *requester) reset(window int) {
	r.sqHead, r.sqCur, r.sqTail = 0, 0, 0
	r.una, r.cur, r.next, r.sent = 0, 0, 0, 0
	r.window, r.windowMax, r.windowAcked = window, window, 0
	r.sinceAckReq = 0
	r.reads = r.reads[:0]
	r.timer, r.rnrUntil = 0, 0
	r.retries, r.rnrTries, r.wentBack, r.timedOut = 0, 0, false, false
	r.partial, r.responseGap = false, gap{}
	r.lossy, r.probe, r.probes, r.probed, r.rtt, r.rttAt = 0, 0, 0, false, 0, 0
}

func (r *requester) wqe(i uint32) *sendWQE { return &r.sq[i&uint32(len(r.sq)-1)] }

// CheckSend tells whether PostSend would take a work request, and returns the bytes
// of its message.
func (q *QP) CheckSend(wr *verbs.WorkRequest) (length uint64, err error) {
	return verbs.CheckSend(q.cfg.QPN, q.state, &q.cfg.Cap, int(q.sqTail-q.sqHead), wr)
}

// PostSend queues one work request. The SGL is copied, the memory is not.
func (q *QP) PostSend(wr *verbs.WorkRequest, out *Output) error {
	length, err := q.CheckSend(wr)
	if err != nil {
		return err
	}
	if q.state == verbs.StateErr {
		out.complete(verbs.Completion{ID: wr.ID, Status: verbs.FlushError, Opcode: wr.Opcode.Completed(), QPN: q.cfg.QPN}, false, true)
		return nil
	}
	w := q.wqe(q.sqTail)
	own := *wr
	own.SGL = append(w.SGL[:0], wr.SGL...)
	*w = sendWQE{WorkRequest: own, length: uint32(length)}
	q.sqTail++
	return nil
}

// emitRequests appends request packets until the window, the queue or the budget
// ends, and reports whether it was the budget.
func (q *QP) emitRequests(now int64, budget int, out *Output) (more bool) {
	if q.rnrUntil != 0 {
		if now < q.rnrUntil {
			return false
		}
		q.rnrUntil = 0
	}
	for {
		if q.partial && wire.PSNDiff(q.cur, q.partEnd) >= 0 {
			q.resume()
		}
		if q.sqCur == q.sqTail {
			return false
		}
		w := q.wqe(q.sqCur)
		if !w.begun && !q.begin(w, out) {
			return false
		}
		room := q.window - int(wire.PSNDiff(q.cur, q.una))
		if room <= 0 {
			return false
		}
		if budget <= 0 {
			return true
		}
		if !q.localOK(w) { // asked for every packet: the region may be gone by now
			q.failInTurn(verbs.LocalProtectionError, out)
			return false
		}
		n := 1
		if w.isRead() || w.IsAtomic() {
			// The responses must fit the window, unless nothing else is under way.
			n = q.readLen(w, q.cur)
			if q.partial { // the peer remembers it: it takes no more of its memory
				n = min(n, int(wire.PSNDiff(q.partEnd, q.cur)))
			} else if len(q.reads) >= int(q.attr.MaxRDAtomic) || n > room && q.cur != q.una {
				return false
			}
			q.emitRead(w, n, out)
		} else {
			q.emitData(w, room, out)
		}
		budget--
		q.advance(w, n, now)
	}
}

// begin gives w its PSNs, if it may start now.
func (q *QP) begin(w *sendWQE, out *Output) bool {
	if q.state != verbs.StateRTS {
		return false // SQD begins nothing
	}
	if w.Flags&verbs.FlagFence != 0 && len(q.reads) > 0 {
		return false
	}
	if (w.isRead() || w.IsAtomic()) && q.attr.MaxRDAtomic == 0 {
		q.failInTurn(verbs.LocalQPOpError, out)
		return false
	}
	w.begun = true
	w.first = q.next
	w.last = wire.PSNAdd(q.next, q.packets(uint64(w.length))-1)
	q.next = wire.PSNAdd(w.last, 1)
	return true
}

// failInTurn fails the work request at sqCur, once it is the oldest: completions
// come in order.
func (q *QP) failInTurn(s verbs.Status, out *Output) {
	if q.sqCur == q.sqHead {
		q.failSend(s, out)
	}
}

// localOK reports whether the lkeys of w cover its memory.
func (q *QP) localOK(w *sendWQE) bool {
	return w.Flags&verbs.FlagInline != 0 || q.covered(w.SGL, w.isRead() || w.IsAtomic())
}

// covered reports whether the lkeys of sge cover its memory, for writing if write is set.
func (q *QP) covered(sge []verbs.SGE, write bool) bool {
	for i := range sge {
		s := &sge[i]
		if s.Length != 0 && !q.cfg.Memory.Local(s.LKey, s.Addr, s.Length, write) {
			return false
		}
	}
	return true
}

// advance moves past n PSNs that were just sent.
func (q *QP) advance(w *sendWQE, n int, now int64) {
	if wire.PSNDiff(q.cur, q.sent) < 0 {
		q.cfg.Counters.RetransmittedPkts++
		if q.timedOut {
			q.cfg.Counters.TimerRetransmits++
		}
	}
	q.cfg.Counters.RequestPkts++
	end := wire.PSNAdd(q.cur, n)
	if end == wire.PSNAdd(w.last, 1) {
		q.sqCur++
	}
	q.cur = end
	if wire.PSNDiff(q.cur, q.sent) > 0 {
		q.sent = q.cur
		if q.lossy > 0 && q.rttAt == 0 && q.sinceAckReq == 0 {
			q.rttPSN, q.rttAt = wire.PSNAdd(end, -1), now
		}
	}
	if q.timer == 0 {
		q.startTimer(now)
	}
}

// startTimer arms the retransmission timer. The specification wants 1 to 4 times
// the timeout; retries back off within that.
func (q *QP) startTimer(now int64) {
	q.timer = 0
	if t := verbs.AckTimeout(q.attr.Timeout); t != 0 {
		q.timer = now + int64(t)<<min(q.retries, 2)
	}
	q.startProbe(now)
}

// emitData appends the packet at cur of a SEND or WRITE.
func (q *QP) emitData(w *sendWQE, room int, out *Output) {
	index := int(wire.PSNDiff(q.cur, w.first))
	offset := index * q.mtu
	length := min(q.mtu, int(w.length)-offset)
	last := q.cur == w.last
	q.sinceAckReq++
	f := wire.BTHFields{
		Opcode:    dataOpcode(w.Opcode, index == 0, last),
		Solicited: last && w.Flags&verbs.FlagSolicited != 0,
		MigReq:    true,
		AckReq:    last || room == 1 || q.partial || q.sinceAckReq >= min(ackEvery, max(fewestAckEvery, q.window/2)),
		PadCount:  uint8(wire.Pad(length)),
		PKey:      wire.DefaultPKey,
		DestQPN:   q.attr.DestQPN,
		PSN:       q.cur,
	}
	if f.AckReq {
		q.sinceAckReq = 0
	}
	p := out.packet(&f)
	h := p.Header[wire.BTHLen:]
	flags := f.Opcode.Flags()
	if flags&wire.HasRETH != 0 {
		wire.RETH(h).Encode(w.RemoteAddr, w.RKey, w.length)
		h = h[wire.RETHLen:]
	}
	if flags&wire.HasImm != 0 {
		wire.ImmDt(h).Encode(w.Imm)
	}
	p.Len = uint32(length)
	p.FirstFrag = uint32(len(out.Frags))
	out.Frags = appendFrags(out.Frags, w.SGL, offset, length)
	p.Frags = uint8(len(out.Frags) - int(p.FirstFrag))
}

// readLen returns how many PSNs the READ request or atomic at from takes. Requests
// of a long READ begin at fixed places, so that a responder finds a repeated one
// within one that it remembers.
func (q *QP) readLen(w *sendWQE, from uint32) int {
	index := int(wire.PSNDiff(from, w.first))
	return min((index/readBurst+1)*readBurst, int(wire.PSNDiff(w.last, w.first))+1) - index
}

// emitRead appends a READ request for n responses from cur on, or an atomic.
func (q *QP) emitRead(w *sendWQE, n int, out *Output) {
	f := wire.BTHFields{MigReq: true, AckReq: true, PKey: wire.DefaultPKey, DestQPN: q.attr.DestQPN, PSN: q.cur}
	if w.isRead() {
		offset := int(wire.PSNDiff(q.cur, w.first)) * q.mtu
		f.Opcode = wire.ReadRequest
		p := out.packet(&f)
		wire.RETH(p.Header[wire.BTHLen:]).Encode(w.RemoteAddr+uint64(offset), w.RKey, uint32(min(n*q.mtu, int(w.length)-offset)))
	} else {
		f.Opcode = wire.FetchAdd
		swapAdd, compare := w.CompareAdd, uint64(0)
		if w.Opcode == verbs.OpCompSwap {
			f.Opcode = wire.CompareSwap
			swapAdd, compare = w.Swap, w.CompareAdd
		}
		p := out.packet(&f)
		wire.AtomicETH(p.Header[wire.BTHLen:]).Encode(w.RemoteAddr, w.RKey, swapAdd, compare)
	}
	q.sinceAckReq = 0
	if !q.partial {
		q.reads = append(q.reads, wire.PSNAdd(q.cur, n-1))
	}
}

// appendFrags appends the pieces of sge that hold length bytes from offset on.
func appendFrags(frags []Frag, sge []verbs.SGE, offset, length int) []Frag {
	for i := range sge {
		n := int(sge[i].Length)
		if offset >= n {
			offset -= n
			continue
		}
		if length == 0 {
			break
		}
		take := min(n-offset, length)
		frags = append(frags, Frag{Addr: sge[i].Addr + uint64(offset), Len: uint32(take)})
		length -= take
		offset = 0
	}
	return frags
}

// dataOpcode returns the opcode of a packet of a SEND or WRITE. Those of the two stand
// in one order: first, middle, last, with immediate, only, with immediate.
func dataOpcode(op verbs.Opcode, first, last bool) wire.Opcode {
	o := wire.SendFirst
	if op == verbs.OpWrite || op == verbs.OpWriteImm {
		o = wire.WriteFirst
	}
	switch {
	case first && last:
		o += wire.SendOnly - wire.SendFirst
	case last:
		o += wire.SendLast - wire.SendFirst
	case !first:
		o += wire.SendMiddle - wire.SendFirst
	}
	if last && (op == verbs.OpWriteImm || op == verbs.OpSendImm) {
		o++
	}
	return o
}
