package shm

import (
	"sync/atomic"

	"ringcli/verbs"
	"ringcli/verbs/memory"
	"ringcli/verbs/objects"
)

// recvWQE is a work request in the receive queue.
type recvWQE struct {
	id     uint64
	length uint64
	sge    []verbs.SGE
}

// responder is the receiving half of a queue pair, guarded by its lock.
type responder struct {
	rq             []recvWQE // as many as a power of two
	rqHead, rqTail uint64

	served       uint64 // slots executed
	acknowledged uint64 // of these, how many the peer knows of
	owed         bool   // not all
	bound        bool   // the peer has bound itself to this end: its slots are for us
	stalled      uint64 // slot, counted from 1, that waits for a receive
	// coming is the message of which a piece has been executed, and not the last.
	coming struct {
		active bool
		op     verbs.Opcode
		total  uint32
		got    uint32
		at     cursor // in the receive
	}
	granted [slotCount]grant // what the READs in the slots were granted
}

// grant is the right of a READ to copy out of a region.
type grant struct {
	rkey uint32 // 0: none
	slot uint64 // its number
}

func (r *responder) reset() {
	*r = responder{rq: r.rq}
}

func (q *qp) rwqe(n uint64) *recvWQE { return &q.rq[n&uint64(len(q.rq)-1)] }

func (q *qp) PostRecv(wrs []verbs.WorkRequest) (n int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for ; n < len(wrs); n++ {
		if err = q.postRecv(&wrs[n]); err != nil {
			break
		}
	}
	if q.stalled != 0 && n > 0 {
		q.progress(false)
	}
	return n, err
}

func (q *qp) postRecv(wr *verbs.WorkRequest) error {
	if err := q.Live(); err != nil {
		return err
	}
	if err := verbs.CheckRecv(q.QPN, q.state, &q.InitAttr.Cap, int(q.rqTail-q.rqHead), wr); err != nil {
		return err
	}
	if q.state == verbs.StateErr {
		q.received(verbs.Completion{ID: wr.ID, Status: verbs.FlushError}, true)
		return nil
	}
	w := q.rwqe(q.rqTail)
	w.id, w.length, w.sge = wr.ID, 0, append(w.sge[:0], wr.SGL...)
	for i := range w.sge {
		w.length += uint64(w.sge[i].Length)
	}
	q.rqTail++
	return nil
}

// outcome is what became of a slot.
type outcome uint8

const (
	executed outcome = iota
	completed
	later  // not yet, or never
	failed // the queue pair is in ERR
)

// answerEvery is the most requests that wait for an answer while more come.
const answerEvery = slotCount / 4

// serveBytes is how much one round of progress copies for a queue pair.
const serveBytes = 4 << 20

// serve executes the peer's requests and reports whether there were any.
func (q *qp) serve() (worked bool) {
	if !q.state.Receives() {
		return false
	}
	prompt := false
	for budget := serveBytes; budget > 0; {
		shared := q.peer.slot(q.served)
		if atomic.LoadUint32(&shared.seq) != uint32(q.served+1) {
			break
		}
		if !q.bound {
			if atomic.LoadUint64(&q.peer.bound) != q.memory.ID() || !q.peer.accepts(q) {
				break
			}
			q.bound = true
		}
		s := *shared // what is checked must be what is used
		how := q.execute(&s, shared)
		if how == later || how == failed {
			return worked || how == failed
		}
		traceRequest(requestExecuted, "request executed", q, &s)
		q.served++
		q.owed, worked = true, true
		q.counters.Executed++
		q.counters.ExecutedBytes += uint64(s.length)
		budget -= int(s.length) + 64
		// With a completion to look at, or more to copy, the answer comes afterwards.
		prompt = prompt || how == executed
		if s.length > stageMost {
			q.acknowledge()
		}
	}
	if prompt {
		q.acknowledge()
	}
	return worked
}

// acknowledge answers what has been executed.
func (q *qp) acknowledge() {
	if q.owed {
		q.answer(0)
	}
}

func (q *qp) answer(code uint8) {
	q.owed, q.acknowledged = false, q.served
	atomic.StoreUint64(q.peer.answer, q.served<<8|uint64(code))
	q.peer.dir.wake()
}

// refuse fails the request at hand, and with it this queue pair. A receive that it
// had taken completes with a status of its own.
func (q *qp) refuse(status, receive verbs.Status) outcome {
	q.answer(uint8(status))
	if receive != verbs.Success {
		w := q.rwqe(q.rqHead)
		q.rqHead++
		q.counters.RecvErrors++
		q.received(verbs.Completion{ID: w.id, Status: receive}, true)
	}
	q.becomeErr()
	return failed
}

