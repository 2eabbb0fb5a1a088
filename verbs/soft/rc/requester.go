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
	conn   *connection
	failed bool // the oldest work request has failed: the QP must go to ERR

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

func (r *requester) init(conn *connection) {
	r.conn = conn
	c := conn.cfg.Cap
	r.sq = make([]sendWQE, ringSize(c.MaxSendWR))
	sges := make([]verbs.SGE, len(r.sq)*c.MaxSendSGE)
	for i := range r.sq {
		r.sq[i].SGL = sges[i*c.MaxSendSGE : i*c.MaxSendSGE : (i+1)*c.MaxSendSGE]
	}
	r.reads = make([]uint32, 0, 256)
}

func (r *requester) reset() {
	r.failed = false
	r.sqHead, r.sqCur, r.sqTail = 0, 0, 0
	r.una, r.cur, r.next, r.sent = 0, 0, 0, 0
	r.window, r.windowMax, r.windowAcked = r.conn.cfg.Window, r.conn.cfg.Window, 0
	r.sinceAckReq = 0
	r.reads = r.reads[:0]
	r.timer, r.rnrUntil = 0, 0
	r.retries, r.rnrTries, r.wentBack, r.timedOut = 0, 0, false, false
	r.partial, r.responseGap = false, gap{}
	r.lossy, r.probe, r.probes, r.probed, r.rtt, r.rttAt = 0, 0, 0, false, 0, 0
}

// begins sets the PSN of the first packet.
func (r *requester) begins(psn uint32) { r.next, r.cur, r.una, r.sent = psn, psn, psn, psn }

func (r *requester) wqe(i uint32) *sendWQE { return &r.sq[i&uint32(len(r.sq)-1)] }

// check is QP.CheckSend.
func (r *requester) check(wr *verbs.WorkRequest) (length uint64, err error) {
	return verbs.CheckSend(r.conn.cfg.QPN, r.conn.state, &r.conn.cfg.Cap, int(r.sqTail-r.sqHead), wr)
}

// post is QP.PostSend.
func (r *requester) post(wr *verbs.WorkRequest, out *Output) error {
	length, err := r.check(wr)
	if err != nil {
		return err
	}
	if r.conn.state == verbs.StateErr {
		out.complete(verbs.Completion{ID: wr.ID, Status: verbs.FlushError, Opcode: wr.Opcode.Completed(), QPN: r.conn.cfg.QPN}, false, true)
		return nil
	}
	w := r.wqe(r.sqTail)
	own := *wr
	own.SGL = append(w.SGL[:0], wr.SGL...)
	*w = sendWQE{WorkRequest: own, length: uint32(length)}
	r.sqTail++
	return nil
}

// emit appends request packets until the window, the queue or the budget
// ends, and reports whether it was the budget.
func (r *requester) emit(now int64, budget int, out *Output) (more bool) {
	if r.rnrUntil != 0 {
		if now < r.rnrUntil {
			return false
		}
		r.rnrUntil = 0
	}
	for {
		if r.partial && wire.PSNDiff(r.cur, r.partEnd) >= 0 {
			r.resume()
		}
		if r.sqCur == r.sqTail {
			return false
		}
		w := r.wqe(r.sqCur)
		if !w.begun && !r.begin(w, out) {
			return false
		}
		room := r.window - int(wire.PSNDiff(r.cur, r.una))
		if room <= 0 {
			return false
		}
		if budget <= 0 {
			return true
		}
		if !r.localOK(w) { // asked for every packet: the region may be gone by now
			r.failInTurn(verbs.LocalProtectionError, out)
			return false
		}
		n := 1
		if w.isRead() || w.IsAtomic() {
			// The responses must fit the window, unless nothing else is under way.
			n = r.readLen(w, r.cur)
			if r.partial { // the peer remembers it: it takes no more of its memory
				n = min(n, int(wire.PSNDiff(r.partEnd, r.cur)))
			} else if len(r.reads) >= int(r.conn.attr.MaxRDAtomic) || n > room && r.cur != r.una {
				return false
			}
			r.emitRead(w, n, out)
		} else {
			r.emitData(w, room, out)
		}
		budget--
		r.advance(w, n, now)
	}
}

