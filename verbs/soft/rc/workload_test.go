package rc_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"ringcli/verbs"
	"ringcli/verbs/soft/rc"
	"ringcli/verbs/soft/rc/rctest/simnet"
)

const (
	canary   = 0xEE // fills what no operation may touch
	scribble = 0xA5 // overwrites what an operation has finished with
	margin   = 16   // canary bytes around each piece
)

// buffer is memory in pieces with canaries around them.
type buffer struct {
	region *simnet.Region
	sges   []verbs.SGE
}

// newBuffer makes a buffer of n bytes in random pieces, some of them empty.
func newBuffer(node *simnet.Node, rnd *rand.Rand, n, pieces int) *buffer {
	b := &buffer{region: node.Memory.Register(n+(pieces+1)*margin, verbs.AccessLocalWrite)}
	for i := range b.region.Bytes {
		b.region.Bytes[i] = canary
	}
	at := margin
	for i := range pieces {
		take := n
		if i < pieces-1 {
			take = rnd.IntN(n + 1)
		}
		b.sges = append(b.sges, b.region.SGE(at, take))
		at += take + margin
		n -= take
	}
	return b
}

// each calls f for every piece.
func (b *buffer) each(f func([]byte)) {
	for _, s := range b.sges {
		f(b.region.Bytes[s.Addr-b.region.Addr:][:s.Length])
	}
}

func (b *buffer) fill(data []byte) {
	b.each(func(p []byte) { data = data[copy(p, data):] })
}

// bytes returns the first n bytes.
func (b *buffer) bytes(n int) []byte {
	var all []byte
	b.each(func(p []byte) { all = append(all, p...) })
	return all[:n]
}

// set overwrites all pieces with v; intact then says whether v is still there.
func (b *buffer) set(v byte) {
	b.each(func(p []byte) {
		for i := range p {
			p[i] = v
		}
	})
}

func (b *buffer) intact(v byte) bool {
	same := true
	inside := make([]bool, len(b.region.Bytes))
	for _, s := range b.sges {
		for i := range s.Length {
			inside[s.Addr-b.region.Addr+uint64(i)] = true
		}
	}
	for i, c := range b.region.Bytes {
		same = same && (inside[i] && c == v || !inside[i] && c == canary)
	}
	return same
}

// margins reports whether the canaries are alive.
func (b *buffer) margins() bool {
	from := uint64(0)
	for _, s := range b.sges {
		at := s.Addr - b.region.Addr
		if bytes.Count(b.region.Bytes[from:at], []byte{canary}) != int(at-from) {
			return false
		}
		from = at + uint64(s.Length)
	}
	rest := b.region.Bytes[from:]
	return bytes.Count(rest, []byte{canary}) == len(rest)
}

// operation is a work request and what it must bring about.
type operation struct {
	wr     verbs.WorkRequest
	local  *buffer
	data   []byte  // SEND, WRITE: what is sent; READ: what must be read
	target *buffer // WRITE: one piece at the peer
	keep   bool    // a later READ wants to see what was written
	recv   int     // which receive of the peer it takes, -1 for none
	word   int     // atomics: which word
	before uint64  // what must be found there
	after  uint64  // what it must leave
	static bool    // READ: of memory that no operation has written
	last   bool    // the target is deregistered when it is done, as its owner may
}

// receive is a receive request and the message it must get.
type receive struct {
	local *buffer
	from  *operation
	delay time.Duration // after the one before
}

// side is one end with its plan, and what has happened to it so far.
type side struct {
	name     string
	qp       *simnet.QP
	counters rc.Counters
	peer     *side
	fail     func(format string, args ...any)

	ops      []*operation
	receives []*receive
	words    *simnet.Region // the peer's atomics work on these
	value    [4]uint64      // what they hold once all of the peer's are done

	posted, done, received int // ops posted, ops known to be done, receives completed
	status                 verbs.Status
	recvStatus             verbs.Status
}

// workload is two ends and the random source of their plan.
type workload struct {
	rnd   *rand.Rand
	net   *simnet.Net
	mtu   int
	sides [2]*side
}

