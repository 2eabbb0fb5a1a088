package model

import (
	"math"

	"ringcli/collective"
	"ringcli/ring/message"
)

// hop is what it costs to move one segment over one edge of the ring and to do there what
// is to be done with it.
type hop struct {
	latency float64 // until the next rank may send it on
	burst   float64 // between two segments: the slower of CPU and wire
	pace    float64 // that, or what the window lets through
	end     float64 // from when the last segment was processed until it is acknowledged
	acked   float64 // from when a segment is sent until the next may be in its place
}

// ring is the time of a call round the ring.
//
// A chunk moves t times, n-1 for each phase. It has S segments of s bytes, which go round
// in groups of up to depth D. Within a group of w each segment has to have made one hop
// before it makes the next, so that a step of the group takes
//
//	max(H, wτ)    H a hop of one segment, τ the pace of segments
//
// and all of it t times the sum of that over the groups; the last group's last segment
// comes (w-1)τ after its first. With one segment that is the textbook's t(α + sβ + sγ);
// with many it is t S τ, of which the textbook has τ = s max(β, ...) alone. By protocol:
//
//	eager               H = 2o + α + max((O + O')s, sβ) + work;   work: sγ, or sκ out of a slot
//	                    τ = max(CPU, sβ, (H + α + o)/D)       a slot is D segments away
//	rendezvous-write    H is the same, without the copy in the second phase. Each segment
//	                    costs four more messages' CPU (RTS and CTS, sent and received), of
//	                    which one comes just when the data does, and is in H unless
//	                    that is as short as a header.
//	                    A CTS goes out when the segment D before it is processed, so that
//	                    τ >= (H + 2o + α)/D. RTS go ahead: they are waited for once.
//	rendezvous-read     an RTS goes when the data is ready, the READ asks for it, and it
//	                    comes: H has 2α + 3o more; a FIN frees one of D: (H + 2o + α)/D
//	receiver-initiated  eager in the first phase; the second writes into place: no copy
//
// Of an operation with a root, segments follow one another along a chain of n-1 hops, the
// first D as CPU and wire let them, the others at the pace of windows. A handshake goes
// round while the CPUs have the D-1 others to do: (H + 2o + α + (D-1) CPU)/D; no hop waits
// for a CTS, which came while its data was on the way.
//
// An operation ends when its last segment is acknowledged, α after it came, while it is
// received and worked on; where CPUs acknowledge, after that. Where ranks take turns on the CPUs,
// each of those of a CPU does what is to be done for a step and passes on the turn. The slowest
// edge sets the pace, and the hops of a step take what all edges take on average, since
// each chunk goes over all but one of them.
func (m *Machine) ring(k *collective.Call) float64 {
	n := float64(m.Ranks)
	segments, s := m.segments(k)
	depth := k.Depth
	last := segments % depth
	groups := segments / depth // of the full ones
	if last == 0 {
		last, groups = depth, groups-1
	}
	var total float64
	var h hop
	step := func(w int) float64 { return max(h.latency, float64(w)*h.pace) }
	if k.Op.Rooted() { // a chain, along which segments follow one another
		h = m.slowest(k, s, k.Op.Reduces())
		first := min(segments, depth) // which no window holds up
		total = (n-2)*h.latency + step(last) + float64(first-1)*h.burst + float64(segments-first-last+1)*h.pace
	}
	for phase := range 2 {
		if k.Op.Rooted() {
			break
		}
		reduces := phase == 0
		if reduces && !k.Op.Reduces() || !reduces && k.Op == collective.OpReduceScatter {
			continue
		}
		if total > 0 && k.Sync { // the passes around the barrier, and it
			total += h.end + m.ring(&collective.Call{Op: collective.OpBarrier, CallOptions: collective.CallOptions{
				Algorithm: collective.AlgorithmRing, Protocol: collective.Eager, Segment: 1, Depth: collective.DefaultDepth,
			}})
		}
		h = m.slowest(k, s, reduces)
		total += (n - 1) * (float64(groups)*step(depth) + step(last))
	}
	total += m.announced(k)
	if math.IsInf(h.latency, 1) {
		return h.latency // an edge that carries nothing
	}
	total += h.latency - step(last) + float64(last-1)*h.pace
	// The own part is copied while the first segment, or its RTS, is on its way.
	flight := m.edge(0, 1).Alpha
	if k.Protocol == collective.Eager {
		flight += s * m.edge(0, 1).Beta
	}
	return total + h.end + max(0, m.crowd()*m.copyOwn(k)-flight)
}

// chainRow is what each of many calls round the ring takes that have a root. A rank goes on to the
// next when its segments are acknowledged, whatever becomes of them farther on.
func (m *Machine) chainRow(k *collective.Call) float64 {
	segments, s := m.segments(k)
	h := m.slowest(k, s, k.Op.Reduces())
	first := min(segments, k.Depth)
	row := m.announced(k) + float64(first-1)*h.burst + float64(segments-first)*h.pace + h.acked
	busy := float64(segments) * h.burst
	if m.crowd() > 1 { // for what comes along an edge, and what goes back, a rank waits for its turn
		ways := 2.0 // data and its acknowledgement
		switch k.Protocol {
		case collective.RendezvousWrite: // RTS and CTS
			ways += 2
		case collective.RendezvousRead: // RTS, the request, and FIN
			ways += 3
		}
		turns := ways * math.Ceil(float64(segments)/float64(k.Depth))
		busy += float64(m.Ranks-1) / float64(m.CPUs) * (2*m.Ack + turns*m.turn())
	}
	return max(row, busy)
}

