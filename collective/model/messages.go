package model

import (
	"math"

	"ringcli/collective"
	"ringcli/ring"
)

// step is one hop of a call by messages: the busiest rank sends and takes so many, each a share
// of the vector, and reduces or copies what it takes.
type step struct {
	sends, takes, share float64
	reduces             bool
	edge                Edge
}

// steps are those of a call. Of n ranks p is the largest power of two; the n-p ranks beyond it
// make a step before and one after.
//
//	ring        n-1 steps of V/n for each phase; down a chain of V
//	doubling    lg p steps of V, or of V/2, V/4, ... where chunks are scattered or gathered; a
//	            barrier ⌈lg n⌉
//	tree        ⌊lg n⌋ steps up, from two children each, and as many down
//	inbox       one step of n-1 messages
//	hierarchy   L-1 messages of V/L within a host of L ranks, H-1 of V/n between H hosts, and back
func (m *Machine) steps(k *collective.Call) (up, down []step) {
	n := float64(m.Ranks)
	levels := math.Floor(math.Log2(n))
	odd := math.Exp2(levels) < n
	reduces, scatters, gathers := k.Op.Reduces(), k.Op == collective.OpReduceScatter, k.Op == collective.OpAllGather
	half := func(level int) float64 { return math.Exp2(-float64(level + 1)) }
	each := 1.0 // the share that a rank gives each other one
	if scatters || gathers {
		each = 1 / n
	}
	switch k.Algorithm {
	case collective.AlgorithmRing:
		s := step{1, 1, 1 / n, reduces, m.around()}
		if k.Op.Rooted() {
			s.share = 1
		}
		for range m.Ranks - 1 {
			up = append(up, s)
		}
		if s.reduces = false; reduces && !scatters && !k.Op.Rooted() {
			for range m.Ranks - 1 {
				down = append(down, s)
			}
		}
	case collective.AlgorithmInbox:
		s := step{n - 1, n - 1, each, reduces, m.Edge}
		if k.Op.Rooted() && reduces {
			s.sends = 1
		} else if k.Op.Rooted() {
			s.takes = 1
		}
		up = []step{s}
	case collective.AlgorithmHierarchical:
		hosts := float64(m.Hosts.Number())
		local := n / hosts
		inside, across := step{local - 1, local - 1, 1 / local, reduces, m.within()}, step{hosts - 1, hosts - 1, 1 / n, reduces, m.Edge}
		if reduces {
			up = []step{inside, across}
		}
		if inside.reduces, across.reduces = false, false; !scatters {
			down = []step{across, inside}
		}
	case collective.AlgorithmTree:
		for level := range int(levels) {
			above, children := 1.0, 2.0
			if level == 0 { // the root has no parent
				above = 0
			}
			if level == int(levels)-1 && n < 2*math.Exp2(levels)-1 { // the last level is not full
				children = 1
			}
			rise, fall := step{above, children, 1, reduces, m.Edge}, step{children, above, 1, false, m.Edge}
			if gathers {
				rise.share = half(level)
			}
			if scatters {
				fall.share = half(level)
			}
			if reduces || !k.Op.Rooted() {
				up = append(up, rise)
			}
			if !reduces || !k.Op.Rooted() {
				down = append(down, fall)
			}
		}
	default: // recursive doubling
		if odd && k.Op.OnVectors() {
			before, after := step{1, 1, 1, reduces, m.Edge}, step{1, 1, 1, false, m.Edge}
			if gathers {
				before.share = each
			}
			if scatters {
				after.share = each
			}
			if up = append(up, before); !k.Op.Rooted() {
				down = append(down, after)
			}
		} else if odd {
			levels++
		}
		for level := range int(levels) {
			s := step{1, 1, 1, reduces, m.Edge}
			if each < 1 || k.Halved(m.Ranks) {
				s.share = half(level)
			}
			up = append(up, s)
			if s.reduces = false; k.Halved(m.Ranks) {
				down = append(down, s)
			}
		}
	}
	return up, down
}

// groups is how many segments follow one another: of the vector, or of a chunk that is longer than one.
func (m *Machine) groups(k *collective.Call) int {
	length := bytes(k)
	whole := k.Op.Rooted() || k.Op == collective.OpAllReduce && k.Algorithm != collective.AlgorithmRing && !k.Halved(m.Ranks)
	if !whole || k.Algorithm == collective.AlgorithmHierarchical {
		length = math.Ceil(length / float64(m.Ranks))
	}
	return max(1, int(math.Ceil(length/float64(max(1, k.Segment)))))
}

