package align

import (
	"maps"
	"math"
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
			if a.bounds[i] >= 0 && a.bounds[j] >= 0 && -after > strangeBy+4*(a.bounds[i]+a.bounds[j]) {
				strange++
				continue
			}
			pairs = append(pairs, trace.Flow{From: i, To: j, Send: best.event, Receive: k})
		}
	}
	return pairs, strange
}

func magnitude(d int64) int64 { return max(d, -d) }

// constraint says that a receive must not end before its send begins:
// row·x >= least.
type constraint struct {
	row   sparse
	least float64
	reply []float64 // how x answers to a unit of force along the row; nil: not needed so far
	gain  float64   // how much row·x then grows
	force float64   // never negative
}

const (
	// passes and effort bound the search. Each pass adds the most violated
	// segment of each pair of ranks; a handful of passes is the rule. The
	// effort of one pass, in multiplications, is some hundredths of a second.
	passes = 50
	effort = 20_000_000
	// apart is how far the end of a receive must be behind the start of its
	// send, in ns, so that it still is when both are rounded.
	apart = 1.0
	// aim is how far the search tries to bring it, so that it comes as far as
	// apart in few steps. No network is that fast.
	aim = 50.0
)

// satisfy moves x as little as possible, in the metric of the least squares,
// so that all segments arrive after they are sent: Hildreth's method (1957)
// for the quadratic program, with constraints added as they are violated, and
// then a shift of whole clocks for what is left.
func (a *alignment) satisfy(pairs []trace.Flow) {
	all := make([]constraint, len(pairs))
	for n, p := range pairs {
		sent, received := a.list[p.From].Events[p.Send].Start, a.list[p.To].Events[p.Receive].End
		all[n] = constraint{row: a.row(p.To, received, p.From, sent), least: float64(sent-received) + apart}
	}
	var chosen []*constraint
	met := true
	for range passes {
		added := false
		by, worst := a.lacking(pairs, all)
		maps.DeleteFunc(worst, func(e edge, _ int) bool { return by[e] <= 0 })
		for _, e := range sorted(worst) {
			c := &all[worst[e]]
			if c.reply != nil {
				continue // it is in the set, and not met well enough
			}
			force := make([]float64, len(a.x))
			for i, p := range c.row.at {
				force[p] = c.row.value[i]
			}
			c.reply = a.normal.solve(force)
			c.gain = c.row.dot(c.reply)
			chosen, added = append(chosen, c), true
		}
		if len(worst) == 0 || !added && !met {
			break
		}
		met = a.relax(chosen)
	}
	a.shift(pairs, all)
}

// lacking returns for each pair of ranks how much the constraint lacks that lacks most,
// and its index.
func (a *alignment) lacking(pairs []trace.Flow, all []constraint) (by map[edge]float64, worst map[edge]int) {
	by, worst = map[edge]float64{}, map[edge]int{}
	for n := range all {
		e := edge{pairs[n].From, pairs[n].To}
		lacks := all[n].least - all[n].row.dot(a.x)
		if known, ok := by[e]; !ok || lacks > known {
			by[e], worst[e] = lacks, n
		}
	}
	return by, worst
}

// relax adjusts the forces of the chosen constraints one after the other until
// all are met, those that pull with little to spare. It tells whether they are.
func (a *alignment) relax(chosen []*constraint) (met bool) {
	for range max(effort/(len(chosen)*len(a.x)), 10) {
		met = true
		for _, c := range chosen {
			lacking := c.least - c.row.dot(a.x)
			met = met && lacking <= 0
			change := max((lacking+aim-apart)/c.gain, -c.force)
			if change == 0 {
				continue
			}
			c.force += change
			for i, r := range c.reply {
				a.x[i] += change * r
			}
		}
		if met {
			return true
		}
	}
	return false
}

// shift moves whole clocks until every segment arrives after it is sent, if
// that can be: the longest paths in the graph of what each pair of ranks lacks
// (Bellman and Ford). If a path round the ring is longer than 0, no shift helps
// and none is made.
func (a *alignment) shift(pairs []trace.Flow, all []constraint) {
	lacks, _ := a.lacking(pairs, all)
	by := make([]float64, len(a.list))
	edges := sorted(lacks)
	for range len(a.list) + 1 {
		changed := false
		for _, e := range edges {
			if later := by[e.a] + lacks[e]; later > by[e.b]+1e-6 {
				by[e.b], changed = later, true
			}
		}
		if !changed {
			for i := range by {
				a.x[2*i] += by[i] - by[0]
			}
			return
		}
	}
}