// plan adds count operations from s to its peer.
func (w *workload) plan(s *side, count int) {
	node, peer := s.qp.Node, s.peer.qp.Node
	rnd := w.rnd
	s.peer.words = peer.Memory.Register(8*len(s.peer.value), verbs.AccessRemoteAtomic)
	for i := range count {
		op := &operation{recv: -1}
		op.wr = verbs.WorkRequest{ID: uint64(i), Opcode: verbs.Opcode(rnd.IntN(7)), Imm: rnd.Uint32()}
		for _, f := range []verbs.SendFlags{verbs.FlagSignaled, verbs.FlagFence, verbs.FlagSolicited} {
			if rnd.IntN(3) == 0 || i == count-1 {
				op.wr.Flags |= f
			}
		}
		n := w.size()
		switch op.wr.Opcode {
		case verbs.OpCompSwap, verbs.OpFetchAdd:
			w.planAtomic(s, op)
			n = 8
			op.local = newBuffer(node, rnd, n, 1)
		case verbs.OpRead:
			if old := w.lastWrite(s); old != nil && rnd.IntN(3) == 0 {
				old.keep = true
				n, op.target, op.data = len(old.data), old.target, old.data
			} else {
				op.target, op.data, op.static = newBuffer(peer, rnd, n, 1), w.bytes(n), true
				op.target.fill(op.data)
			}
			op.target.region.Access |= verbs.AccessRemoteRead
			op.local = newBuffer(node, rnd, n, 1+rnd.IntN(4))
		default:
			op.data = w.bytes(n)
			op.local = newBuffer(node, rnd, n, 1+rnd.IntN(4))
			op.local.fill(op.data)
		}
		if op.wr.Opcode == verbs.OpWrite || op.wr.Opcode == verbs.OpWriteImm {
			op.target = newBuffer(peer, rnd, n, 1)
			if last := w.lastOp(s); last != nil && last.static && rnd.IntN(2) == 0 {
				op.wr.Flags |= verbs.FlagFence // what was read may be overwritten then
				op.target, op.data = last.target, w.bytes(len(last.data))
				op.local = newBuffer(node, rnd, len(op.data), 1+rnd.IntN(4))
				op.local.fill(op.data)
				n = len(op.data)
			}
			op.target.region.Access |= verbs.AccessRemoteWrite
		}
		if op.target != nil {
			op.last = rnd.IntN(2) == 0
			if old := w.lastOp(s); old != nil && old.target == op.target {
				old.last = false
			}
			op.wr.RemoteAddr, op.wr.RKey = op.target.sges[0].Addr, op.target.region.Key
		}
		op.wr.SGL = op.local.sges
		s.ops = append(s.ops, op)
		switch op.wr.Opcode {
		case verbs.OpSend, verbs.OpSendImm, verbs.OpWriteImm:
			op.recv = len(s.peer.receives)
			r := &receive{from: op, local: newBuffer(peer, rnd, n+rnd.IntN(100), 1+rnd.IntN(3))}
			if rnd.IntN(4) == 0 {
				r.delay = time.Duration(rnd.IntN(2000)) * time.Microsecond
			}
			s.peer.receives = append(s.peer.receives, r)
		}
	}
}

func (w *workload) planAtomic(s *side, op *operation) {
	word := w.rnd.IntN(len(s.peer.value))
	op.wr.RemoteAddr, op.wr.RKey = s.peer.words.Addr+8*uint64(word), s.peer.words.Key
	op.word, op.before = word, s.peer.value[word]
	op.after = op.before
	op.wr.CompareAdd, op.wr.Swap = w.rnd.Uint64(), w.rnd.Uint64()
	switch {
	case op.wr.Opcode == verbs.OpFetchAdd:
		op.after += op.wr.CompareAdd
	case w.rnd.IntN(3) > 0:
		op.wr.CompareAdd, op.after = op.before, op.wr.Swap
	}
	s.peer.value[word] = op.after
}

func (w *workload) lastOp(s *side) *operation {
	if len(s.ops) == 0 {
		return nil
	}
	return s.ops[len(s.ops)-1]
}

func (w *workload) lastWrite(s *side) *operation {
	if op := w.lastOp(s); op != nil && op.target != nil && op.wr.Opcode != verbs.OpRead {
		return op
	}
	return nil
}

// size is mostly up to three packets, sometimes more than one READ request of a
// long READ covers.
func (w *workload) size() int {
	switch w.rnd.IntN(12) {
	case 0:
		return w.rnd.IntN(40*w.mtu) % 40000
	case 1:
		return w.mtu * w.rnd.IntN(4)
	}
	return w.rnd.IntN(3*w.mtu + 1)
}

func (w *workload) bytes(n int) []byte {
	b := make([]byte, (n+7)/8*8)
	for i := 0; i < len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], w.rnd.Uint64())
	}
	return b[:n]
}

