package shm

import (
	"sync/atomic"

	"ringcli/verbs"
	"ringcli/verbs/memory"
)

// sendWQE is a work request in the send queue.
type sendWQE struct {
	verbs.WorkRequest // its SGL lies in memory of the send queue
	length            uint32

	at    cursor // what has been sent of the SGL, or has come
	moved uint32 // bytes of it
	begun bool
	asked bool         // a READ's request is under way
	done  bool         // executed: completes when it is the oldest
	fault verbs.Status // with which it is flushed; 0: FlushError
}

func (w *sendWQE) isRead() bool   { return w.Opcode == verbs.OpRead }
func (w *sendWQE) isInline() bool { return w.Flags&verbs.FlagInline != 0 }

// flight is what this end knows of a slot that it has filled.
type flight struct {
	wqe    uint64 // number of the work request
	ends   bool   // its last piece
	source uint32 // lkey of the region that the peer copies out of; 0: none
	at     uint32 // a READ's place in the stage,
	room   uint32 // and how long it is
	base   uint32 // a READ's bytes that had come before
	stage  uint64 // where the stage ends behind it
}

// requester is the sending half of a queue pair, guarded by its lock.
type requester struct {
	conn   *connection
	failed bool // the oldest request has failed: the queue pair must go to ERR

	sq                    []sendWQE // as many as a power of two
	sqHead, sqCur, sqTail uint64    // oldest; next to be sent; next free

	flights       [slotCount]flight
	posted, acked uint64 // slots filled, and done with
	// stageHead to stageTail of the stage is in use, counted without wrapping.
	stageHead, stageTail uint64

	reads      int    // READs and atomics that have begun and are not done
	paired     bool   // the peer has bound itself to this block
	duplicates uint32 // packets that the peer takes for duplicates, by the PSNs
	timer      int64  // when to give the peer up; 0 while it answers
	looked     uint64 // how often the peer had been looked for when the timer began
	refused    uint64 // slot, counted from 1, that waits for a receive
	rnrUntil   int64  // when to give that up; 0: never
}

func (r *requester) reset() {
	for i := range r.sq {
		r.sq[i] = sendWQE{WorkRequest: verbs.WorkRequest{SGL: r.sq[i].SGL}}
	}
	*r = requester{conn: r.conn, sq: r.sq}
}

func (r *requester) wqe(n uint64) *sendWQE { return &r.sq[n&uint64(len(r.sq)-1)] }

func (r *requester) post(wr *verbs.WorkRequest) error {
	if err := r.conn.qp.Live(); err != nil {
		return err
	}
	length, err := verbs.CheckSend(r.conn.qp.QPN, r.conn.state, &r.conn.qp.InitAttr.Cap, int(r.sqTail-r.sqHead), wr)
	if err != nil {
		return err
	}
	w := r.wqe(r.sqTail)
	own := *wr
	own.SGL = append(w.SGL[:0], wr.SGL...)
	*w = sendWQE{WorkRequest: own, length: uint32(length)}
	if r.conn.state == verbs.StateErr {
		r.complete(w, verbs.FlushError)
		return nil
	}
	if w.isInline() {
		w.SGL = append(w.SGL[:0], r.conn.qp.CopyInline(int(r.sqTail&uint64(len(r.sq)-1)), wr.SGL))
	}
	r.sqTail++
	return nil
}

// pump fills slots as long as there are requests and room, and reports whether it
// has filled any.
func (r *requester) pump() bool {
	if r.sqCur == r.sqTail || r.conn.state != verbs.StateRTS || !r.pair() {
		return false
	}
	before := r.posted
	for r.sqCur != r.sqTail {
		w := r.wqe(r.sqCur)
		if !w.begun && !r.begin(w) {
			break
		}
		if !w.done && !r.emit(w) {
			break
		}
		r.sqCur++
	}
	r.retire()
	return r.posted != before && r.conn.peer != nil
}

// pair reports whether the peer has bound itself to this end. Requests have no
// PSNs here; but if the ends disagree about the first, then as on a wire: an end
// that runs ahead is not heard, and one that is behind repeats what the peer has had.
func (r *requester) pair() bool {
	if r.paired || r.conn.peer == nil {
		return r.paired
	}
	p := r.conn.peer
	if atomic.LoadUint64(&p.bound) != r.conn.memory.ID() || !p.accepts(r.conn) || r.ahead() {
		return false
	}
	r.paired, r.duplicates = true, (p.rqPSN-r.conn.attr.SQPSN)&0xffffff
	return true
}

func (r *requester) ahead() bool { return (r.conn.peer.rqPSN-r.conn.attr.SQPSN)&0xffffff >= 1<<23 }

// begin looks at what stands in the way of a request, and fails one that cannot be.
func (r *requester) begin(w *sendWQE) bool {
	fetches := w.isRead() || w.IsAtomic()
	switch {
	case w.Flags&verbs.FlagFence != 0 && r.reads > 0:
		return false
	case fetches && r.conn.attr.MaxRDAtomic == 0:
		return r.failInTurn(verbs.LocalQPOpError)
	case fetches && r.reads >= int(r.conn.attr.MaxRDAtomic):
		return false
	case !w.isInline() && !covers(r.conn.qp.Domain, w.SGL, uint64(w.length), fetches):
		return r.failInTurn(verbs.LocalProtectionError)
	}
	w.begun = true
	if fetches {
		r.reads++
	} else if packets := max(1, (w.length+r.conn.mtu()-1)/r.conn.mtu()); packets <= r.duplicates {
		r.duplicates -= packets
		w.done = true
	}
	return true
}

