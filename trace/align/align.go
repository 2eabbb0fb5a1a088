package align

import (
	"cmp"
	"math"
	"slices"
	"time"

	"ringcli/trace"
)

// ClockFit is what Merge found out about a rank's clock.
type ClockFit struct {
	Rank     int     `json:"rank"`
	Offset   int64   `json:"offset_ns"` // what is added to the rank's clock when it shows At
	At       int64   `json:"at"`        // ns since the Unix epoch
	DriftPPM float64 `json:"drift_ppm"` // how much must be added for each second after, in us
	Bound    int64   `json:"bound_ns"`  // half the shortest round trips on the way from the reference; -1: no samples on the way
	Samples  int     `json:"samples"`   // own ones
}

// alignment finds the corrections of the recordings' clocks. That of recording 0, whose clock
// is the axis, is none.
type alignment struct {
	list   []trace.Recording
	edges  map[edge][]sample
	clocks []clock // of each recording
}

// clock is the correction of a recording's clock: a time t of it is
// t + offset + drift (t - middle) on the axis.
type clock struct {
	middle        int64   // of the recording's events
	length        int64   // ns, of the time that they take
	offset, drift float64 // ns, and ns for each ns
	rate          float64 // the drift by the samples; 0 without any
	bound         int64   // ns; -1: no chain of samples leads to it
	doubt         float64 // ns that the correction may be off by at the first or last event
}

// edge is two recordings: of samples both orders are there, of segments the sender is first.
type edge struct{ from, to int }

func compareEdges(a, b edge) int { return cmp.Or(cmp.Compare(a.to, b.to), cmp.Compare(a.from, b.from)) }

// sample says that the clock of an edge's from showed one time when that of to showed the
// other, to within rtt/2.
type sample struct{ from, to, rtt int64 }

const (
	// Samples this far from the events are left out if there are enough nearer ones: over
	// longer times a clock's rate changes.
	nearby      = int64(60 * time.Second)
	enoughClose = 8
	// The best sample of each of so many stretches of time is taken.
	stretches = 32
	// assumedDrift is that of quartz, where one sample alone tells nothing of drift.
	assumedDrift = 100e-6
	// leastRTT is the least round trip of a sample in ns: a clock that shows two times as one is in
	// doubt all the same.
	leastRTT = 1000
	// unknown is the doubt of a clock without samples: some hours.
	unknown = 1e13
)

func newAlignment(list []trace.Recording) *alignment {
	a := &alignment{list: list, edges: map[edge][]sample{}, clocks: make([]clock, len(list))}
	index := map[int]int{} // of the recording of a rank
	for i := range list {
		index[list[i].Rank] = i
		first, last := window(list[i])
		a.clocks[i] = clock{middle: first + (last-first)/2, length: last - first, bound: -1, doubt: unknown}
	}
	for i := range list {
		for _, s := range list[i].Clock {
			if j, ok := index[s.Peer]; ok && j != i && s.RTT >= 0 {
				a.edges[edge{i, j}] = append(a.edges[edge{i, j}], sample{s.At, s.At + s.Offset, max(s.RTT, leastRTT)})
				a.edges[edge{j, i}] = append(a.edges[edge{j, i}], sample{s.At + s.Offset, s.At, max(s.RTT, leastRTT)})
			}
		}
	}
	a.clocks[0].bound, a.clocks[0].doubt = 0, 0
	a.place()
	return a
}

// window is from the first to the last event of a recording, on its own clock.
func window(r trace.Recording) (first, last int64) {
	if len(r.Events) == 0 {
		return r.Written.UnixNano(), r.Written.UnixNano()
	}
	first, last = math.MaxInt64, math.MinInt64
	for _, e := range r.Events {
		first, last = min(first, e.Start), max(last, e.End)
	}
	return first, last
}

// place corrects the clocks one after the other, each by the samples of the edge from a
// placed recording that leaves the least doubt (Prim's algorithm).
func (a *alignment) place() {
	for {
		var next clock
		var best edge
		at := -1
		for e, samples := range a.edges {
			if a.clocks[e.from].bound < 0 || a.clocks[e.to].bound >= 0 {
				continue
			}
			half := slices.MinFunc(samples, func(a, b sample) int { return cmp.Compare(a.rtt, b.rtt) }).rtt / 2
			if bound := a.clocks[e.from].bound + half; at < 0 || bound < next.bound || bound == next.bound && compareEdges(e, best) < 0 {
				at, next, best = e.to, a.correct(e), e
				next.bound = bound
			}
		}
		if at < 0 {
			return
		}
		a.clocks[at] = next
	}
}

