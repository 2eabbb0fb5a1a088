package align

import (
	"cmp"
	"fmt"
	"maps"
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

// alignment finds for each recording i an offset o and a drift d so that a
// time L of its clock is L + o + d (L - t0) on the axis. Recording 0 has
// zeros. Offsets are in ns, drifts in millionths; both stand in one vector, at
// 2i and 2i+1, where the first two stay zero.
type alignment struct {
	list   []trace.Recording
	t0     int64
	index  map[int]int // of the recording of a rank
	edges  map[edge][]clockDatum
	bounds []int64 // of each recording, ns; -1: no chain of samples leads to it
	x      []float64
	normal *factored // of the least squares
}

// edge is a pair of recordings: of those that were compared the lower is first,
// of those that exchanged segments the sender.
type edge struct{ a, b int }

// sorted is the keys in their order, so that the same recordings always give
// the same result to the last bit.
func sorted[V any](of map[edge]V) []edge {
	return slices.SortedFunc(maps.Keys(of), func(x, y edge) int { return cmp.Or(cmp.Compare(x.a, y.a), cmp.Compare(x.b, y.b)) })
}

// clockDatum says that the clock of from showed at when that of to showed
// at+offset, to within rtt/2.
type clockDatum struct {
	from, to        int
	at, offset, rtt int64
}

const (
	// Samples this far from the collectives are left out if there are enough
	// nearer ones: over longer times a clock's rate changes.
	nearby      = int64(60 * time.Second)
	enoughClose = 8
	// The best sample of each of so many stretches of time is taken, so that
	// the drift is seen, and a quiet second does not outweigh the rest.
	stretches = 32
	// tick keeps the weights finite where clocks tick coarsely.
	tick = 1000
	// What is assumed without samples, as standard deviations: nothing about
	// offsets (1e13 ns are hours), and that clocks drift as quartz does.
	priorOffset = 1e13
	priorDrift  = 100.0
)

func newAlignment(list []trace.Recording) *alignment {
	a := &alignment{list: list, index: map[int]int{}, edges: map[edge][]clockDatum{}, x: make([]float64, 2*len(list))}
	for i := range list {
		a.index[list[i].Rank] = i
	}
	first, last := a.window()
	a.t0 = first + (last-first)/2
	for i := range list {
		for _, s := range list[i].Clock {
			j, ok := a.index[s.Peer]
			if !ok || j == i || s.RTT < 0 {
				continue
			}
			e := edge{min(i, j), max(i, j)}
			a.edges[e] = append(a.edges[e], clockDatum{i, j, s.At, s.Offset, max(s.RTT, tick)})
		}
	}
	for e, samples := range a.edges {
		a.edges[e] = selectSamples(samples, first-nearby, last+nearby)
	}
	a.measureBounds()
	return a
}

// window is from the first to the last event of the collectives, on the
// clocks of their ranks, or of all events if there are none.
func (a *alignment) window() (first, last int64) {
	for _, all := range []bool{false, true} {
		first, last = math.MaxInt64, math.MinInt64
		for i := range a.list {
			for _, e := range a.list[i].Events {
				if all || e.Subsystem == trace.Collective.String() {
					first, last = min(first, e.Start), max(last, e.End)
				}
			}
		}
		if first <= last {
			return first, last
		}
	}
	now := a.list[0].Written.UnixNano()
	return now, now
}

// selectSamples takes the sample with the shortest round trip of each stretch
// of time.
func selectSamples(samples []clockDatum, first, last int64) []clockDatum {
	slices.SortFunc(samples, func(a, b clockDatum) int { return cmp.Compare(a.at, b.at) })
	near := slices.DeleteFunc(slices.Clone(samples), func(s clockDatum) bool { return s.at < first || s.at > last })
	if len(near) < enoughClose {
		near = samples
	}
	begin, width := near[0].at, (near[len(near)-1].at-near[0].at)/stretches+1
	best := make([]clockDatum, 0, stretches)
	stretch := int64(-1)
	for _, s := range near {
		n := (s.at - begin) / width
		switch {
		case n != stretch:
			best, stretch = append(best, s), n
		case s.rtt < best[len(best)-1].rtt:
			best[len(best)-1] = s
		}
	}
	return best
}

func leastRTT(samples []clockDatum) int64 {
	return slices.MinFunc(samples, func(a, b clockDatum) int { return cmp.Compare(a.rtt, b.rtt) }).rtt
}

// measureBounds adds up half the least round trips on the best path from
// recording 0.
func (a *alignment) measureBounds() {
	a.bounds = slices.Repeat([]int64{-1}, len(a.list))
	a.bounds[0] = 0
	for changed := true; changed; {
		changed = false
		for e, samples := range a.edges {
			half := leastRTT(samples) / 2
			for _, to := range [2]edge{{e.a, e.b}, {e.b, e.a}} {
				if a.bounds[to.a] < 0 {
					continue
				}
				if bound := a.bounds[to.a] + half; a.bounds[to.b] < 0 || bound < a.bounds[to.b] {
					a.bounds[to.b], changed = bound, true
				}
			}
		}
	}
}

// local is a time of a rank's clock relative to t0, in millions of ns: what a
// drift in ppm is multiplied by to give ns.
func (a *alignment) local(at int64) float64 { return float64(at-a.t0) / 1e6 }

// fit solves the least squares. For a sample, both clocks' times must be the
// same on the axis:
//
//	at + o_i + d_i (at - t0) = at + offset + o_j + d_j (at + offset - t0)
func (a *alignment) fit() error {
	n := len(a.x)
	m := slices.Collect(slices.Chunk(make([]float64, n*n), n))
	right := make([]float64, n)
	m[0][0], m[1][1] = 1, 1 // recording 0 is the axis
	for i := 2; i < n; i += 2 {
		m[i][i] = 1 / (priorOffset * priorOffset)
		m[i+1][i+1] = 1 / (priorDrift * priorDrift)
	}
	for _, e := range sorted(a.edges) {
		samples := a.edges[e]
		least := float64(leastRTT(samples))
		for _, s := range samples {
			// A round trip that is longer than the least was held up, and
			// nobody knows on which way: beyond being less sure it counts less.
			rtt := float64(s.rtt)
			weight := 4 / (rtt * rtt) * (least / rtt) * (least / rtt)
			r := a.row(s.from, s.at, s.to, s.at+s.offset)
			for i, p := range r.at {
				right[p] += weight * r.value[i] * float64(s.offset)
				for j, q := range r.at {
					m[p][q] += weight * r.value[i] * r.value[j]
				}
			}
		}
	}
	normal, ok := factor(m)
	if !ok {
		return fmt.Errorf("the clock samples contradict each other beyond what numbers can hold: are they of this ring?")
	}
	a.normal = normal
	a.x = normal.solve(right)
	return nil
}

// sparse is a row with at most four entries.
type sparse struct {
	at    []int
	value []float64
}

// row is what the difference of two clocks' corrections depends on: that of
// recording i at its time at, less that of recording j. The corrections of
// recording 0 are no unknowns.
func (a *alignment) row(i int, at int64, j int, atJ int64) sparse {
	var r sparse
	if i != 0 {
		r.at, r.value = append(r.at, 2*i, 2*i+1), append(r.value, 1, a.local(at))
	}
	if j != 0 {
		r.at, r.value = append(r.at, 2*j, 2*j+1), append(r.value, -1, -a.local(atJ))
	}
	return r
}

func (r sparse) dot(x []float64) float64 {
	sum := 0.0
	for i, p := range r.at {
		sum += r.value[i] * x[p]
	}
	return sum
}

// onAxis is a time of recording i's clock on the axis.
func (a *alignment) onAxis(i int, at int64) int64 {
	return at + int64(math.Round(a.x[2*i]+a.x[2*i+1]*a.local(at)))
}

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

func (a *alignment) clocks() []ClockFit {
	fits := make([]ClockFit, len(a.list))
	for i := range a.list {
		fits[i] = ClockFit{
			Rank: a.list[i].Rank, Offset: int64(math.Round(a.x[2*i])), At: a.t0, DriftPPM: a.x[2*i+1],
			Bound: a.bounds[i], Samples: len(a.list[i].Clock),
		}
	}
	return fits
}

// factored is the Cholesky factor of a symmetric, positive definite matrix.
// Rows begin at their first entry that is not zero: neighbours in the ring
// stand beside each other, so a row has about four.
type factored struct {
	lower [][]float64
	first []int
}

// factor replaces the lower half of m by its Cholesky factor. It is not ok if
// m is not positive definite.
func factor(m [][]float64) (*factored, bool) {
	f := &factored{m, make([]int, len(m))}
	for i := range m {
		for f.first[i] < i && m[i][f.first[i]] == 0 {
			f.first[i]++
		}
		for j := f.first[i]; j <= i; j++ {
			sum := m[i][j]
			for k := max(f.first[i], f.first[j]); k < j; k++ {
				sum -= m[i][k] * m[j][k]
			}
			switch {
			case j < i:
				m[i][j] = sum / m[j][j]
			case sum > 0 && !math.IsInf(sum, 0):
				m[i][i] = math.Sqrt(sum)
			default:
				return nil, false
			}
		}
	}
	return f, true
}

// solve returns x of m x = right.
func (f *factored) solve(right []float64) []float64 {
	x := slices.Clone(right)
	for i := range x {
		for k := f.first[i]; k < i; k++ {
			x[i] -= f.lower[i][k] * x[k]
		}
		x[i] /= f.lower[i][i]
	}
	for i := len(x) - 1; i >= 0; i-- {
		x[i] /= f.lower[i][i]
		for k := f.first[i]; k < i; k++ {
			x[k] -= f.lower[i][k] * x[i]
		}
	}
	return x
}
