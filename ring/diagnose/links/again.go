package links

import (
	"cmp"
	"math"
	"slices"
)

const (
	// againPartners is with how many partners that do well a suspect is measured again:
	// their median bears two that are disturbed.
	againPartners = 5
	// againRounds bounds how often a rank takes part in what is measured again, the suspects
	// themselves aside: so many rounds of the tournament are a few seconds.
	againRounds = 24
)

// Confirmations is how often suspects are measured again among so many ranks. Of a million healthy
// pairs some thousands are disturbed once, a few dozen twice, and one in a few thousand such
// networks four times in a row.
func Confirmations(ranks int) int {
	if ranks >= manyRanks {
		return 4
	}
	return 3
}

// manyRanks make so many pairs that chance is asked once more.
const manyRanks = 500

// alone is up to how many pairs are measured again one by one, with nothing else on the network:
// pairs that are measured at once may share something thin, and that they are slow says nothing
// then.
const alone = 64

// Retests returns the pairs to measure again before anybody is named, one direction of each:
// both are measured. Those of a batch may be measured at once, as far as they are disjoint.
// Suspected pairs are measured one at a time, unless there are so many that most are chance.
func (v *Verdict) Retests(n int) (batches [][]Pair) {
	if !slices.ContainsFunc(v.Findings, func(f Finding) bool { return !f.surely() }) {
		return nil
	}
	r := retests{v: v, n: n, load: make([]int, n), in: map[Pair]bool{}}
	r.suspects()
	r.controls()
	for _, place := range []Place{Group, Sender, Receiver, Node} {
		for i := range v.Findings {
			if f := &v.Findings[i]; f.Place == place && !f.surely() {
				for _, p := range r.well(f) {
					r.add(p)
				}
			}
		}
		if place == Group {
			batches = append(batches, r.batch())
		}
	}
	var pairs []Pair
	for _, f := range v.Findings {
		if f.Place == OnePair && !f.surely() {
			pairs = append(pairs, Pair{f.From[0], f.To[0]})
		}
	}
	if len(pairs) > alone {
		for _, p := range pairs {
			if r.load[p.From] < againRounds && r.load[p.To] < againRounds {
				r.add(p)
			}
		}
		pairs = nil
	}
	batches = append(batches, r.batch())
	for _, p := range pairs {
		batches = append(batches, []Pair{p})
	}
	return slices.DeleteFunc(batches, func(b []Pair) bool { return len(b) == 0 })
}

// surely tells whether there was no connection when it was tried again: a load makes a pair slow, but
// it does not fail for that, and each try has all ranks wait until its retries are over.
func (f *Finding) surely() bool { return f.Kind == Dead && f.Again > 0 }

// between tells whether a pair is between two groups that are slow to each other.
func (v *Verdict) between(p Pair) bool {
	return slices.ContainsFunc(v.parts, func(q *part) bool {
		return slices.ContainsFunc([]*effects{q.bandwidth, q.latency}, func(e *effects) bool {
			return e != nil && (e.inBlock(p.From, p.To) || e.inBlock(p.To, p.From))
		})
	})
}

type retests struct {
	v    *Verdict
	n    int
	load []int         // by rank
	in   map[Pair]bool // in list, either direction
	list []Pair

	suspect []bool        // ranks that something was found about
	bad     map[Pair]bool // pairs
}

// batch takes what there is.
func (r *retests) batch() []Pair {
	list := r.list
	r.list = nil
	return list
}

func (r *retests) add(p Pair) {
	if r.in[p] || r.in[p.Reverse()] {
		return
	}
	r.in[p] = true
	r.load[p.From]++
	r.load[p.To]++
	r.list = append(r.list, p)
}

// suspects notes whom not to measure a suspect again with.
func (r *retests) suspects() {
	r.suspect, r.bad = make([]bool, r.n), map[Pair]bool{}
	for i := range r.v.Findings {
		switch f := &r.v.Findings[i]; f.Place {
		case OnePair:
			r.bad[Pair{f.From[0], f.To[0]}], r.bad[Pair{f.To[0], f.From[0]}] = true, true
		case Sender, Receiver, Node:
			for _, rank := range slices.Concat(f.From, f.To) {
				r.suspect[rank] = true
			}
		}
	}
}

