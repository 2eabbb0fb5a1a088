package model

import (
	"container/heap"
	"math"
	"slices"
	"testing"

	"ringcli/collective"
)

// simulated is a ring of ranks that run a plan event by event, as package collective's pass
// does: each has one CPU, which handles what came, posts, and works, in this order, and a
// wire each way. It knows nothing of the formulas.
type simulated struct {
	m      *Machine
	k      *collective.Call
	ranks  []simRank
	events simEvents
	// The layout of a program, as in package collective.
	segments, depth, transfers int
	reducing                   int // transfers whose segments are reduced
	bytes, vector              float64
}

type simRank struct {
	cpu, wire                                                     float64 // when they are free
	came                                                          []simKind
	announced, cleared, posted, sent, granted, arrived, processed int
	rts                                                           int // came and not granted
	waiting                                                       bool
	fins                                                          int
	own                                                           float64 // s: to copy
}

type simKind uint8

const (
	simWake simKind = iota
	simData
	simRTS
	simCTS
	simFIN
	simRead // at the device of who has the data
	simSent // acknowledged
)

type simEvent struct {
	at   float64
	rank int
	kind simKind
}

type simEvents []simEvent

func (h simEvents) Len() int           { return len(h) }
func (h simEvents) Less(i, j int) bool { return h[i].at < h[j].at }
func (h simEvents) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *simEvents) Push(x any)        { *h = append(*h, x.(simEvent)) }
func (h *simEvents) Pop() (x any) {
	last := len(*h) - 1
	x, *h = (*h)[last], (*h)[:last]
	return x
}

func (s *simulated) at(at float64, rank int, kind simKind) {
	n := len(s.ranks)
	heap.Push(&s.events, simEvent{at, (rank + n) % n, kind})
}

// width is that of the group of a position, and which transfer that is.
func (s *simulated) place(position int) (transfer, width int) {
	full := s.transfers * s.depth
	group, rest := position/full, position%full
	width = min(s.depth, s.segments-group*s.depth)
	return rest / width, width
}

func (s *simulated) ready(r *simRank, position int) bool {
	if position >= s.segments*s.transfers {
		return false
	}
	transfer, width := s.place(position)
	return transfer == 0 && s.depth > 1 || position-width < r.processed
}

// turn lets a rank that has its CPU do one thing.
func (s *simulated) turn(now float64, i int) {
	r, m, total := &s.ranks[i], s.m, s.segments*s.transfers
	o, e := m.Overhead, m.Edge
	busy := func(d float64) { r.cpu = now + d; s.at(r.cpu, i, simWake) }
	send := func() { // data to the right
		d := o + s.bytes*m.SendByte.At(s.vector)
		r.posted++
		r.wire = max(r.wire, now+d) + s.bytes*e.Beta
		s.at(r.wire+e.Alpha, i+1, simData)
		s.at(r.wire+2*e.Alpha, i, simSent)
		busy(d)
	}
	if len(r.came) > 0 {
		kind := r.came[0]
		r.came = r.came[1:]
		switch kind {
		case simData:
			r.arrived++
			busy(o + s.bytes*m.RecvByte.At(s.vector))
			if s.k.Protocol == collective.RendezvousRead {
				r.fins++
			}
		case simRTS:
			r.rts++
			busy(o)
		case simCTS:
			r.cleared++
			busy(o)
		case simFIN:
			r.sent++
			busy(o)
		case simRead:
			d := s.bytes * m.SendByte.At(s.vector)
			r.wire = max(r.wire, now+d) + s.bytes*e.Beta
			s.at(r.wire+e.Alpha, i+1, simData)
			busy(d)
		}
		return
	}
	write, read := s.k.Protocol == collective.RendezvousWrite, s.k.Protocol == collective.RendezvousRead
	switch {
	case r.fins > 0:
		r.fins--
		s.at(now+o+e.Alpha, i-1, simFIN)
		busy(o)
		return
	case !read && r.posted-r.sent < s.depth && (!write || r.posted < r.cleared) && s.ready(r, r.posted):
		send()
		return
	case write && r.announced < total && r.announced-r.sent < 2*s.depth, read && r.announced-r.sent < s.depth && s.ready(r, r.announced):
		r.announced++
		s.at(now+o+e.Alpha, i+1, simRTS)
		busy(o)
		return
	case (write || read) && r.rts > 0 && r.granted < r.processed+s.depth:
		r.rts--
		r.granted++
		kind := simCTS
		if read {
			kind = simRead
		}
		s.at(now+o+e.Alpha, i-1, kind)
		busy(o)
		return
	case r.own > 0:
		own := r.own
		r.own = 0
		busy(own)
		return
	case r.arrived > r.processed:
		transfer, _ := s.place(r.processed)
		r.processed++
		switch {
		case transfer < s.reducing:
			busy(s.bytes * m.Gamma.At(s.vector))
		case s.k.Protocol == collective.Eager:
			busy(s.bytes * m.Copy.At(s.vector))
		default:
			busy(0)
		}
		return
	}
	r.waiting = true
}