// correct finds the correction of e.to from that of e.from. Of all pairs of samples it
// takes the pair whose line is off by least at either end of the window: a sample is off by
// at most half its round trip (David L. Mills, RFC 5905, section 10).
func (a *alignment) correct(e edge) clock {
	first, last := window(a.list[e.to])
	list := selectSamples(a.edges[e], first-nearby, last+nearby)
	best, least := [2]sample{}, math.Inf(1)
	for i, s := range list {
		// One sample alone says nothing of the drift between the two clocks.
		off := float64(s.rtt)/2 + assumedDrift*float64(max(s.to-first, last-s.to, 0))
		if off < least {
			best, least = [2]sample{s, s}, off
		}
		for _, t := range list[i+1:] {
			if off := max(doubt(s, t, first), doubt(s, t, last)); off < least {
				best, least = [2]sample{s, t}, off
			}
		}
	}
	// What is added to the clock of e.to when it shows a sample's time.
	s, t := best[0], best[1]
	addS, addT := float64(a.onAxis(e.from, s.from)-s.to), float64(a.onAxis(e.from, t.from)-t.to)
	c := a.clocks[e.to]
	c.drift = a.clocks[e.from].drift
	if s != t {
		c.drift = (addT - addS) / float64(t.to-s.to)
	}
	c.rate, c.offset = c.drift, addS-c.drift*float64(s.to-c.middle)
	c.doubt = a.clocks[e.from].doubt + least
	return c
}

// doubt is how far the line through two samples may be off at a time, in ns.
func doubt(s, t sample, at int64) float64 {
	if s.to == t.to {
		return math.Inf(1)
	}
	share := float64(at-s.to) / float64(t.to-s.to)
	return math.Abs(1-share)*float64(s.rtt)/2 + math.Abs(share)*float64(t.rtt)/2
}

// selectSamples takes the sample with the shortest round trip of each stretch of time.
func selectSamples(samples []sample, first, last int64) []sample {
	slices.SortFunc(samples, func(a, b sample) int { return cmp.Compare(a.to, b.to) })
	near := slices.DeleteFunc(slices.Clone(samples), func(s sample) bool { return s.to < first || s.to > last })
	if len(near) < enoughClose {
		near = samples
	}
	begin, width := near[0].to, (near[len(near)-1].to-near[0].to)/stretches+1
	var best []sample
	stretch := int64(-1)
	for _, s := range near {
		switch n := (s.to - begin) / width; {
		case n != stretch:
			best, stretch = append(best, s), n
		case s.rtt < best[len(best)-1].rtt:
			best[len(best)-1] = s
		}
	}
	return best
}

// onAxis is a time of recording i's clock on the axis.
func (a *alignment) onAxis(i int, at int64) int64 {
	return at + int64(math.Round(a.clocks[i].add(at)))
}

// add is what is added to a time of the clock, in ns.
func (c *clock) add(at int64) float64 { return c.offset + c.drift*float64(at-c.middle) }

// apply returns the recordings on the axis. The clock samples are left out,
// since they are of the ranks' own clocks.
func (a *alignment) apply() []trace.Recording {
	aligned := slices.Clone(a.list)
	for i := range aligned {
		r := &aligned[i]
		r.Aligned, r.Clock = true, nil
		r.Events = slices.Clone(r.Events)
		for k := range r.Events {
			e := &r.Events[k]
			// The order of events stays: the correction is monotonic.
			e.Start, e.End = a.onAxis(i, e.Start), a.onAxis(i, e.End)
		}
	}
	return aligned
}

func (a *alignment) fits() []ClockFit {
	fits := make([]ClockFit, len(a.list))
	for i, c := range a.clocks {
		fits[i] = ClockFit{
			Rank: a.list[i].Rank, Offset: int64(math.Round(c.offset)), At: c.middle, DriftPPM: 1e6 * c.drift,
			Bound: c.bound, Samples: len(a.list[i].Clock),
		}
	}
	return fits
}
