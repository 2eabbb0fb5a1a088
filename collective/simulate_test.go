package collective

import (
	"fmt"
	"time"

	"ringcli/collective/plan"
	"ringcli/collective/program"
	"ringcli/collective/script"
	"ringcli/ring"
	"ringcli/ring/message"
	"ringcli/verbs/soft/rc/rctest/fabric"
)

// simulation has ranks run a planned call over a simulated network, event by event. What a
// rank does next are the product's own counts and walk; what is here is what a flow does around
// them: take what came, post, work. A rank has one CPU, which costs say.
type simulation struct {
	net   fabric.Network
	costs Costs
	k     Call
	slots uint64 // of an edge of the ring
	ranks []simulated
	over  int
	end   float64
}

// Costs are CPU times in ns: of a message at each of its two ends, of the reduction of a byte
// and of its copy out of a slot.
type Costs struct{ Overhead, Reduce, Copy float64 }

// simulated is a rank.
type simulated struct {
	free    float64 // when its CPU is
	waking  bool
	over    bool
	came    []simulatedMessage
	sending *simulatedMessage // once the CPU is through with it
	own     float64           // ns: to copy what no other rank changes, once all is sent that may be

	program.Counts
	rts                    int
	filled, freed, arrived uint64 // slots to the right; slots from the left
	taken, told            uint64

	script.Walk
	edges map[int]*simulatedEdge
}

// simulatedEdge is one of a mesh.
type simulatedEdge struct{ posted, sent, freed, came, took, told int }

type simulatedMessage struct {
	peer, bytes int
	kind        simulatedKind
	group       int
	took        int
}

type simulatedKind uint8

const (
	simulatedData simulatedKind = iota
	simulatedInPlace
	simulatedRTS
	simulatedCTS
	simulatedCredit
)

func (m *simulatedMessage) tag() uint64 {
	return uint64(m.kind) | uint64(m.group)<<8 | uint64(m.took)<<32
}

func messageOf(peer, bytes int, tag uint64) simulatedMessage {
	return simulatedMessage{peer, bytes, simulatedKind(tag), int(tag >> 8 & (1<<24 - 1)), int(tag >> 32)}
}

// Simulate runs a planned call on so many ranks and returns when the last has ended, in ns. Round
// the ring it may be a share of the positions alone, the first ones.
func Simulate(net fabric.Network, c Costs, k Call, ranks, share int) (ns float64, err error) {
	s := &simulation{net: net, costs: c, k: k, slots: simulatedSlots, ranks: make([]simulated, ranks)}
	for i := range s.ranks {
		r := &s.ranks[i]
		if !k.Op.Reduces() {
			sent, _ := k.Buffers(ranks, i)
			r.own = float64(sent.Len()*k.Type.Size()) * c.Copy
		}
		if k.Algorithm == AlgorithmRing {
			r.Program = program.Program{Rank: i, Size: ranks}
			if i > 0 && k.Count%ranks == 0 && !k.Op.Rooted() { // all chunks are alike, and so are the programs but for the chunks' names
				r.Counts = s.ranks[0].Counts
				continue
			}
			k.LayOut(&r.Counts, k.Op.Program())
			r.Incoming, r.Outgoing = r.Incoming/share, r.Outgoing/share
			continue
		}
		var own script.Script
		k.Script(&own, i, ranks, nil)
		r.SetOut(&own, k.Count, k.Segment/k.Type.Size(), k.Depth, false)
		r.edges = map[int]*simulatedEdge{}
	}
	begun := net.Now()
	for i := range s.ranks {
		s.kick(i)
	}
	if !net.Run(s, time.Hour) || s.over != ranks {
		return 0, fmt.Errorf("%d of %d ranks have ended after %v", s.over, ranks, time.Duration(net.Now()-begun))
	}
	return s.end - begun, nil
}

// simulatedSlots is what an edge of a ring of many ranks has: see ring.Options.
const simulatedSlots = 16