// controls are pairs that nothing was found about: they say whether all is slower than it was.
func (r *retests) controls() {
	for k := 1; k < r.n; k++ {
		for i := range r.n {
			p := Pair{i, (i + k) % r.n}
			if len(r.list) == againPartners {
				return
			}
			if !r.suspect[p.From] && !r.suspect[p.To] && !r.bad[p] && !r.v.between(p) {
				r.add(p)
			}
		}
	}
}

// well returns some pairs of a finding whose other end does well, those that are asked least
// first; of two groups those of all their ranks.
func (r *retests) well(f *Finding) []Pair {
	var may []Pair
	if f.Place == Group {
		for k := range max(len(f.From), len(f.To)) {
			for turn := range min(againPartners, len(f.To)) {
				may = append(may, Pair{f.From[k%len(f.From)], f.To[(k+turn)%len(f.To)]})
			}
		}
		return may // all at once: what joins the groups may carry a few of them well
	}
	own := slices.Concat(f.From, f.To)[0]
	for k := 1; k < r.n; k++ {
		p := Pair{own, (own + k) % r.n}
		if f.Place == Receiver {
			p = p.Reverse()
		}
		may = append(may, p)
	}
	costs := map[Pair]int{}
	for _, p := range may {
		c := r.load[p.From] + r.load[p.To]
		if r.bad[p] {
			c += 1 << 20
		}
		if r.v.between(p) { // what is thin there would be seen, or not, by who else is measured
			c += 1 << 18
		}
		for _, rank := range []int{p.From, p.To} {
			if r.suspect[rank] {
				c += 1 << 16
			}
		}
		costs[p] = c
	}
	slices.SortStableFunc(may, func(a, b Pair) int { return cmp.Compare(costs[a], costs[b]) })
	return may[:min(againPartners, len(may))]
}

// Confirm returns the verdict that is left when the pairs of Retests were measured again.
// What holds no more was chance. The figures are those of the second measurement alone.
func (v *Verdict) Confirm(again *Figures) *Verdict {
	left := *v
	left.Findings, left.slower = nil, map[Kind]float64{}
	var measured []Pair
	for i := range again.Alone.V {
		if again.Dead[i] || !math.IsNaN(again.Alone.V[i]) || !math.IsNaN(again.Latency.V[i]) {
			measured = append(measured, Pair{i / again.N, i % again.N})
		}
	}
	isPair := map[Pair]bool{} // found as a pair
	var others []Finding
	for _, f := range v.Findings {
		if f.Place == OnePair {
			p := Pair{f.From[0], f.To[0]}
			isPair[p], isPair[p.Reverse()] = true, true
		} else {
			others = append(others, f)
		}
	}
	well := func(p Pair, but Place) bool { // nothing was found about it
		return !isPair[p] && !slices.ContainsFunc(others, func(f Finding) bool { return f.Place != but && (f.Has(p) || f.Has(p.Reverse())) })
	}
	for _, kind := range []Kind{Slow, Late} {
		left.slower[kind] = left.control(kind, measured, again, well)
	}
	for _, f := range v.Findings {
		if f.surely() {
			left.Findings = append(left.Findings, f)
			continue
		}
		own := measured
		switch f.Place {
		case OnePair:
			own = []Pair{{f.From[0], f.To[0]}}
			if f.BothWays {
				own = append(own, own[0].Reverse())
			}
		case Group:
		default: // of a port behind something thin the thinner one alone is seen
			if list := without(own, func(p Pair) bool { return !f.Has(p) || v.between(p) }); len(list) > 0 {
				own = list
			}
		}
		if left.holds(&f, own, again) {
			left.Findings = append(left.Findings, f)
		}
	}
	return &left
}

// without returns the pairs that are not meant.
func without(list []Pair, meant func(Pair) bool) []Pair {
	return slices.DeleteFunc(slices.Clone(list), meant)
}

