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
	*r = requester{sq: r.sq}
}

func (q *qp) wqe(n uint64) *sendWQE { return &q.sq[n&uint64(len(q.sq)-1)] }

func (q *qp) PostSend(wrs []verbs.WorkRequest) (n int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for ; n < len(wrs); n++ {
		if err = q.postSend(&wrs[n]); err != nil {
			break
		}
	}
	if q.pump() {
		q.peer.dir.wake()
	}
	q.acknowledge() // behind the requests: the peer waits for these
	q.expire()
	return n, err
}

func (q *qp) postSend(wr *verbs.WorkRequest) error {
	if err := q.Live(); err != nil {
		return err
	}
	length, err := verbs.CheckSend(q.QPN, q.state, &q.InitAttr.Cap, int(q.sqTail-q.sqHead), wr)
	if err != nil {
		return err
	}
	w := q.wqe(q.sqTail)
	own := *wr
	own.SGL = append(w.SGL[:0], wr.SGL...)
	*w = sendWQE{WorkRequest: own, length: uint32(length)}
	if q.state == verbs.StateErr {
		q.complete(w, verbs.FlushError)
		return nil
	}
	if w.isInline() {
		w.SGL = append(w.SGL[:0], q.CopyInline(int(q.sqTail&uint64(len(q.sq)-1)), wr.SGL))
	}
	q.sqTail++
	return nil
}

// pump fills slots as long as there are requests and room, and reports whether it
// has filled any.
func (q *qp) pump() bool {
	if q.sqCur == q.sqTail || q.state != verbs.StateRTS || !q.pair() {
		return false
	}
	before := q.posted
	for q.sqCur != q.sqTail {
		w := q.wqe(q.sqCur)
		if !w.begun && !q.begin(w) {
			break
		}
		if !w.done && !q.emit(w) {
			break
		}
		q.sqCur++
	}
	q.retire()
	return q.posted != before && q.peer != nil
}

// pair reports whether the peer has bound itself to this end. Requests have no
// PSNs here; but if the ends disagree about the first, then as on a wire: an end
// that runs ahead is not heard, and one that is behind repeats what the peer has had.
func (q *qp) pair() bool {
	if q.paired || q.peer == nil {
		return q.paired
	}
	p := q.peer
	if atomic.LoadUint64(&p.bound) != q.memory.ID() || !p.accepts(q) || q.ahead() {
		return false
	}
	q.paired, q.duplicates = true, (p.rqPSN-q.attr.SQPSN)&0xffffff
	return true
}

func (q *qp) ahead() bool { return (q.peer.rqPSN-q.attr.SQPSN)&0xffffff >= 1<<23 }

// begin looks at what stands in the way of a request, and fails one that cannot be.
func (q *qp) begin(w *sendWQE) bool {
	fetches := w.isRead() || w.IsAtomic()
	switch {
	case w.Flags&verbs.FlagFence != 0 && q.reads > 0:
		return false
	case fetches && q.attr.MaxRDAtomic == 0:
		return q.failInTurn(verbs.LocalQPOpError)
	case fetches && q.reads >= int(q.attr.MaxRDAtomic):
		return false
	case !w.isInline() && !covers(q.Domain, w.SGL, uint64(w.length), fetches):
		return q.failInTurn(verbs.LocalProtectionError)
	}
	w.begun = true
	if fetches {
		q.reads++
	} else if packets := max(1, (w.length+q.mtu()-1)/q.mtu()); packets <= q.duplicates {
		q.duplicates -= packets
		w.done = true
	}
	return true
}

func (q *qp) mtu() uint32 { return uint32(q.attr.PathMTU.Bytes()) }

// failInTurn fails the request at sqCur once it is the oldest: completions come in
// order. It returns false.
func (q *qp) failInTurn(s verbs.Status) bool {
	if q.sqCur == q.sqHead {
		q.failSend(s)
	}
	return false
}

// failSend fails the oldest request, and with it the queue pair.
func (q *qp) failSend(s verbs.Status) {
	if q.sqHead != q.sqTail {
		if w := q.wqe(q.sqHead); w.fault == 0 {
			w.fault = s
		}
		q.counters.sendFailed(s)
	}
	q.becomeErr()
}

