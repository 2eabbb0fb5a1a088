package verbstest

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"ringcli/verbs"
)

const (
	stressLinks  = 3
	stressWindow = 12        // messages in flight of one direction
	stressSize   = 12 << 10  // largest message, bytes
	stressSlot   = 16 << 10  // a message's own bytes in each buffer
	stressArea   = 512 << 10 // one direction's slots and its counter, in each buffer
)

// stream is the random traffic of one direction of one pair. Message id owns slot
// id mod window of both buffers until it has completed at both ends.
type stream struct {
	from, to *end
	area     int // offset of its slots in both buffers
	rng      *rand.Rand
	posted   uint64
	done     uint64 // sends completed
	received uint64 // receives completed
	messages [stressWindow]message
	needs    []uint64 // messages that take a receive, in order, from received on
	added    uint64   // what FETCH_ADDs have added in all
	expected uint64   // what the next FETCH_ADD brings
}

type message struct {
	op   operation
	n    int
	add  uint64
	want uint64 // of a FETCH_ADD: the value it brings
}

// Random operations of random sizes, over several queue pairs and both ways at
// once. Each message's data, length, immediate and order are checked.
func testStress(t *testing.T, h Harness) {
	seed := h.Seed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d: Harness.Seed repeats the same operations", seed)
	r := open(t, h, stressLinks*2*stressArea, rightsAll)
	var streams []*stream
	for i := range stressLinks {
		l := r.connect(r.a, r.b, func(c *config) { c.A.PathMTU = r.mtus()[i%len(r.mtus())]; c.B.PathMTU = c.A.PathMTU })
		for j, d := range [][2]*end{{l.a, l.b}, {l.b, l.a}} {
			streams = append(streams, &stream{
				from: d[0], to: d[1], area: (2*i + j) * stressArea, rng: rand.New(rand.NewPCG(seed, uint64(2*i+j))),
			})
		}
	}
	each := uint64(h.StressOps / len(streams))
	finished := func() bool {
		for _, s := range streams {
			s.advance(r)
			for s.posted < each && s.posted < s.done+stressWindow && s.posted < s.settled()+stressWindow {
				s.next(r, each)
			}
		}
		for _, s := range streams {
			if s.done < each || len(s.needs) > 0 {
				return false
			}
		}
		return true
	}
	// Each wait is for some progress, not for all of it.
	for last := uint64(0); !finished(); {
		r.await(func() bool {
			finished()
			sum := uint64(0)
			for _, s := range streams {
				sum += s.done + s.received
			}
			changed := sum != last
			last = sum
			return changed
		}, "random traffic to go on, seed %d; %s", seed, progress(streams))
	}
	for _, s := range streams {
		if got := binary.NativeEndian.Uint64(s.to.buf.Bytes()[s.counter():]); got != s.added {
			t.Errorf("seed %d: the FETCH_ADDs to %s sum up to %d, want %d", seed, s.to.name, got, s.added)
		}
	}
}

// progress says how far each stream is: a fmt.Stringer, so that it does when asked.
type progress []*stream

func (p progress) String() string {
	var all []string
	for _, s := range p {
		m := s.messages[s.done%stressWindow]
		all = append(all, fmt.Sprintf("%s→%s posted %d done %d (next %s of %d bytes) received %d, receives open %v",
			s.from.name, s.to.name, s.posted, s.done, m.op.name, m.n, s.received, s.needs))
	}
	return strings.Join(all, "; ")
}

func (s *stream) counter() int { return s.area + stressWindow*stressSlot }

func (s *stream) slot(id uint64) int { return s.area + int(id%stressWindow)*stressSlot }

// settled is the first message that still waits for its receive to complete.
func (s *stream) settled() uint64 {
	if len(s.needs) > 0 {
		return s.needs[0]
	}
	return s.posted
}