// run returns when the last rank has ended.
func (s *simulated) run() float64 {
	for i := range s.ranks {
		s.at(0, i, simWake)
	}
	var end float64
	for s.events.Len() > 0 {
		e := heap.Pop(&s.events).(simEvent)
		r := &s.ranks[e.rank]
		switch e.kind {
		case simWake:
		case simSent:
			if s.k.Protocol != collective.RendezvousRead {
				r.sent++
			}
		case simRead:
			if s.m.SendByte == nil { // its device sends, without its CPU
				r.wire = max(r.wire, e.at) + s.bytes*s.m.Edge.Beta
				s.at(r.wire+s.m.Edge.Alpha, e.rank+1, simData)
				break
			}
			r.came = append(r.came, e.kind)
		default:
			r.came = append(r.came, e.kind)
		}
		if e.kind == simWake || r.waiting && r.cpu <= e.at {
			r.waiting = false
			s.turn(max(e.at, r.cpu), e.rank)
		}
		end = max(end, e.at)
	}
	return end
}

func simulate(m *Machine, k *collective.Call) float64 {
	v := bytes(k)
	s := simulated{m: m, k: k, ranks: make([]simRank, m.Ranks), depth: k.Depth, vector: v}
	s.segments = max(1, int(math.Ceil(v/float64(m.Ranks)/float64(k.Segment))))
	s.bytes = v / float64(m.Ranks) / float64(s.segments)
	s.transfers = (m.Ranks - 1) * k.Op.Phases()
	if k.Op.Reduces() {
		s.reducing = m.Ranks - 1
	}
	for i := range s.ranks {
		s.ranks[i].own = m.copyOwn(k)
	}
	return s.run()
}

// TestAgainstSimulation: the formulas say what a ring does that is played event by event.
func TestAgainstSimulation(t *testing.T) {
	nic := Machine{Edge: Edge{3e-6, 1 / 12e9}, Overhead: 0.3e-6, Gamma: Flat(1 / 20e9), Copy: Flat(1 / 15e9)}
	slow := nic
	slow.Gamma, slow.Copy = Flat(1/4e9), Flat(1/6e9)
	soft := Machine{Edge: Edge{6e-6, 0}, Overhead: 2e-6, Gamma: Flat(1 / 15e9), Copy: Flat(1 / 10e9), SendByte: Flat(1 / 8e9), RecvByte: Flat(1 / 7e9)}
	var off []float64
	worst := 0.0
	for name, base := range map[string]Machine{"nic": nic, "slow CPU": slow, "soft": soft} {
		for _, n := range []int{2, 3, 8, 32} {
			m := base
			m.Ranks = n
			for _, op := range collective.Operations() {
				if op.Rooted() {
					continue // a chain: see TestChain
				}
				for _, p := range []collective.Protocol{collective.Eager, collective.RendezvousWrite, collective.RendezvousRead} {
					for size := 1 << 10; size <= 4<<20; size <<= 3 {
						k := planned(t, op, collective.AlgorithmRing, p, n, size, collective.CallOptions{})
						got, want := m.Time(k), simulate(&m, &k)
						share := math.Abs(got/want - 1)
						off = append(off, share)
						if worst = max(worst, share); share > 0.25 {
							t.Errorf("%s: %s by %s on %d, %d bytes: %.1f us, simulated %.1f: %.2f", name, op, p, n, size, got*1e6, want*1e6, got/want)
						}
					}
				}
			}
		}
	}
	if !testing.Short() {
		m := nic
		m.Ranks = 1000
		k := planned(t, collective.OpAllReduce, collective.AlgorithmRing, collective.RendezvousWrite, m.Ranks, 64<<10, collective.CallOptions{})
		near(t, "64 KiB on 1000 ranks", m.Time(k), simulate(&m, &k), 0.05)
	}
	slices.Sort(off)
	if middle := off[len(off)/2]; middle > 0.05 {
		t.Errorf("the median error is %.1f %%, want at most 5 %%", middle*100)
	}
	t.Logf("%d calls: median error %.1f %%, nine tenths within %.1f %%, the worst %.1f %%", len(off), off[len(off)/2]*100, off[len(off)*9/10]*100, worst*100)
}