// emit fills slots for a request and reports whether all of it has been sent.
func (q *qp) emit(w *sendWQE) bool {
	if w.isRead() {
		return q.emitRead(w)
	}
	for {
		if q.posted-q.acked == slotCount {
			return false
		}
		s, f := q.own.slot(q.posted), q.flight(q.posted)
		*f = flight{wqe: q.sqCur}
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
		case !q.byReference(w, s, f) && !q.toStage(w, s, rest):
			return false
		}
		w.moved += s.length
		if f.ends = w.moved == w.length; f.ends {
			flags |= last
		}
		q.fill(w, s, f, flags)
		if f.ends {
			return true
		}
	}
}

func (q *qp) flight(n uint64) *flight { return &q.flights[n%slotCount] }

// fill completes a slot and makes it the peer's.
func (q *qp) fill(w *sendWQE, s *slot, f *flight, flags uint8) {
	if w.Flags&verbs.FlagSolicited != 0 {
		flags |= solicited
	}
	s.op, s.flags, s.total, s.imm, s.rkey = uint8(w.Opcode), flags, w.length, w.Imm, w.RKey
	atomic.StoreUint32(&s.claim, claim(q.posted, open))
	f.stage = q.stageTail
	q.posted++
	q.counters.Requests++
	q.counters.RequestBytes += uint64(s.length)
	atomic.StoreUint32(&s.seq, uint32(q.posted))
	traceRequest(requestSent, "request sent", q, s)
}

// byReference puts into a slot where the next piece of a request lies, if the peer can
// copy it from there and that is worth its while.
func (q *qp) byReference(w *sendWQE, s *slot, f *flight) bool {
	if w.isInline() {
		return false
	}
	sge, off := w.at.element(w.SGL)
	n := min(sge.Length-off, referenceMost)
	if n < referenceLeast {
		return false
	}
	addr := sge.Addr + uint64(off)
	r := q.Domain.Region(sge.LKey, addr, uint64(n))
	switch {
	case r != nil && r.Arena != 0:
		s.kind, s.data = inArena, [3]uint64{r.Arena, r.Offset + addr - r.Addr()}
	case n > stageMost && q.peer.readable == 1:
		s.kind, s.data = inProcess, [3]uint64{addr}
	default:
		return false
	}
	s.length, f.source = n, sge.LKey
	w.at.off += n
	return true
}

// toStage copies the next piece of a request to the stage; false if it is full.
func (q *qp) toStage(w *sendWQE, s *slot, rest uint32) bool {
	n := min(rest, stageMost)
	at, ok := q.reserve(n)
	if ok {
		w.at.gather(w.SGL, q.own.stage[at:at+n])
		s.kind, s.length, s.data = inStage, n, [3]uint64{uint64(at)}
	}
	return ok
}

// reserve takes n bytes of the stage that lie in one piece.
func (q *qp) reserve(n uint32) (at uint32, ok bool) {
	if q.acked == q.posted {
		q.stageHead, q.stageTail = 0, 0 // the part that is in the cache
	}
	size := (uint64(n) + 63) &^ 63
	begin := q.stageTail
	if left := stageBytes - begin%stageBytes; left < size {
		begin += left
	}
	if begin+size-q.stageHead > stageBytes {
		return 0, false
	}
	q.stageTail = begin + size
	return uint32(begin % stageBytes), true
}

// stagedRead is the longest READ that gets room in the stage for an answer if the
// responder can answer by reference instead.
const stagedRead = 16 << 10

// emitRead asks for what is still to come of a READ. The answer is in the slot, in
// the stage, or by reference. If this process cannot read the other's memory, a long READ
// out of no arena comes in pieces; until it is clear whether this is one, nothing
// overtakes it.
func (q *qp) emitRead(w *sendWQE) bool {
	if w.asked || q.posted-q.acked == slotCount {
		return false
	}
	can := q.own.readable == 1
	rest := w.length - w.moved
	room := uint32(0)
	if rest > inlineBytes && (!can || rest <= stagedRead) {
		room = min(rest, stageMost)
	}
	at, ok := q.reserve(room)
	if !ok {
		return false
	}
	s, f := q.own.slot(q.posted), q.flight(q.posted)
	*f = flight{wqe: q.sqCur, ends: true, at: at, room: room, base: w.moved}
	s.kind, s.length, s.remote = inSlot, rest, w.RemoteAddr+uint64(w.moved)
	s.data = [3]uint64{uint64(at), uint64(room)}
	flags := uint8(first | last)
	if can {
		flags |= readable
	}
	q.fill(w, s, f, flags)
	w.asked = true
	return can || rest <= max(room, inlineBytes)
}
