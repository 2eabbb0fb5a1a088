package trace

import (
	"math"
	"time"
)

// segment is what a send and its receive have in common.
type segment struct{ from, to, seq, position uint64 }

// strangeBy is how long a receive may end before its send begins, beyond what
// the samples' round trips explain, for the two to be taken for one segment.
const strangeBy = int64(10 * time.Millisecond)

// match finds the send of each receive. Where a sequence number occurs several
// times, since the ring was opened anew, the one that is nearest in time
// counts. strange is how many receives are so early that no send can be theirs.
func (a *alignment) match() (pairs []flow, strange int) {
	type place struct{ recording, event int }
	sends := map[segment][]place{}
	for i := range a.list {
		for k := range a.list[i].Events {
			if e := &a.list[i].Events[k]; e.Name == segmentSendName && e.Type == SpanEvent {
				key := segment{uint64(a.list[i].Rank), e.Args.Value("peer"), e.Args.Value("seq"), e.Args.Value("position")}
				sends[key] = append(sends[key], place{i, k})
			}
		}
	}
	for j := range a.list {
		for k := range a.list[j].Events {
			e := &a.list[j].Events[k]
			if e.Name != segmentReceiveName || e.Type != SpanEvent {
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
			pairs = append(pairs, flow{i, j, best.event, k})
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
	// rounds and effort bound the search. Each round adds the most violated
	// segment of each pair of ranks; a handful of rounds is the rule. The
	// effort of one round, in multiplications, is some hundredths of a second.
	rounds = 50
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
func (a *alignment) satisfy(pairs []flow) {
	all := make([]constraint, len(pairs))
	for n, p := range pairs {
		sent, received := a.list[p.from].Events[p.send].Start, a.list[p.to].Events[p.receive].End
		all[n] = constraint{row: a.row(p.to, received, p.from, sent), least: float64(sent-received) + apart}
	}
	var chosen []*constraint
	met := true
	for range rounds {
		added := false
		worst := a.mostViolated(pairs, all)
		for _, way := range sorted(worst) {
			c := &all[worst[way]]
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

// mostViolated returns for each pair of ranks its most violated constraint.
func (a *alignment) mostViolated(pairs []flow, all []constraint) map[edge]int {
	worst, by := map[edge]int{}, map[edge]float64{}
	for n := range all {
		way := edge{pairs[n].from, pairs[n].to}
		if lacking := all[n].least - all[n].row.dot(a.x); lacking > by[way] {
			worst[way], by[way] = n, lacking
		}
	}
	return worst
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
// that can be: the longest ways in the graph of what each pair of ranks lacks
// (Bellman and Ford). If a way round the ring is longer than 0, no shift helps
// and none is made.
func (a *alignment) shift(pairs []flow, all []constraint) {
	lacks := map[edge]float64{}
	for n := range all {
		way := edge{pairs[n].from, pairs[n].to}
		lacking := all[n].least - all[n].row.dot(a.x)
		if known, ok := lacks[way]; !ok || lacking > known {
			lacks[way] = lacking
		}
	}
	by := make([]float64, len(a.list))
	ways := sorted(lacks)
	for range len(a.list) + 1 {
		changed := false
		for _, way := range ways {
			if later := by[way.a] + lacks[way]; later > by[way.b]+1e-6 {
				by[way.b], changed = later, true
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