// start begins to post: sends in bursts, receives each after its delay.
func (w *workload) start(s *side) {
	s.qp.Complete = s.complete
	var sends func()
	sends = func() {
		for burst := 1 + w.rnd.IntN(8); burst > 0 && s.posted < len(s.ops); burst-- {
			err := s.qp.PostSend(&s.ops[s.posted].wr)
			if errors.Is(err, verbs.ErrNoMemory) {
				break
			}
			if err != nil {
				s.fail("%s: post %d: %v", s.name, s.posted, err)
				return
			}
			s.posted++
		}
		if s.posted < len(s.ops) {
			pause := time.Duration(w.rnd.IntN(50)+1) * time.Microsecond
			if w.rnd.IntN(8) == 0 {
				pause *= 100 // all is answered, and timers may run out
			}
			w.net.After(pause, sends)
		}
	}
	sends()
	next := 0
	var receives func()
	receives = func() {
		for next < len(s.receives) {
			r := s.receives[next]
			if d := r.delay; d > 0 {
				r.delay = 0
				w.net.After(d, receives)
				return
			}
			err := s.qp.PostRecv(&verbs.WorkRequest{ID: uint64(next), SGL: r.local.sges})
			if errors.Is(err, verbs.ErrNoMemory) {
				if s.peer.status == verbs.Success { // else nothing more comes
					w.net.After(20*time.Microsecond, receives)
				}
				return
			}
			if err != nil {
				s.fail("%s: post receive %d: %v", s.name, next, err)
				return
			}
			next++
		}
	}
	receives()
}

func (s *side) complete(c rc.Completion) {
	if c.Recv {
		s.completeRecv(&c.Completion)
	} else {
		s.completeSend(&c.Completion)
	}
}

func (s *side) completeRecv(c *verbs.Completion) {
	if c.ID != uint64(s.received) || s.received >= len(s.receives) {
		s.fail("%s: receive %d completed, expected %d of %d", s.name, c.ID, s.received, len(s.receives))
		return
	}
	r := s.receives[s.received]
	s.received++
	if c.Status != verbs.Success || s.recvStatus != verbs.Success {
		s.recvStatus = c.Status
		if c.Status != verbs.FlushError {
			s.fail("%s: receive %d: %v, expected success or a flush", s.name, c.ID, c.Status)
		}
		return
	}
	op := r.from
	want := verbs.Completion{ID: c.ID, Opcode: verbs.WCRecv, ByteLen: uint32(len(op.data)), QPN: c.QPN, Imm: op.wr.Imm, Flags: verbs.WCWithImm}
	data := r.local
	switch op.wr.Opcode {
	case verbs.OpSend:
		want.Imm, want.Flags = 0, 0
	case verbs.OpWriteImm:
		want.Opcode = verbs.WCRecvWriteImm
		data = op.target
	}
	if *c != want {
		s.fail("%s: receive %d: got %+v, want %+v", s.name, c.ID, *c, want)
	}
	if !bytes.Equal(data.bytes(len(op.data)), op.data) {
		s.fail("%s: receive %d completed before its data was right", s.name, c.ID)
	}
	if op.wr.Opcode != verbs.OpWriteImm && !r.local.margins() {
		s.fail("%s: receive %d wrote beside its buffer", s.name, c.ID)
	}
	r.local.set(scribble)
}

var wcOpcodes = map[verbs.Opcode]verbs.WCOpcode{
	verbs.OpSend: verbs.WCSend, verbs.OpSendImm: verbs.WCSend, verbs.OpWrite: verbs.WCWrite, verbs.OpWriteImm: verbs.WCWrite,
	verbs.OpRead: verbs.WCRead, verbs.OpCompSwap: verbs.WCCompSwap, verbs.OpFetchAdd: verbs.WCFetchAdd,
}

func (s *side) completeSend(c *verbs.Completion) {
	// In order, and without leaving out any that was to complete.
	i := s.done
	for s.status == verbs.Success && c.Status == verbs.Success && i < s.posted && s.ops[i].wr.Flags&verbs.FlagSignaled == 0 {
		i++
	}
	if c.Status != verbs.Success && s.status == verbs.Success {
		// Unsignaled ones before it may have succeeded in silence.
		for i < s.posted && uint64(i) != c.ID && s.ops[i].wr.Flags&verbs.FlagSignaled == 0 {
			i++
		}
	}
	if i >= s.posted || c.ID != uint64(i) {
		s.fail("%s: send %d completed (%v) with %d done, expected %d", s.name, c.ID, c.Status, s.done, i)
		return
	}
	if c.Status == verbs.Success {
		if s.status != verbs.Success {
			s.fail("%s: send %d succeeded after a failure", s.name, c.ID)
		}
		if c.Opcode != wcOpcodes[s.ops[i].wr.Opcode] || c.QPN != s.qp.RC().Num() {
			s.fail("%s: send %d: got %+v for %v", s.name, c.ID, *c, s.ops[i].wr.Opcode)
		}
		for ; s.done <= i; s.done++ {
			s.verify(s.ops[s.done])
		}
		return
	}
	for ; s.done < i; s.done++ {
		s.verify(s.ops[s.done])
	}
	s.done++
	if s.status != verbs.Success && c.Status != verbs.FlushError {
		s.fail("%s: send %d: %v after a failure, expected a flush", s.name, c.ID, c.Status)
	}
	if s.status == verbs.Success {
		s.status = c.Status
	}
}