// execute carries out one slot. s is a copy of what the peer has written to shared.
func (q *qp) execute(s *slot, shared *slot) outcome {
	op := verbs.Opcode(s.op)
	begins := s.flags&first != 0
	if op > verbs.OpFetchAdd || begins == q.coming.active || !begins && op != q.coming.op {
		return q.refuse(verbs.RemoteInvalidRequest, 0)
	}
	switch op {
	case verbs.OpRead:
		return q.executeRead(s, shared)
	case verbs.OpCompSwap, verbs.OpFetchAdd:
		return q.executeAtomic(s, shared)
	}
	if begins {
		q.coming.op, q.coming.total, q.coming.got, q.coming.at = op, s.total, 0, cursor{}
	}
	c := &q.coming
	left := c.total - c.got
	if c.total > verbs.MaxMessage || s.length > left || s.length > referenceMost || (s.flags&last != 0) != (s.length == left) {
		return q.refuse(verbs.RemoteInvalidRequest, 0)
	}
	if mtu := min(q.mtu(), uint32(verbs.MTU(q.peer.mtu).Bytes())); q.peer.mtu != uint32(q.attr.PathMTU) && c.total > mtu {
		return q.refuse(verbs.RemoteInvalidRequest, 0) // cut otherwise than we expect
	}
	if status, receive := q.checkTarget(s, begins); status == notReady {
		if q.stalled != q.served+1 {
			q.stalled = q.served + 1
			q.answer(notReady)
		}
		return later
	} else if status != verbs.Success {
		return q.refuse(status, receive)
	}
	how := q.place(s, shared)
	if how != executed {
		return how
	}
	q.stalled = 0
	c.got += s.length
	if c.active = s.flags&last == 0; c.active {
		return completed // more of it comes: the answer can wait for that
	}
	if op == verbs.OpWrite {
		return executed
	}
	w := q.rwqe(q.rqHead)
	q.rqHead++
	wc := verbs.Completion{ID: w.id, Opcode: verbs.WCRecv, ByteLen: c.total}
	if op != verbs.OpSend {
		wc.Imm, wc.Flags = s.imm, verbs.WCWithImm
	}
	if op == verbs.OpWriteImm {
		wc.Opcode = verbs.WCRecvWriteImm
	}
	q.received(wc, s.flags&solicited != 0)
	return completed
}

// checkTarget looks whether a SEND or WRITE may land: the peer's status, and that
// of the receive if it has one.
func (q *qp) checkTarget(s *slot, begins bool) (status, receive verbs.Status) {
	c := &q.coming
	writes := c.op == verbs.OpWrite || c.op == verbs.OpWriteImm
	if writes && c.total > 0 {
		if q.attr.Access&verbs.AccessRemoteWrite == 0 {
			return verbs.RemoteInvalidRequest, 0
		}
		length := uint64(s.length)
		if begins {
			length = uint64(c.total)
		}
		if !q.Domain.Remote(s.rkey, s.remote, length, verbs.AccessRemoteWrite) {
			return verbs.RemoteAccessError, 0
		}
	}
	if c.op != verbs.OpWrite && q.rqHead == q.rqTail {
		return notReady, 0
	}
	if !writes {
		w := q.rwqe(q.rqHead)
		if uint64(c.total) > w.length {
			return verbs.RemoteInvalidRequest, verbs.LocalLengthError
		}
		if !covers(q.Domain, w.sge, uint64(c.total), true) {
			return verbs.RemoteOpError, verbs.LocalProtectionError
		}
	}
	return 0, 0
}

