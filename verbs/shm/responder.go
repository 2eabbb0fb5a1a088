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
	conn   *connection
	failed bool // a request was refused: the queue pair must go to ERR

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
	*r = responder{conn: r.conn, rq: r.rq}
}

func (r *responder) rwqe(n uint64) *recvWQE { return &r.rq[n&uint64(len(r.rq)-1)] }

func (r *responder) post(wr *verbs.WorkRequest) error {
	if err := r.conn.qp.Live(); err != nil {
		return err
	}
	if err := verbs.CheckRecv(r.conn.qp.QPN, r.conn.state, &r.conn.qp.InitAttr.Cap, int(r.rqTail-r.rqHead), wr); err != nil {
		return err
	}
	if r.conn.state == verbs.StateErr {
		r.received(verbs.Completion{ID: wr.ID, Status: verbs.FlushError}, true)
		return nil
	}
	w := r.rwqe(r.rqTail)
	w.id, w.length, w.sge = wr.ID, 0, append(w.sge[:0], wr.SGL...)
	for i := range w.sge {
		w.length += uint64(w.sge[i].Length)
	}
	r.rqTail++
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
func (r *responder) serve() (worked bool) {
	if !r.conn.state.Receives() {
		return false
	}
	prompt := false
	for budget := serveBytes; budget > 0; {
		shared := r.conn.peer.slot(r.served)
		if atomic.LoadUint32(&shared.seq) != uint32(r.served+1) {
			break
		}
		if !r.bound {
			if atomic.LoadUint64(&r.conn.peer.bound) != r.conn.memory.ID() || !r.conn.peer.accepts(r.conn) {
				break
			}
			r.bound = true
		}
		s := *shared // what is checked must be what is used
		how := r.execute(&s, shared)
		if how == later || how == failed {
			return worked || how == failed
		}
		traceRequest(requestExecuted, "request executed", r.conn, &s)
		r.served++
		r.owed, worked = true, true
		r.conn.counters.Executed++
		r.conn.counters.ExecutedBytes += uint64(s.length)
		budget -= int(s.length) + 64
		// With a completion to look at, or more to copy, the answer comes afterwards.
		prompt = prompt || how == executed
		if s.length > stageMost {
			r.acknowledge()
		}
	}
	if prompt {
		r.acknowledge()
	}
	return worked
}

// acknowledge answers what has been executed.
func (r *responder) acknowledge() {
	if r.owed {
		r.answer(0)
	}
}

func (r *responder) answer(code uint8) {
	r.owed, r.acknowledged = false, r.served
	atomic.StoreUint64(r.conn.peer.answer, r.served<<8|uint64(code))
	r.conn.peer.dir.wake()
}

// refuse fails the request at hand, and with it this queue pair. A receive that it
// had taken completes with a status of its own.
func (r *responder) refuse(status, receive verbs.Status) outcome {
	r.answer(uint8(status))
	if receive != verbs.Success {
		w := r.rwqe(r.rqHead)
		r.rqHead++
		r.conn.counters.RecvErrors++
		r.received(verbs.Completion{ID: w.id, Status: receive}, true)
	}
	r.failed = true
	return failed
}

// execute carries out one slot. s is a copy of what the peer has written to shared.
func (r *responder) execute(s *slot, shared *slot) outcome {
	op := verbs.Opcode(s.op)
	begins := s.flags&first != 0
	if op > verbs.OpFetchAdd || begins == r.coming.active || !begins && op != r.coming.op {
		return r.refuse(verbs.RemoteInvalidRequest, 0)
	}
	switch op {
	case verbs.OpRead:
		return r.executeRead(s, shared)
	case verbs.OpCompSwap, verbs.OpFetchAdd:
		return r.executeAtomic(s, shared)
	}
	if begins {
		r.coming.op, r.coming.total, r.coming.got, r.coming.at = op, s.total, 0, cursor{}
	}
	c := &r.coming
	left := c.total - c.got
	if c.total > verbs.MaxMessage || s.length > left || s.length > referenceMost || (s.flags&last != 0) != (s.length == left) {
		return r.refuse(verbs.RemoteInvalidRequest, 0)
	}
	if mtu := min(r.conn.mtu(), uint32(verbs.MTU(r.conn.peer.mtu).Bytes())); r.conn.peer.mtu != uint32(r.conn.attr.PathMTU) && c.total > mtu {
		return r.refuse(verbs.RemoteInvalidRequest, 0) // cut otherwise than we expect
	}
	if status, receive := r.checkTarget(s, begins); status == notReady {
		if r.stalled != r.served+1 {
			r.stalled = r.served + 1
			r.answer(notReady)
		}
		return later
	} else if status != verbs.Success {
		return r.refuse(status, receive)
	}
	how := r.place(s, shared)
	if how != executed {
		return how
	}
	r.stalled = 0
	c.got += s.length
	if c.active = s.flags&last == 0; c.active {
		return completed // more of it comes: the answer can wait for that
	}
	if op == verbs.OpWrite {
		return executed
	}
	w := r.rwqe(r.rqHead)
	r.rqHead++
	wc := verbs.Completion{ID: w.id, Opcode: verbs.WCRecv, ByteLen: c.total}
	if op != verbs.OpSend {
		wc.Imm, wc.Flags = s.imm, verbs.WCWithImm
	}
	if op == verbs.OpWriteImm {
		wc.Opcode = verbs.WCRecvWriteImm
	}
	r.received(wc, s.flags&solicited != 0)
	return completed
}

// checkTarget looks whether a SEND or WRITE may land: the peer's status, and that
// of the receive if it has one.
func (r *responder) checkTarget(s *slot, begins bool) (status, receive verbs.Status) {
	c := &r.coming
	writes := c.op == verbs.OpWrite || c.op == verbs.OpWriteImm
	if writes && c.total > 0 {
		if r.conn.attr.Access&verbs.AccessRemoteWrite == 0 {
			return verbs.RemoteInvalidRequest, 0
		}
		length := uint64(s.length)
		if begins {
			length = uint64(c.total)
		}
		if !r.conn.qp.Domain.Remote(s.rkey, s.remote, length, verbs.AccessRemoteWrite) {
			return verbs.RemoteAccessError, 0
		}
	}
	if c.op != verbs.OpWrite && r.rqHead == r.rqTail {
		return notReady, 0
	}
	if !writes {
		w := r.rwqe(r.rqHead)
		if uint64(c.total) > w.length {
			return verbs.RemoteInvalidRequest, verbs.LocalLengthError
		}
		if !covers(r.conn.qp.Domain, w.sge, uint64(c.total), true) {
			return verbs.RemoteOpError, verbs.LocalProtectionError
		}
	}
	return 0, 0
}

// place copies a piece's payload to where it belongs.
func (r *responder) place(s *slot, shared *slot) outcome {
	var src []byte
	n := uint64(s.length)
	switch s.kind {
	case inSlot:
		if n > inlineBytes {
			return r.refuse(verbs.RemoteInvalidRequest, 0)
		}
		src = memory.AsBytes(s.data[:])[:n]
	case inStage:
		if s.data[0] > stageBytes || n > stageBytes-s.data[0] {
			return r.refuse(verbs.RemoteInvalidRequest, 0)
		}
		src = r.conn.peer.stage[s.data[0]:][:n]
	case inArena:
		view, ok := r.conn.peer.process.View(s.data[0])
		if !ok {
			return later
		}
		if uint64(len(view)) < s.data[1] || n > uint64(len(view))-s.data[1] {
			return r.refuse(verbs.RemoteInvalidRequest, 0)
		}
		src = view[s.data[1]:][:n]
	case inProcess:
	default:
		return r.refuse(verbs.RemoteInvalidRequest, 0)
	}
	to := r.target(s)
	if s.kind == inArena || s.kind == inProcess {
		switch r.conn.copyOut(to, &shared.claim, r.served, done, s.kind, src, s.data[0], int(n)) {
		case wasRevoked, ownerGone:
			return later
		case unreadable:
			return r.refuse(verbs.RemoteOpError, 0)
		}
		return executed
	}
	// A request that waited for a receive may have been given up meanwhile.
	if r.stalled == r.served+1 && !atomic.CompareAndSwapUint32(&shared.claim, claim(r.served, open), claim(r.served, done)) {
		return later
	}
	to.scatter(src)
	return executed
}

// target is where the piece at hand goes.
func (r *responder) target(s *slot) destination {
	if r.coming.op == verbs.OpSend || r.coming.op == verbs.OpSendImm {
		return destination{sgl: r.rwqe(r.rqHead).sge, at: &r.coming.at}
	}
	return destination{addr: s.remote}
}

// executeRead answers a READ, or grants what it asks for.
func (r *responder) executeRead(s *slot, shared *slot) outcome {
	n := uint64(s.length)
	if n == 0 && s.total == 0 {
		shared.kind = inSlot
		return executed
	}
	if r.conn.attr.Access&verbs.AccessRemoteRead == 0 || r.conn.attr.MaxDestRDAtomic == 0 || n == 0 || n > verbs.MaxMessage || s.length > s.total ||
		s.data[0] > stageBytes || s.data[1] > stageBytes-s.data[0] {
		return r.refuse(verbs.RemoteInvalidRequest, 0)
	}
	region := r.conn.qp.Domain.Region(s.rkey, s.remote, n)
	if region == nil || region.Access()&verbs.AccessRemoteRead == 0 {
		return r.refuse(verbs.RemoteAccessError, 0)
	}
	granted := &r.granted[r.served%slotCount]
	*granted = grant{}
	room := s.data[1]
	switch {
	case n <= inlineBytes:
		shared.kind = inSlot
		copy(memory.AsBytes(shared.data[:]), memory.Bytes(s.remote, int(n)))
	case region.Arena != 0 && n >= referenceLeast:
		*granted = grant{s.rkey, r.served}
		shared.kind, shared.data = inArena, [3]uint64{region.Arena, region.Offset + s.remote - region.Addr()}
	case n > room && s.flags&readable != 0:
		*granted = grant{s.rkey, r.served}
		shared.kind, shared.data = inProcess, [3]uint64{s.remote}
	case room == 0:
		return r.refuse(verbs.RemoteInvalidRequest, 0)
	default:
		n = min(n, room)
		copy(r.conn.peer.stage[s.data[0]:][:n], memory.Bytes(s.remote, int(n)))
		shared.kind, shared.length = inStage, uint32(n)
	}
	return executed
}

func (r *responder) executeAtomic(s *slot, shared *slot) outcome {
	if r.conn.attr.Access&verbs.AccessRemoteAtomic == 0 || r.conn.attr.MaxDestRDAtomic == 0 || s.remote%8 != 0 {
		return r.refuse(verbs.RemoteInvalidRequest, 0)
	}
	if !r.conn.qp.Domain.Remote(s.rkey, s.remote, 8, verbs.AccessRemoteAtomic) {
		return r.refuse(verbs.RemoteAccessError, 0)
	}
	if verbs.Opcode(s.op) == verbs.OpFetchAdd {
		shared.data[0] = memory.FetchAdd64(s.remote, s.data[0])
	} else {
		shared.data[0] = memory.CompareAndSwap64(s.remote, s.data[0], s.data[1])
	}
	return executed
}

func (r *responder) flush() {
	for ; r.rqHead != r.rqTail; r.rqHead++ {
		r.received(verbs.Completion{ID: r.rwqe(r.rqHead).id, Status: verbs.FlushError}, true)
	}
}

func (r *responder) received(wc verbs.Completion, solicited bool) {
	wc.QPN = r.conn.qp.QPN
	if wc.Status != verbs.Success {
		wc.Opcode = verbs.WCRecv
		objects.TraceFailed(r.conn.qp.QPN, r.conn.state, &wc, true)
	}
	r.conn.qp.RecvCQ.Push(wc, solicited)
}