// begin gives w its PSNs, if it may start now.
func (r *requester) begin(w *sendWQE, out *Output) bool {
	if r.conn.state != verbs.StateRTS {
		return false // SQD begins nothing
	}
	if w.Flags&verbs.FlagFence != 0 && len(r.reads) > 0 {
		return false
	}
	if (w.isRead() || w.IsAtomic()) && r.conn.attr.MaxRDAtomic == 0 {
		r.failInTurn(verbs.LocalQPOpError, out)
		return false
	}
	w.begun = true
	w.first = r.next
	w.last = wire.PSNAdd(r.next, r.conn.packets(uint64(w.length))-1)
	r.next = wire.PSNAdd(w.last, 1)
	return true
}

// failInTurn fails the work request at sqCur, once it is the oldest: completions
// come in order.
func (r *requester) failInTurn(s verbs.Status, out *Output) {
	if r.sqCur == r.sqHead {
		r.fail(s, out)
	}
}

// localOK reports whether the lkeys of w cover its memory.
func (r *requester) localOK(w *sendWQE) bool {
	return w.Flags&verbs.FlagInline != 0 || r.conn.covered(w.SGL, w.isRead() || w.IsAtomic())
}

// advance moves past n PSNs that were just sent.
func (r *requester) advance(w *sendWQE, n int, now int64) {
	if wire.PSNDiff(r.cur, r.sent) < 0 {
		r.conn.cfg.Counters.RetransmittedPkts++
		if r.timedOut {
			r.conn.cfg.Counters.TimerRetransmits++
		}
	}
	r.conn.cfg.Counters.RequestPkts++
	end := wire.PSNAdd(r.cur, n)
	if end == wire.PSNAdd(w.last, 1) {
		r.sqCur++
	}
	r.cur = end
	if wire.PSNDiff(r.cur, r.sent) > 0 {
		r.sent = r.cur
		if r.lossy > 0 && r.rttAt == 0 && r.sinceAckReq == 0 {
			r.rttPSN, r.rttAt = wire.PSNAdd(end, -1), now
		}
	}
	if r.timer == 0 {
		r.startTimer(now)
	}
}

// startTimer arms the retransmission timer. The specification wants 1 to 4 times
// the timeout; retries back off within that.
func (r *requester) startTimer(now int64) {
	r.timer = 0
	if t := verbs.AckTimeout(r.conn.attr.Timeout); t != 0 {
		r.timer = now + int64(t)<<min(r.retries, 2)
	}
	r.startProbe(now)
}

// emitData appends the packet at cur of a SEND or WRITE.
func (r *requester) emitData(w *sendWQE, room int, out *Output) {
	index := int(wire.PSNDiff(r.cur, w.first))
	offset := index * r.conn.mtu
	length := min(r.conn.mtu, int(w.length)-offset)
	last := r.cur == w.last
	r.sinceAckReq++
	f := wire.BTHFields{
		Opcode:    dataOpcode(w.Opcode, index == 0, last),
		Solicited: last && w.Flags&verbs.FlagSolicited != 0,
		MigReq:    true,
		AckReq:    last || room == 1 || r.partial || r.sinceAckReq >= min(ackEvery, max(fewestAckEvery, r.window/2)),
		PadCount:  uint8(wire.Pad(length)),
		PKey:      wire.DefaultPKey,
		DestQPN:   r.conn.attr.DestQPN,
		PSN:       r.cur,
	}
	if f.AckReq {
		r.sinceAckReq = 0
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
func (r *requester) readLen(w *sendWQE, from uint32) int {
	index := int(wire.PSNDiff(from, w.first))
	return min((index/readBurst+1)*readBurst, int(wire.PSNDiff(w.last, w.first))+1) - index
}

// emitRead appends a READ request for n responses from cur on, or an atomic.
func (r *requester) emitRead(w *sendWQE, n int, out *Output) {
	f := wire.BTHFields{MigReq: true, AckReq: true, PKey: wire.DefaultPKey, DestQPN: r.conn.attr.DestQPN, PSN: r.cur}
	if w.isRead() {
		offset := int(wire.PSNDiff(r.cur, w.first)) * r.conn.mtu
		f.Opcode = wire.ReadRequest
		p := out.packet(&f)
		wire.RETH(p.Header[wire.BTHLen:]).Encode(w.RemoteAddr+uint64(offset), w.RKey, uint32(min(n*r.conn.mtu, int(w.length)-offset)))
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
	r.sinceAckReq = 0
	if !r.partial {
		r.reads = append(r.reads, wire.PSNAdd(r.cur, n-1))
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