// place copies a piece's payload to where it belongs.
func (q *qp) place(s *slot, shared *slot) outcome {
	var src []byte
	n := uint64(s.length)
	switch s.kind {
	case inSlot:
		if n > inlineBytes {
			return q.refuse(verbs.RemoteInvalidRequest, 0)
		}
		src = memory.AsBytes(s.data[:])[:n]
	case inStage:
		if s.data[0] > stageBytes || n > stageBytes-s.data[0] {
			return q.refuse(verbs.RemoteInvalidRequest, 0)
		}
		src = q.peer.stage[s.data[0]:][:n]
	case inArena:
		view, ok := q.peer.process.View(s.data[0])
		if !ok {
			return later
		}
		if uint64(len(view)) < s.data[1] || n > uint64(len(view))-s.data[1] {
			return q.refuse(verbs.RemoteInvalidRequest, 0)
		}
		src = view[s.data[1]:][:n]
	case inProcess:
	default:
		return q.refuse(verbs.RemoteInvalidRequest, 0)
	}
	to := q.target(s)
	if s.kind == inArena || s.kind == inProcess {
		switch q.copyOut(to, &shared.claim, q.served, done, s.kind, src, s.data[0], int(n)) {
		case wasRevoked, ownerGone:
			return later
		case unreadable:
			return q.refuse(verbs.RemoteOpError, 0)
		}
		return executed
	}
	// A request that waited for a receive may have been given up meanwhile.
	if q.stalled == q.served+1 && !atomic.CompareAndSwapUint32(&shared.claim, claim(q.served, open), claim(q.served, done)) {
		return later
	}
	to.scatter(src)
	return executed
}

// target is where the piece at hand goes.
func (q *qp) target(s *slot) destination {
	if q.coming.op == verbs.OpSend || q.coming.op == verbs.OpSendImm {
		return destination{sgl: q.rwqe(q.rqHead).sge, at: &q.coming.at}
	}
	return destination{addr: s.remote}
}

// executeRead answers a READ, or grants what it asks for.
func (q *qp) executeRead(s *slot, shared *slot) outcome {
	n := uint64(s.length)
	if n == 0 && s.total == 0 {
		shared.kind = inSlot
		return executed
	}
	if q.attr.Access&verbs.AccessRemoteRead == 0 || q.attr.MaxDestRDAtomic == 0 || n == 0 || n > verbs.MaxMessage || s.length > s.total ||
		s.data[0] > stageBytes || s.data[1] > stageBytes-s.data[0] {
		return q.refuse(verbs.RemoteInvalidRequest, 0)
	}
	r := q.Domain.Region(s.rkey, s.remote, n)
	if r == nil || r.Access()&verbs.AccessRemoteRead == 0 {
		return q.refuse(verbs.RemoteAccessError, 0)
	}
	granted := &q.granted[q.served%slotCount]
	*granted = grant{}
	room := s.data[1]
	switch {
	case n <= inlineBytes:
		shared.kind = inSlot
		copy(memory.AsBytes(shared.data[:]), memory.Bytes(s.remote, int(n)))
	case r.Arena != 0 && n >= referenceLeast:
		*granted = grant{s.rkey, q.served}
		shared.kind, shared.data = inArena, [3]uint64{r.Arena, r.Offset + s.remote - r.Addr()}
	case n > room && s.flags&readable != 0:
		*granted = grant{s.rkey, q.served}
		shared.kind, shared.data = inProcess, [3]uint64{s.remote}
	case room == 0:
		return q.refuse(verbs.RemoteInvalidRequest, 0)
	default:
		n = min(n, room)
		copy(q.peer.stage[s.data[0]:][:n], memory.Bytes(s.remote, int(n)))
		shared.kind, shared.length = inStage, uint32(n)
	}
	return executed
}

func (q *qp) executeAtomic(s *slot, shared *slot) outcome {
	if q.attr.Access&verbs.AccessRemoteAtomic == 0 || q.attr.MaxDestRDAtomic == 0 || s.remote%8 != 0 {
		return q.refuse(verbs.RemoteInvalidRequest, 0)
	}
	if !q.Domain.Remote(s.rkey, s.remote, 8, verbs.AccessRemoteAtomic) {
		return q.refuse(verbs.RemoteAccessError, 0)
	}
	if verbs.Opcode(s.op) == verbs.OpFetchAdd {
		shared.data[0] = memory.FetchAdd64(s.remote, s.data[0])
	} else {
		shared.data[0] = memory.CompareAndSwap64(s.remote, s.data[0], s.data[1])
	}
	return executed
}

func (q *qp) flushRecvs() {
	for ; q.rqHead != q.rqTail; q.rqHead++ {
		q.received(verbs.Completion{ID: q.rwqe(q.rqHead).id, Status: verbs.FlushError}, true)
	}
}

func (q *qp) received(wc verbs.Completion, solicited bool) {
	wc.QPN = q.QPN
	if wc.Status != verbs.Success {
		wc.Opcode = verbs.WCRecv
		objects.TraceFailed(q.QPN, q.state, &wc, true)
	}
	q.RecvCQ.Push(wc, solicited)
}