// failInTurn fails the request at sqCur once it is the oldest: completions come in
// order. It returns false.
func (r *requester) failInTurn(s verbs.Status) bool {
	if r.sqCur == r.sqHead {
		r.fail(s)
	}
	return false
}

// fail fails the oldest request, and with it the queue pair.
func (r *requester) fail(s verbs.Status) {
	if r.sqHead != r.sqTail {
		if w := r.wqe(r.sqHead); w.fault == 0 {
			w.fault = s
		}
		r.conn.counters.sendFailed(s)
	}
	r.failed = true
}

// emit fills slots for a request and reports whether all of it has been sent.
func (r *requester) emit(w *sendWQE) bool {
	if w.isRead() {
		return r.emitRead(w)
	}
	for {
		if r.posted-r.acked == slotCount {
			return false
		}
		s, f := r.conn.own.slot(r.posted), r.flight(r.posted)
		*f = flight{wqe: r.sqCur}
		rest, flags := w.length-w.moved, uint8(0)
		if w.moved == 0 {
			flags = first
		}
		s.kind, s.length, s.remote = inSlot, rest, w.RemoteAddr+uint64(w.moved)
		switch {
		case w.IsAtomic():
			s.data[0], s.data[1] = w.CompareAdd, w.Swap
		case rest <= inlineBytes:
			w.at.gather(w.SGL, memory.AsBytes(s.data[:])[:rest])
		case !r.byReference(w, s, f) && !r.toStage(w, s, rest):
			return false
		}
		w.moved += s.length
		if f.ends = w.moved == w.length; f.ends {
			flags |= last
		}
		r.fill(w, s, f, flags)
		if f.ends {
			return true
		}
	}
}

func (r *requester) flight(n uint64) *flight { return &r.flights[n%slotCount] }

// fill completes a slot and makes it the peer's.
func (r *requester) fill(w *sendWQE, s *slot, f *flight, flags uint8) {
	if w.Flags&verbs.FlagSolicited != 0 {
		flags |= solicited
	}
	s.op, s.flags, s.total, s.imm, s.rkey = uint8(w.Opcode), flags, w.length, w.Imm, w.RKey
	atomic.StoreUint32(&s.claim, claim(r.posted, open))
	f.stage = r.stageTail
	r.posted++
	r.conn.counters.Requests++
	r.conn.counters.RequestBytes += uint64(s.length)
	atomic.StoreUint32(&s.seq, uint32(r.posted))
	traceRequest(requestSent, "request sent", r.conn, s)
}

// byReference puts into a slot where the next piece of a request lies, if the peer can
// copy it from there and that is worth its while.
func (r *requester) byReference(w *sendWQE, s *slot, f *flight) bool {
	if w.isInline() {
		return false
	}
	sge, off := w.at.element(w.SGL)
	n := min(sge.Length-off, referenceMost)
	if n < referenceLeast {
		return false
	}
	addr := sge.Addr + uint64(off)
	region := r.conn.qp.Domain.Region(sge.LKey, addr, uint64(n))
	switch {
	case region != nil && region.Arena != 0:
		s.kind, s.data = inArena, [3]uint64{region.Arena, region.Offset + addr - region.Addr()}
	case n > stageMost && r.conn.peer.readable == 1:
		s.kind, s.data = inProcess, [3]uint64{addr}
	default:
		return false
	}
	s.length, f.source = n, sge.LKey
	w.at.off += n
	return true
}

// toStage copies the next piece of a request to the stage; false if it is full.
func (r *requester) toStage(w *sendWQE, s *slot, rest uint32) bool {
	n := min(rest, stageMost)
	at, ok := r.reserve(n)
	if ok {
		w.at.gather(w.SGL, r.conn.own.stage[at:at+n])
		s.kind, s.length, s.data = inStage, n, [3]uint64{uint64(at)}
	}
	return ok
}

// reserve takes n bytes of the stage that lie in one piece.
func (r *requester) reserve(n uint32) (at uint32, ok bool) {
	if r.acked == r.posted {
		r.stageHead, r.stageTail = 0, 0 // the part that is in the cache
	}
	size := (uint64(n) + 63) &^ 63
	begin := r.stageTail
	if left := stageBytes - begin%stageBytes; left < size {
		begin += left
	}
	if begin+size-r.stageHead > stageBytes {
		return 0, false
	}
	r.stageTail = begin + size
	return uint32(begin % stageBytes), true
}

// stagedRead is the longest READ that gets room in the stage for an answer if the
// responder can answer by reference instead.
const stagedRead = 16 << 10

// emitRead asks for what is still to come of a READ. The answer is in the slot, in
// the stage, or by reference. If this process cannot read the other's memory, a long READ
// out of no arena comes in pieces; until it is clear whether this is one, nothing
// overtakes it.
func (r *requester) emitRead(w *sendWQE) bool {
	if w.asked || r.posted-r.acked == slotCount {
		return false
	}
	can := r.conn.own.readable == 1
	rest := w.length - w.moved
	room := uint32(0)
	if rest > inlineBytes && (!can || rest <= stagedRead) {
		room = min(rest, stageMost)
	}
	at, ok := r.reserve(room)
	if !ok {
		return false
	}
	s, f := r.conn.own.slot(r.posted), r.flight(r.posted)
	*f = flight{wqe: r.sqCur, ends: true, at: at, room: room, base: w.moved}
	s.kind, s.length, s.remote = inSlot, rest, w.RemoteAddr+uint64(w.moved)
	s.data = [3]uint64{uint64(at), uint64(room)}
	flags := uint8(first | last)
	if can {
		flags |= readable
	}
	r.fill(w, s, f, flags)
	w.asked = true
	return can || rest <= max(room, inlineBytes)
}