// control is by how much pairs that nothing was found about are worse than they were: whatever
// else goes on has them all wait. 1 if they are not, or there are none.
func (v *Verdict) control(kind Kind, measured []Pair, again *Figures, well func(Pair, Place) bool) float64 {
	var list []float64
	for _, p := range measured {
		if well(p, "") {
			list = figures(list, []float64{v.ratio(&Finding{Kind: kind}, p, again)})
		}
	}
	switch middle := quantile(list, 0.5); {
	case len(list) == 0:
		return 1
	case kind == Late:
		return max(middle, 1)
	default:
		return min(middle, 1)
	}
}

// certainPartners is how many partners tell a node from a pair: with fewer, a second bad pair
// of it is as likely.
const certainPartners = 3

// holds tells whether a finding holds in figures that were measured again, of some pairs, and
// notes what they say. One that could not be measured again is no finding: its pairs may have
// lost their connection, which is one of its own.
func (v *Verdict) holds(f *Finding, measured []Pair, again *Figures) bool {
	var list []float64
	for _, p := range measured {
		if !f.Has(p) {
			continue
		}
		r := v.ratio(f, p, again)
		if math.IsNaN(r) {
			continue
		}
		if f.Place == OnePair && f.BothWays && !f.bad(r) { // it was chance in this direction
			one := *f // of which the ratio may be that of both
			one.BothWays, one.From, one.To = false, []int{p.To}, []int{p.From}
			one.Partners, one.Of = 1, 1
			*f = one
			return v.holds(f, []Pair{p.Reverse()}, again)
		}
		list = append(list, r)
	}
	f.Again = len(list)
	if f.Again == 0 {
		return false
	}
	f.AgainRatio = quantile(list, 0.5)
	holds := f.bad(f.AgainRatio)
	f.Certain = holds && (again.N > certainPartners || again.N == 2 && f.Kind == Lossy) && (f.Place == OnePair || f.Place == Group || f.Again >= certainPartners)
	return holds
}

// bad tells whether a ratio is that of the fault: it is half as large at least, as a power. A link
// that groups share is not as full again.
func (f *Finding) bad(ratio float64) bool {
	least := f.Ratio
	if f.Place == Group {
		least = 1
	}
	switch f.Kind {
	case Dead:
		return ratio > 0
	case Lossy:
		return ratio > lossyAbove
	case Late:
		return ratio > max(lateAbove, math.Sqrt(least))
	}
	// What is slow and was disturbed besides is less slow again.
	return ratio < min(SlowBelow, max(math.Sqrt(least), SlowBelow*SlowBelow))
}

// ratio is what Finding.Ratio would be of one pair of it, measured again.
func (v *Verdict) ratio(f *Finding, p Pair, again *Figures) float64 {
	at := p.From*again.N + p.To
	switch f.Kind {
	case Dead:
		switch {
		case again.Dead[at]:
			return 1
		case !math.IsNaN(again.Alone.V[at]):
			return 0
		}
	case Lossy:
		return again.Lost.V[at] / again.Packets.V[at]
	case Late:
		return again.Latency.V[at] / math.Exp(-v.expected(f, p)) / v.slowerBy(Late)
	case Slow:
		return again.Alone.V[at] / math.Exp(v.expected(f, p)) / v.slowerBy(Slow)
	}
	return math.NaN()
}

func (v *Verdict) slowerBy(kind Kind) float64 { return cmp.Or(v.slower[kind], 1) }

// of are the effects that a pair belongs to; nil if there are none.
func (v *Verdict) of(kind Kind, p Pair) *effects {
	for _, q := range v.parts {
		e := q.bandwidth
		if kind == Late {
			e = q.latency
		}
		if e != nil && (len(v.parts) == 1 || !math.IsNaN(e.rest.At(p.From, p.To))) {
			return e
		}
	}
	return nil
}

// expected is the logarithm that a pair would have without a finding of it.
func (v *Verdict) expected(f *Finding, p Pair) float64 {
	e := v.of(f.Kind, p)
	if e == nil {
		return math.NaN()
	}
	sum := e.typical
	if f.Place != Sender && f.Place != Node {
		sum += e.sender[p.From]
	}
	if f.Place != Receiver && f.Place != Node {
		sum += e.receiver[p.To]
	}
	for k := range e.blocks {
		if b := &e.blocks[k]; f.Place != Group && b.has(p.From, p.To) {
			sum += b.effect
		}
	}
	return sum
}