// messages is the time of a call by messages, and that of each of many calls in a row.
//
// A message of b bytes takes s = o + bO to send, bβ on the wire, and r = o + bO' + bγ or bκ to
// take. A step of x messages sent and y taken ends when the last one is taken:
//
//	h = max(s + α + bβ + y r, α + max(x s + bβ, s + max(x, y) bβ) + r)
//
// The steps' sum is H, the time of one group of segments, and B is the time that a group keeps
// the busiest CPU or port. An exchange of all with all, or round the ring, makes D groups at a time:
//
//	max(H, DB)
//
// Down a tree or a chain S groups follow one another: H + (S-1) B. A place of D is free again when
// its segment is acknowledged, so that B is (h + α + o)/D or more. By protocol round the ring:
//
//	eager               a copy out of a slot, bκ, in steps that do not reduce
//	rendezvous-write    no copy; RTS and CTS cost the CPU 4o a segment, of which o is in h, and
//	                    the first data waits 2(α + 2o) for them
//	rendezvous-read     no copy; h has 2α + 3o more for RTS and request, and the CPU 4o
//	receiver-initiated  eager in the first phase; no copy in the second
//
// Between other ranks data that fits a slot is copied before it is sent, and its acknowledgement is
// not waited for. An operation ends when its last segment is acknowledged.
func (m *Machine) messages(k *collective.Call) (alone, row float64) {
	v, o, depth, groups := bytes(k), m.Overhead, float64(k.Depth), m.groups(k)
	round, rooted, tree := k.Algorithm == collective.AlgorithmRing, k.Op.Rooted(), k.Algorithm == collective.AlgorithmTree
	write, read := round && k.Protocol == collective.RendezvousWrite, round && k.Protocol == collective.RendezvousRead
	detached := !round && k.Depth > 1 && v <= ring.MeshSlotSize
	var path, busy, cpus float64
	var h, take, alpha, ack, cpu float64 // of the last step
	up, down := m.steps(k)
	for i, phase := range [][]step{up, down} {
		most, mostCPU, sum := 0.0, 0.0, 0.0
		for _, s := range phase {
			b := v * s.share / float64(groups)
			pieces := max(1, math.Ceil(b/float64(max(1, k.Segment))))
			b /= pieces
			x, y, wire, work := s.sends*pieces, s.takes*pieces, b*s.edge.Beta, m.Copy
			switch {
			case s.reduces:
				work = m.Gamma
			case write, read, round && k.Protocol == collective.ReceiverInitiated && i == 1:
				work = 0
			}
			send := o + b*m.SendByte
			if detached {
				send += b * m.Copy
			}
			take, alpha = o+b*(m.RecvByte+work), s.edge.Alpha
			h = max(send+alpha+wire+y*take, alpha+max(x*send+wire, send+max(x, y)*wire)+take)
			load := x*send + y*take
			switch {
			case rooted && round && m.Ranks == 2:
				load = max(x*send+m.copyOwn(k)/float64(groups), y*take)
			case rooted && !tree && !round: // the root sends, or takes
				load = max(x*send, y*take)
			}
			ack = alpha + o
			switch {
			case read:
				h, load, ack = h+2*alpha+3*o, load+4*o, alpha+2*o
			case write:
				load, ack = load+4*o, alpha+2*o
				if !rooted && b > 0 { // down a chain the CTS has come long before
					h += o
				}
			case m.Ranks == 2 && !rooted: // it rides behind data
				ack = 0
			}
			cpu, load = load, max(load, max(x, y)*b*max(s.edge.Beta, m.slowest(k)))
			if round && !rooted {
				load = max(load, (h+ack)/depth)
			}
			path, most, mostCPU, sum = path+h, max(most, load), max(mostCPU, cpu), sum+load
		}
		if tree || round && rooted { // a rank is at one level, and its port carries both phases at once
			busy, cpus = max(busy, most), cpus+mostCPU
		} else {
			busy += sum
		}
	}
	busy = max(busy, cpus)
	first, steps := min(groups, k.Depth), float64(len(up)+len(down))
	announced := 0.0
	if write {
		announced = 2 * (alpha + 2*o)
	}
	pace := busy
	switch {
	case round && rooted && k.Protocol.Handshakes(): // the others under way take CPUs meanwhile
		pace = max(busy, (h+ack+(depth-1)*cpu)/depth)
	case round && rooted:
		pace = max(busy, (h+ack)/depth)
	case tree && !rooted:
		pace = max(busy, path/depth)
	}
	follow := float64(first-1)*busy + float64(groups-first)*pace // the first ones wait for no place
	switch {
	case tree || round && rooted:
		alone = path + follow
	case rooted: // no rank waits for a place
		depth = float64(groups)
		fallthrough
	default:
		last := math.Mod(float64(groups)-1, depth) + 1
		full := (float64(groups) - last) / depth
		alone = full*max(path, depth*busy) + max(path, last*busy)
		alone += (path + (last-1)*busy - max(path, last*busy)) / steps
	}
	row = announced + follow + busy
	if !detached {
		row += max(0, h+ack-busy)
		if alone += max(0, alpha-take); read {
			alone += 2 * o
		}
	}
	flight := alpha // while which the own part is copied
	if k.Protocol == collective.Eager {
		flight += v / max(1, float64(groups)) / float64(m.Ranks) * m.Edge.Beta
	}
	return alone + announced + max(0, m.copyOwn(k)-flight), row
}

// slowest is the inverse bandwidth of the ring's slowest edge, for calls round the ring.
func (m *Machine) slowest(k *collective.Call) float64 {
	if k.Algorithm != collective.AlgorithmRing || m.around() == m.within() {
		return 0
	}
	return max(m.Edge.Beta, m.within().Beta)
}