func (s *simulation) Arrived(from, to, bytes int, tag uint64) {
	s.ranks[to].came = append(s.ranks[to].came, messageOf(from, bytes, tag))
	s.kick(to)
}

func (s *simulation) Acked(from, to int, tag uint64) {
	r, m := &s.ranks[from], messageOf(to, 0, tag)
	switch {
	case m.kind != simulatedData && m.kind != simulatedInPlace:
		return
	case s.k.Algorithm == AlgorithmRing:
		r.Acknowledged()
	case !s.detached():
		r.edges[to].sent++
		r.Walk.Group(m.group).Flying--
		r.Leave()
	}
	s.kick(from)
}

func (s *simulation) Woke(rank int) {
	s.ranks[rank].waking = false
	s.turns(rank)
}

// detached tells whether what is sent in a script was copied before.
func (s *simulation) detached() bool {
	return s.k.Depth > 1 && s.k.Count*s.k.Type.Size() <= ring.MeshSlotSize
}

func (s *simulation) kick(rank int) {
	r := &s.ranks[rank]
	switch now := s.net.Now(); {
	case r.waking:
	case r.free > now:
		r.waking = true
		s.net.Wake(r.free, rank)
	default:
		s.turns(rank)
	}
}

// turns lets a rank go on until its CPU is busy or it waits.
func (s *simulation) turns(rank int) {
	r := &s.ranks[rank]
	for {
		if m := r.sending; m != nil {
			r.sending = nil
			s.net.Send(rank, m.peer, m.bytes, m.tag())
		}
		var cost float64
		var did bool
		if s.k.Algorithm == AlgorithmRing {
			cost, did = s.pass(rank, r)
		} else {
			cost, did = s.script(r)
		}
		switch {
		case !did:
			return
		case cost > 0:
			r.free, r.waking = s.net.Now()+cost, true
			s.net.Wake(r.free, rank)
			return
		}
	}
}

// send has the CPU send a message.
func (s *simulation) send(r *simulated, m simulatedMessage) (cost float64, did bool) {
	r.sending = &m
	return s.costs.Overhead, true
}

func (s *simulation) ended(r *simulated, over bool) {
	if over && !r.over {
		r.over = true
		s.over++
		s.end = s.net.Now()
	}
}

// take is the oldest message that has come.
func (r *simulated) take() (m simulatedMessage, ok bool) {
	if len(r.came) == 0 {
		return m, false
	}
	m = r.came[0]
	r.came = r.came[:copy(r.came, r.came[1:])]
	return m, true
}

// pass is what a pass does next: see flow.run, pass.post and pass.work.
func (s *simulation) pass(rank int, r *simulated) (cost float64, did bool) {
	n, c := len(s.ranks), &r.Counts
	left, right := (rank+n-1)%n, (rank+1)%n
	if m, ok := r.take(); ok {
		switch m.kind {
		case simulatedData:
			r.arrived++
		case simulatedInPlace:
			c.Arrived++
		case simulatedRTS:
			r.rts++
		case simulatedCTS:
			c.Cleared++
		case simulatedCredit:
			r.freed += plan.CreditBatch(s.slots)
		}
		return s.costs.Overhead, true
	}
	control := func(peer int, kind simulatedKind) (float64, bool) {
		return s.send(r, simulatedMessage{peer: peer, bytes: message.HeaderSize, kind: kind})
	}
	switch eager := s.k.Protocol == Eager; {
	case eager && c.MayPost() && r.filled-r.freed < s.slots:
		bytes := message.HeaderSize + c.Leaving(c.Posted)
		c.Posted++
		r.filled++
		return s.send(r, simulatedMessage{peer: right, bytes: bytes, kind: simulatedData})
	case !eager && c.Posted < c.Cleared && c.MayPost():
		bytes := c.Leaving(c.Posted)
		c.Posted++
		return s.send(r, simulatedMessage{peer: right, bytes: bytes, kind: simulatedInPlace})
	case !eager && c.MayAnnounce(c.Ahead, false):
		c.Announced++
		return control(right, simulatedRTS)
	case !eager && r.rts > 0 && c.MayGrant():
		r.rts--
		c.Granted++
		return control(left, simulatedCTS)
	}
	if r.taken >= r.told+plan.CreditBatch(s.slots) {
		r.told += plan.CreditBatch(s.slots)
		return control(left, simulatedCredit)
	}
	if cost, r.own = r.own, 0; cost > 0 {
		return cost, true
	}
	if c.Processed == c.Incoming {
		s.ended(r, c.Through() && c.Sent == c.Outgoing && r.freed >= r.filled-r.filled%plan.CreditBatch(s.slots))
		return 0, false
	}
	transfer, _, _ := c.At(c.Processed)
	st := c.Program.Steps[transfer+1]
	slotted := c.InSlot(transfer)
	there := c.Arrived > c.Processed
	if slotted {
		there = r.arrived > r.taken
	}
	if !there || !c.MayWork(st, false) {
		return 0, false
	}
	bytes := float64(c.Arriving(c.Processed))
	switch {
	case st.Do&program.DoReduce != 0:
		cost = bytes * s.costs.Reduce
	case slotted:
		cost = bytes * s.costs.Copy
	}
	if st.Do == program.RecvReduceSend {
		c.PartialsMade++
	}
	c.Processed++
	if slotted {
		r.taken++
	}
	return cost, true
}

