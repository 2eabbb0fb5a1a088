package align

import (
	"maps"
	"math"
	"slices"
	"time"

	"ringcli/trace"
)

// segment is what a send and its receive have in common.
type segment struct{ from, to, seq, position uint64 }

// strangeBy is how long a receive may end before its send begins, beyond what
// the samples' round trips explain, for the two to be taken for one segment.
const strangeBy = int64(10 * time.Millisecond)

// match finds the send of each receive. Where a sequence number occurs several
// times, since the ring was opened anew, the one that is nearest in time
// counts. strange is how many receives are so early that no send can be theirs.
func (a *alignment) match() (pairs []trace.Flow, strange int) {
	type eventID struct{ recording, event int }
	sends := map[segment][]eventID{}
	for i := range a.list {
		for k := range a.list[i].Events {
			if e := &a.list[i].Events[k]; e.Name == trace.SegmentSendName && e.Type == trace.SpanEvent {
				key := segment{uint64(a.list[i].Rank), e.Args.Value("peer"), e.Args.Value("seq"), e.Args.Value("position")}
				sends[key] = append(sends[key], eventID{i, k})
			}
		}
	}
	for j := range a.list {
		for k := range a.list[j].Events {
			e := &a.list[j].Events[k]
			if e.Name != trace.SegmentReceiveName || e.Type != trace.SpanEvent {
				continue
			}
			key := segment{e.Args.Value("peer"), uint64(a.list[j].Rank), e.Args.Value("seq"), e.Args.Value("position")}
			candidates := sends[key]
			if len(candidates) == 0 {
				continue // its rank is missing, or the send was overwritten
			}
			end := a.onAxis(j, e.End)
			best, after := candidates[0], int64(math.MaxInt64)
			for _, c := range candidates {
				d := end - a.onAxis(c.recording, a.list[c.recording].Events[c.event].Start)
				if magnitude(d) < magnitude(after) {
					best, after = c, d
				}
			}
			i := best.recording
			if i == j {
				continue // one clock cannot be wrong
			}
			if a.clocks[i].bound >= 0 && a.clocks[j].bound >= 0 && -after > strangeBy+4*(a.clocks[i].bound+a.clocks[j].bound) {
				strange++
				continue
			}
			pairs = append(pairs, trace.Flow{From: i, To: j, Send: best.event, Receive: k})
		}
	}
	return pairs, strange
}

func magnitude(d int64) int64 { return max(d, -d) }

const (
	// passes and sweeps bound the search. Each pass adds the earliest segment of each pair of
	// ranks; a handful of passes is the rule.
	passes, sweeps = 50, 1000
	// mostDrift is how far segments move a drift from that of the samples: two clocks of quartz are
	// some 100 ppm off each, and more would stretch a recording.
	mostDrift = 500e-6
	// apart is how far the end of a receive is moved behind the start of its send, in ns: no
	// network is that fast.
	apart = 50
)

// satisfy moves the clocks so that all segments arrive after they are sent, if that can be:
// those that are early are corrected one after the other (Kaczmarz' method), each clock by
// as much as it is in doubt.
func (a *alignment) satisfy(pairs []trace.Flow) {
	var chosen []trace.Flow
	known := map[trace.Flow]bool{}
	for range passes {
		worst := map[edge]trace.Flow{}
		for _, p := range pairs {
			e := edge{p.From, p.To}
			if w, ok := worst[e]; a.early(p) >= 0 && (!ok || a.early(p) > a.early(w)) {
				worst[e] = p
			}
		}
		before := len(chosen)
		for _, e := range slices.SortedFunc(maps.Keys(worst), compareEdges) { // the same recordings give the same result
			if p := worst[e]; !known[p] {
				chosen, known[p] = append(chosen, p), true
			}
		}
		if len(chosen) == before {
			return // all arrive after they are sent, or they contradict each other
		}
		for range sweeps {
			moved := false
			for _, p := range chosen {
				if by := a.early(p); by >= 0 {
					a.part(p, by+apart)
					moved = true
				}
			}
			if !moved {
				break
			}
		}
	}
}

// times are those of a segment that must be in this order, on their ranks' own clocks.
func (a *alignment) times(p trace.Flow) (sent, received int64) {
	return a.list[p.From].Events[p.Send].Start, a.list[p.To].Events[p.Receive].End
}

// early is how long before its send a segment arrives, in ns; less than 0 if it does not.
func (a *alignment) early(p trace.Flow) float64 {
	sent, received := a.times(p)
	return float64(sent-received) + a.clocks[p.From].add(sent) - a.clocks[p.To].add(received)
}

// part moves the send of a segment and its receive apart, in ns.
func (a *alignment) part(p trace.Flow, by float64) {
	sent, received := a.times(p)
	from, to := &a.clocks[p.From], &a.clocks[p.To]
	share := by / (from.gives(sent) + to.gives(received))
	from.move(sent, -share)
	to.move(received, share)
}

// lever is how far a time is from the middle, in halves of the clock's length.
func (c *clock) lever(at int64) float64 { return 2 * float64(at-c.middle) / float64(max(c.length, 1)) }

// gives is by how much a move of 1 moves a time, in ns.
func (c *clock) gives(at int64) float64 { return c.doubt * c.doubt * (1 + c.lever(at)*c.lever(at)) }

// move corrects the offset, and the drift by as much as that is in doubt and clocks differ.
func (c *clock) move(at int64, by float64) {
	c.offset += by * c.doubt * c.doubt
	c.drift += by * c.doubt * c.doubt * c.lever(at) * 2 / float64(max(c.length, 1))
	c.drift = min(max(c.drift, c.rate-mostDrift), c.rate+mostDrift)
}
