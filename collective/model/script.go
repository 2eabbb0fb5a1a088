package model

import (
	"container/heap"

	"ringcli/collective"
	"ringcli/collective/script"
	"ringcli/ring"
)

// script is the time of a call between ranks that need not be neighbours: recursive
// doubling, the tree and the inbox. It plays the scripts that the ranks have, one group of
// segments through all of them, with what each message costs its two CPUs, its two ports
// and its edge. That is the textbook's formula where the number of ranks is a power of two,
// and what it leaves out elsewhere: folded ranks, subtrees of two depths, an inbox's n-1
// messages one after the other through one port.
//
// Groups follow one another, up to depth of them at a time: the second and each later one
// adds what the busiest CPU or port of all ranks has to do for a group, or a depth's share
// of a group's latency if that is more.
func (m *Machine) script(k *collective.Call) float64 {
	return m.playing(k, m.scripts(k))
}

// scripts are those of all ranks.
func (m *Machine) scripts(k *collective.Call) []script.Script {
	all := make([]script.Script, m.Ranks)
	for r := range all {
		k.Script(&all[r], r, m.Ranks)
	}
	return all
}

// message is one that has been sent in a group.
type message struct {
	from  int
	first float64 // when its first piece is there
	last  float64 // when its last is
}

// place is a rank in the group that is played.
type place struct {
	next     int     // move
	cpu      float64 // when it is free
	sends    float64 // when the port is free to send
	receives float64
	worked   float64 // CPU time in all
	sent     float64 // time of the port
	received float64
	inbox    []message
}

// play is one group of segments.
type play struct {
	*Machine
	k      *collective.Call
	cut    script.Cut
	all    []script.Script
	places []place
	vector float64 // bytes
}

func (m *Machine) playing(k *collective.Call, all []script.Script) float64 {
	size := k.Type.Size()
	p := play{
		Machine: m, k: k, all: all, places: make([]place, m.Ranks), vector: bytes(k),
		cut: script.NewCut(k.Count, max(1, k.Segment/size), m.Ranks, all[0].Whole),
	}
	p.run()
	var end, busiest float64
	for i := range p.places {
		at := &p.places[i]
		end = max(end, at.cpu)
		busiest = max(busiest, at.worked, at.sent, at.received)
	}
	interval := max(busiest, end/float64(k.Depth))
	end += float64(p.cut.Groups-1) * interval
	if p.vector > ring.MeshSlotSize || k.Depth == 1 { // else what is sent was copied before, and not waited for
		end += m.Overhead + m.control(1, 0)
	}
	return end + m.copyOwn(k)
}

// run plays the scripts of all ranks to their ends, move by move, always that of the rank
// that is furthest behind: ports serve messages in the order of their sending.
func (p *play) run() {
	behind := make(ranks, len(p.all))
	for r := range behind {
		behind[r].rank = r
	}
	waits := make([]bool, len(p.all))
	for len(behind) > 0 {
		r := heap.Pop(&behind).(turn).rank
		at := &p.places[r]
		if at.next == len(p.all[r].Moves) {
			continue
		}
		mv := &p.all[r].Moves[at.next]
		if mv.Do == script.MoveSend {
			p.send(r, mv)
			if waits[mv.Peer] {
				waits[mv.Peer] = false
				heap.Push(&behind, turn{p.places[mv.Peer].cpu, mv.Peer})
			}
		} else if waits[r] = !p.receive(r, mv); waits[r] {
			continue
		}
		at.next++
		heap.Push(&behind, turn{at.cpu, r})
	}
}

// turn is a rank that can go on, and how far it has come.
type turn struct {
	cpu  float64
	rank int
}

// ranks is a heap of them.
type ranks []turn

func (h ranks) Len() int           { return len(h) }
func (h ranks) Less(i, j int) bool { return h[i].cpu < h[j].cpu }
func (h ranks) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *ranks) Push(x any)        { *h = append(*h, x.(turn)) }
func (h *ranks) Pop() (x any) {
	last := len(*h) - 1
	x, *h = (*h)[last], (*h)[:last]
	return x
}

// load is what a move carries in a group: pieces, and their bytes together, as the mean
// of all groups.
func (p *play) load(mv *script.Move) (pieces int, total float64) {
	pieces = p.cut.Pieces(mv.Lo, mv.Hi)
	elements := p.k.Count
	if !p.all[0].Whole {
		elements = p.cut.Start(mv.Hi) - p.cut.Start(mv.Lo)
	}
	return pieces, float64(elements) * float64(p.k.Type.Size()) / float64(p.cut.Groups)
}

// send is a message to a peer: its pieces one after the other, in slots of which there are
// so many that more pieces wait for credits.
func (p *play) send(r int, mv *script.Move) {
	at, to := &p.places[r], &p.places[mv.Peer]
	e := p.edge(r, mv.Peer)
	pieces, total := p.load(mv)
	n := float64(pieces)
	cpu := n*p.Overhead + total*p.SendByte.At(p.vector)
	if p.vector <= ring.MeshSlotSize && p.k.Depth > 1 {
		cpu += total * p.Copy.At(p.vector)
	}
	var wire float64
	if total > 0 {
		wire = total * e.Beta
	}
	begun := max(at.cpu+cpu/n, at.sends)
	at.cpu += cpu
	at.worked += cpu
	at.sent += wire
	done := max(begun+wire, at.cpu)
	if pieces > ring.MeshSlots { // half of the slots are credited at a time
		turn := 2*p.Overhead + e.Alpha + p.control(mv.Peer, r)
		each := max(wire, cpu) / n
		done += (n/ring.MeshSlots - 1) * max(0, turn-ring.MeshSlots/2*each)
	}
	at.sends = done
	// A port receives what several ranks send at once one after the other.
	last := max(done+e.Alpha, to.receives+wire)
	to.receives = last
	to.received += wire
	to.inbox = append(to.inbox, message{from: r, first: min(last, begun+wire/n+e.Alpha), last: last})
}

// receive is what is not a send, if its message is there.
func (p *play) receive(r int, mv *script.Move) bool {
	at := &p.places[r]
	pieces, total := p.load(mv)
	n := float64(pieces)
	var work float64
	switch mv.Do {
	case script.MoveReduce, script.MoveReduceOwn:
		work = total * p.Gamma.At(p.vector)
	default:
		work = total * p.Copy.At(p.vector)
	}
	if mv.Peer == r {
		at.cpu += work
		at.worked += work
		return true
	}
	i := len(at.inbox) - 1
	for i >= 0 && at.inbox[i].from != mv.Peer {
		i--
	}
	if i < 0 {
		return false
	}
	came := at.inbox[i]
	cpu := n*p.Overhead + total*p.RecvByte.At(p.vector) + work
	at.cpu = max(max(at.cpu, came.first)+cpu, came.last+cpu/n)
	at.worked += cpu
	return true
}