// segments are how many a chunk has, and the bytes of each.
func (m *Machine) segments(k *collective.Call) (n int, each float64) {
	chunk := bytes(k)
	if !k.Op.Rooted() {
		chunk /= float64(m.Ranks)
	}
	n = max(1, int(math.Ceil(math.Ceil(chunk)/float64(k.Segment))))
	return n, chunk / float64(n)
}

// announced is what the first data waits for: RTS and CTS.
func (m *Machine) announced(k *collective.Call) float64 {
	if k.Protocol != collective.RendezvousWrite {
		return 0
	}
	return 2 * m.way(k, 2*m.Overhead, m.meanControl())
}

// way is a message's, with what its two CPUs do. Where ranks take turns they all do that, one after
// the other, of a chain one alone.
func (m *Machine) way(k *collective.Call, cpu, alpha float64) float64 {
	if k.Op.Rooted() {
		return alpha + cpu + m.turn()
	}
	return max(alpha+cpu, m.crowd()*(cpu+m.turn()))
}

func (m *Machine) meanControl() (mean float64) {
	edges := m.edges()
	for r := range edges {
		mean += m.control((r+1)%m.Ranks, r) / float64(edges)
	}
	return mean
}

// edges is how many edges of the ring are to be looked at: one, if all are alike.
func (m *Machine) edges() int {
	if len(m.Edges) == 0 && m.Within == nil {
		return 1
	}
	return m.Ranks
}

// slowest is a hop of the ring: its latency that of the mean edge, its pace that of the
// slowest.
func (m *Machine) slowest(k *collective.Call, s float64, reduces bool) (h hop) {
	edges := m.edges()
	for r := range edges {
		e := m.hop(k, s, reduces, r)
		h.latency += e.latency / float64(edges)
		h.burst, h.pace = max(h.burst, e.burst), max(h.pace, e.pace)
		h.end, h.acked = max(h.end, e.end), max(h.acked, e.acked)
	}
	return h
}

// hop is that from a place of the ring to the next.
func (m *Machine) hop(k *collective.Call, s float64, reduces bool, from int) (h hop) {
	to := (from + 1) % m.Ranks
	e, back, v := m.edge(from, to), m.control(to, from), bytes(k)
	o, depth := m.Overhead, float64(k.Depth)
	post, recv := o+s*m.SendByte.At(v), o+s*m.RecvByte.At(v)
	wire := s * e.Beta
	if s == 0 {
		wire = 0
	}
	var work float64
	switch {
	case reduces:
		work = s * m.Gamma.At(v)
	case k.Protocol == collective.Eager:
		work = s * m.Copy.At(v)
	}
	sends, receives := post, recv+work
	h.latency = m.way(k, post+recv+work, e.Alpha+max(0, 2*o+wire-post-recv))
	ack, answer := back+o, m.way(k, 2*o, back)
	h.end = max(0, back-recv-work)
	if m.Ack > 0 {
		ack = m.way(k, 2*m.Ack, back)
		h.end = ack
	}
	acknowledged := h.latency + ack
	if m.Ranks == 2 && !k.Op.Rooted() { // both ways on one edge: the acknowledgement rides behind data
		acknowledged = h.latency
	}
	h.acked = h.latency + ack
	switch k.Protocol {
	case collective.RendezvousWrite:
		sends, receives = sends+2*o, receives+2*o
		if wire+work > 1.1*message.HeaderSize*e.Beta && !k.Op.Rooted() { // else data is ahead of the CTS behind it; down a chain that has come long before
			h.latency += m.crowd() * o
		}
		acknowledged = h.latency + answer
	case collective.RendezvousRead:
		sends, receives = sends+2*o, receives+2*o
		h.latency += m.way(k, 2*o, e.Alpha) + m.way(k, o, back)
		acknowledged = h.latency + answer
		h.acked = acknowledged
		h.end = max(0, answer-work)
		if m.Ack > 0 { // the FIN is a message that waits for its own
			h.end = answer + ack
		}
	}
	if k.Depth == 1 { // nothing is under way while a segment is reduced
		acknowledged = max(acknowledged, h.latency+back+o)
	}
	own := m.copyOwn(k) * s / max(1, v) // the root's
	cpu := m.crowd() * (sends + receives)
	switch edges := float64(m.Ranks - 1); {
	case !k.Op.Rooted():
	case m.crowd() > 1: // the CPUs share what the edges take
		cpu = (edges*(sends+receives) + own) / float64(m.CPUs)
	case m.Ranks == 2:
		cpu = max(sends+own, receives)
	}
	if k.Op.Rooted() && k.Protocol.Handshakes() { // all along a chain the others under way take CPUs meanwhile
		acknowledged += (depth - 1) * cpu
	}
	h.burst = max(cpu, wire)
	h.pace = max(h.burst, acknowledged/depth)
	return h
}