// script is what a scriptRun does next.
func (s *simulation) script(r *simulated) (cost float64, did bool) {
	edge := func(peer int) *simulatedEdge {
		e := r.edges[peer]
		if e == nil {
			e = &simulatedEdge{}
			r.edges[peer] = e
		}
		return e
	}
	if m, ok := r.take(); ok {
		e := edge(m.peer)
		e.freed = max(e.freed, m.took)
		if m.kind == simulatedData {
			e.came++
		}
		return s.costs.Overhead, true
	}
	w, size := &r.Walk, s.k.Type.Size()
	for g := w.First; g < w.End(); g++ {
		m := w.MayPost(g)
		if m == nil {
			continue
		}
		e := edge(m.Peer)
		if e.posted-e.freed == ring.MeshSlots || e.posted-e.sent == ring.MeshSlots {
			continue
		}
		from, to := w.Piece(m.Lo, m.Hi, g, w.Group(g).Posted)
		bytes := (to - from) * size
		e.posted++
		e.told = e.took
		if s.detached() {
			e.sent++
			cost = float64(bytes) * s.costs.Copy
		} else {
			w.Group(g).Flying++
		}
		w.PostedPiece(g)
		overhead, _ := s.send(r, simulatedMessage{peer: m.Peer, bytes: message.HeaderSize + bytes, group: g, took: e.took})
		return cost + overhead, true
	}
	if cost, r.own = r.own, 0; cost > 0 {
		return cost, true
	}
	for g := w.First; g < w.End(); g++ {
		m := w.MayWork(g)
		if m == nil {
			continue
		}
		from, to := w.Piece(m.Lo, m.Hi, g, w.Group(g).Worked)
		bytes := float64((to - from) * size)
		receives := m.Do != script.MoveReduceOwn && m.Do != script.MoveOutput
		if receives {
			e := edge(m.Peer)
			if e.came == e.took {
				continue
			}
			e.took++
			if e.took-e.told >= ring.MeshSlots/2 {
				e.told = e.took
				cost, _ = s.send(r, simulatedMessage{peer: m.Peer, bytes: message.HeaderSize, kind: simulatedCredit, took: e.took})
			}
		}
		if m.Do == script.MoveReduce || m.Do == script.MoveReduceOwn {
			cost += bytes * s.costs.Reduce
		} else {
			cost += bytes * s.costs.Copy
		}
		w.WorkedPiece(g)
		w.Leave()
		return cost, true
	}
	w.Leave()
	s.ended(r, w.First == w.Groups)
	return 0, false
}