// next posts one message, and the receive that it takes: before it, mostly, or
// right after it.
func (s *stream) next(r *rig, each uint64) {
	id := s.posted
	m := message{op: operations[s.rng.IntN(len(operations))], n: s.rng.IntN(stressSize)}
	if s.rng.IntN(3) == 0 {
		m.n = s.rng.IntN(64)
	}
	if s.from.dev.AtomicCap != verbs.AtomicNone && s.rng.IntN(6) == 0 {
		m.op, m.n = operation{name: "FETCH_ADD", op: verbs.OpFetchAdd, wc: verbs.WCFetchAdd}, 8
		m.add, m.want = s.rng.Uint64(), s.expected
		s.expected += m.add
		s.added = s.expected
	}
	at, seed := s.slot(id), s.seed(id)
	wr := s.to.remote(request(m.op.op, id, s.from.sge(at, m.n)), at)
	wr.Imm = uint32(seed)
	switch {
	case m.add != 0 || m.op.op == verbs.OpFetchAdd:
		wr.RemoteAddr, wr.CompareAdd = s.to.buf.Addr()+uint64(s.counter()), m.add
	case m.op.fromB:
		fill(s.to.buf.Bytes()[at:][:m.n], seed)
		blank(s.from.buf.Bytes()[at:][:m.n])
	default:
		fill(s.from.buf.Bytes()[at:][:m.n], seed)
		blank(s.to.buf.Bytes()[at:][:m.n])
	}
	if m.n > 2 && m.op.op != verbs.OpFetchAdd && s.rng.IntN(2) == 0 { // in two pieces
		cut := s.rng.IntN(m.n)
		wr.SGL = []verbs.SGE{s.from.sge(at, cut), s.from.sge(at+cut, m.n-cut)}
	}
	fences := !r.h.hasA(FenceStalls)
	if s.from.side == r.b {
		fences = !r.h.hasB(FenceStalls)
	}
	if s.rng.IntN(8) == 0 && fences {
		wr.Flags |= verbs.FlagFence
	}
	if s.rng.IntN(4) == 0 && id+1 < each { // the next signalled one tells of it
		wr.Flags &^= verbs.FlagSignaled
	}
	if s.posted+1 == s.done+stressWindow {
		wr.Flags |= verbs.FlagSignaled // or nothing would ever be done
	}
	s.messages[id%stressWindow] = m
	s.posted++
	late := s.rng.IntN(8) == 0
	if late {
		r.post(s.from, wr)
	}
	if m.op.recv != 0 {
		s.needs = append(s.needs, id)
		r.receive(s.to, verbs.WorkRequest{ID: id, SGL: []verbs.SGE{s.to.sge(at, m.n)}})
	}
	if !late {
		r.post(s.from, wr)
	}
}

func (s *stream) seed(id uint64) uint64 { return id<<24 | uint64(s.from.qp.Num()) }

// advance checks what has completed.
func (s *stream) advance(r *rig) {
	for len(s.to.recv.got) > 0 {
		wc := s.to.recv.got[0]
		s.to.recv.got = s.to.recv.got[1:]
		if len(s.needs) == 0 || wc.ID != s.needs[0] || wc.Status != verbs.Success {
			r.t.Fatalf("%s received {%d %s}, want the messages %v", s.to.name, wc.ID, wc.Status, s.needs)
		}
		m := s.messages[wc.ID%stressWindow]
		if wc.Opcode != m.op.recv || int(wc.ByteLen) != m.n || m.op.imm && wc.Imm != uint32(s.seed(wc.ID)) {
			r.t.Fatalf("message %d, %s of %d bytes: received %s of %d bytes, imm %#x", wc.ID, m.op.name, m.n, wc.Opcode, wc.ByteLen, wc.Imm)
		}
		s.check(r, wc.ID)
		s.needs = s.needs[1:]
		s.received++
	}
	for len(s.from.send.got) > 0 {
		wc := s.from.send.got[0]
		s.from.send.got = s.from.send.got[1:]
		if wc.ID < s.done || wc.ID >= s.posted || wc.Status != verbs.Success {
			r.t.Fatalf("%s completed {%d %s}, want one of %d to %d", s.from.name, wc.ID, wc.Status, s.done, s.posted-1)
		}
		for ; s.done <= wc.ID; s.done++ { // and the unsignalled ones before it
			s.check(r, s.done)
		}
	}
}

// check looks at the data of a message that has completed.
func (s *stream) check(r *rig, id uint64) {
	m, at := s.messages[id%stressWindow], s.slot(id)
	what := fmt.Sprintf("message %d from %s to %s, %s of %d bytes", id, s.from.name, s.to.name, m.op.name, m.n)
	switch {
	case m.op.op == verbs.OpFetchAdd:
		if got := binary.NativeEndian.Uint64(s.from.buf.Bytes()[at:]); got != m.want {
			r.t.Fatalf("%s brought %#x, want %#x", what, got, m.want)
		}
	case m.op.fromB:
		r.ok(verify(s.from.buf.Bytes()[at:][:m.n], s.seed(id)), "%s", what)
	default:
		r.ok(verify(s.to.buf.Bytes()[at:][:m.n], s.seed(id)), "%s", what)
	}
}