// verify checks that an operation reported as done has been done.
func (s *side) verify(op *operation) {
	where := fmt.Sprintf("%s: %v %d", s.name, op.wr.Opcode, op.wr.ID)
	if op.recv >= s.peer.received {
		s.fail("%s is done, but the peer has only %d receives", where, s.peer.received)
	}
	if !op.local.margins() {
		s.fail("%s wrote beside its buffer", where)
	}
	switch op.wr.Opcode {
	case verbs.OpWrite, verbs.OpWriteImm:
		if !bytes.Equal(op.target.bytes(len(op.data)), op.data) {
			s.fail("%s is done, but its data is not in place", where)
		}
		if !op.keep {
			op.target.set(scribble)
		}
	case verbs.OpRead:
		if !bytes.Equal(op.local.bytes(len(op.data)), op.data) {
			s.fail("%s read wrong bytes", where)
		}
	case verbs.OpCompSwap, verbs.OpFetchAdd:
		if got := binary.NativeEndian.Uint64(op.local.bytes(8)); got != op.before {
			s.fail("%s found %#x, want %#x", where, got, op.before)
		}
	}
	if op.last { // late duplicates still name it
		s.peer.qp.Node.Memory.Deregister(op.target.region)
	}
	op.local.set(scribble)
}

// finish checks what must hold in the end, whatever was lost.
func (s *side) finish() {
	if s.done != s.posted || s.posted != len(s.ops) {
		s.fail("%s: %d operations, %d posted, %d done: something hangs", s.name, len(s.ops), s.posted, s.done)
		return
	}
	for _, op := range s.ops {
		if s.status == verbs.Success && !op.local.intact(scribble) {
			s.fail("%s: %v %d touched its buffer after it was done", s.name, op.wr.Opcode, op.wr.ID)
		}
		if op.target != nil && (!op.target.margins() || s.status == verbs.Success && op.wr.Opcode != verbs.OpRead && !op.keep && !op.target.intact(scribble)) {
			s.fail("%s: %v %d touched the peer's memory after it was done, or beside its target", s.name, op.wr.Opcode, op.wr.ID)
		}
	}
	for i, r := range s.receives[:s.received] {
		if s.recvStatus == verbs.Success && !r.local.intact(scribble) {
			s.fail("%s: receive %d was touched after it was done", s.name, i)
		}
	}
	if s.peer.status == verbs.Success {
		if s.received != len(s.receives) || s.recvStatus != verbs.Success && s.peer.posted > 0 && s.recvStatus != verbs.FlushError {
			s.fail("%s: %d of %d receives completed (%v), though the peer had success", s.name, s.received, len(s.receives), s.recvStatus)
		}
	}
	s.atomicsOnce()
	if s.status != verbs.Success && (s.status != verbs.RetryExceeded || s.counters.RetryExceededErr == 0) {
		s.fail("%s: failed with %v and %d exhausted retries counted", s.name, s.status, s.counters.RetryExceededErr)
	}
}

// atomicsOnce checks that the peer's words are what some first part of the atomics
// makes of them, and all of them if there was no failure.
func (s *side) atomicsOnce() {
	var now, value [len(s.value)]uint64
	for i := range now {
		now[i] = binary.NativeEndian.Uint64(s.peer.words.Bytes[8*i:])
	}
	if s.status == verbs.Success {
		if now != s.peer.value {
			s.fail("%s: the peer's words are %#x, want %#x: an atomic was left out or done twice", s.name, now, s.peer.value)
		}
		return
	}
	for _, op := range s.ops {
		if now == value {
			return
		}
		if op.wr.Opcode == verbs.OpCompSwap || op.wr.Opcode == verbs.OpFetchAdd {
			value[op.word] = op.after
		}
	}
	if now != value {
		s.fail("%s: the peer's words %#x are not what the first atomics make of them", s.name, now)
	}
}
