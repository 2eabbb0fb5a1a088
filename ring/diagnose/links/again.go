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

// Confirmations is how often suspects are measured again. Of a million healthy pairs some
// thousands are disturbed once, a few dozen twice, and none four times.
const Confirmations = 3

// alone is up to how many pairs between two groups are measured again one by one: those that
// are measured at once share what joins the groups.
const alone = 64

// Retests returns the pairs to measure again before anybody is named, one direction of each:
// both are measured. Those of a batch may be measured at once, as far as they are disjoint.
// Findings that there is no room for, of pairs, are the mildest.
func (v *Verdict) Retests(n int) (batches [][]Pair) {
	r := retests{v: v, n: n, load: make([]int, n), in: map[Pair]bool{}}
	r.suspects()
	if len(v.Findings) > 0 {
		r.controls()
	}
	var pairs, between []*Finding
	for i := range v.Findings {
		switch f := &v.Findings[i]; {
		case f.Place != OnePair:
		case v.between(Pair{f.From[0], f.To[0]}):
			between = append(between, f)
		default:
			pairs = append(pairs, f)
		}
	}
	for _, place := range []Place{Group, Sender, Receiver, Node} {
		for i := range v.Findings {
			if f := &v.Findings[i]; f.Place == place {
				for _, p := range r.well(f) {
					r.add(p)
				}
			}
		}
		if place == Group {
			batches = append(batches, r.batch())
		}
	}
	for _, list := range [][]*Finding{pairs, between} {
		slices.SortStableFunc(list, func(a, b *Finding) int { return cmp.Compare(b.Spreads, a.Spreads) })
		for _, f := range list {
			p := Pair{f.From[0], f.To[0]}
			if v.between(p) && len(between) <= alone {
				delete(r.in, p) // it may have been measured with others
				delete(r.in, p.Reverse())
				r.add(p)
				batches = append(batches, r.batch())
			} else if r.load[p.From] < againRounds && r.load[p.To] < againRounds {
				r.add(p)
			}
		}
		batches = append(batches, r.batch())
	}
	return slices.DeleteFunc(batches, func(b []Pair) bool { return len(b) == 0 })
}

// between tells whether a pair is between two groups that are slow to each other.
func (v *Verdict) between(p Pair) bool {
	for _, q := range v.parts {
		for _, e := range []*effects{q.bandwidth, q.latency} {
			if e != nil && slices.ContainsFunc(e.blocks, func(b block) bool { return b.has(p.From, p.To) || b.has(p.To, p.From) }) {
				return true
			}
		}
	}
	return false
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
	cost := func(p Pair) (c int) {
		c = r.load[p.From] + r.load[p.To]
		if r.bad[p] {
			c += 1 << 20
		}
		for _, rank := range []int{p.From, p.To} {
			if r.suspect[rank] {
				c += 1 << 16
			}
		}
		return c
	}
	slices.SortStableFunc(may, func(a, b Pair) int { return cmp.Compare(cost(a), cost(b)) })
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
	for _, kind := range []Kind{Slow, Late} {
		left.slower[kind] = left.control(kind, v.Findings, measured, again)
	}
	for _, f := range v.Findings {
		own := measured
		if f.Place == OnePair {
			own = []Pair{{f.From[0], f.To[0]}}
			if f.BothWays {
				own = append(own, own[0].Reverse())
			}
		}
		if left.holds(&f, own, again) {
			left.Findings = append(left.Findings, f)
		}
	}
	return &left
}

// control is by how much pairs that nothing was found about are worse than they were: whatever
// else goes on has them all wait. 1 if they are not, or there are none.
func (v *Verdict) control(kind Kind, found []Finding, measured []Pair, again *Figures) float64 {
	var list []float64
	for _, p := range measured {
		if !slices.ContainsFunc(found, func(f Finding) bool { return f.has(p) || f.has(p.Reverse()) }) {
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
		if !f.has(p) {
			continue
		}
		r := v.ratio(f, p, again)
		if math.IsNaN(r) {
			continue
		}
		if f.Place == OnePair && f.BothWays && !v.bad(f, r) { // it was chance in this direction
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
	holds := v.bad(f, f.AgainRatio)
	f.Certain = holds && again.N > certainPartners && (f.Place == OnePair || f.Place == Group || f.Again >= certainPartners)
	return holds
}

// bad tells whether a ratio is that of the fault: it is half as large at least, as a power. A link
// that groups share is not as full again.
func (v *Verdict) bad(f *Finding, ratio float64) bool {
	least := f.Ratio
	if f.Place == Group {
		least = 1
	}
	switch f.Kind {
	case Dead:
		return ratio > 0
	case Lossy:
		return ratio > v.o.Lossy
	case Late:
		return ratio > max(v.o.Late, math.Sqrt(least))
	}
	// What is slow and was disturbed besides is less slow again.
	return ratio < min(v.o.Slow, max(math.Sqrt(least), v.o.Slow*v.o.Slow))
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
		return again.Latency.V[at] / math.Exp(-v.expected(f, p, func(q *part) *effects { return q.latency })) / v.slowerBy(Late)
	case Slow:
		return again.Alone.V[at] / math.Exp(v.expected(f, p, func(q *part) *effects { return q.bandwidth })) / v.slowerBy(Slow)
	}
	return math.NaN()
}

func (v *Verdict) slowerBy(kind Kind) float64 { return cmp.Or(v.slower[kind], 1) }

// expected is the logarithm that a pair would have without a finding of it.
func (v *Verdict) expected(f *Finding, p Pair, of func(*part) *effects) float64 {
	for _, q := range v.parts {
		e := of(q)
		if e == nil || math.IsNaN(e.rest.At(p.From, p.To)) && len(v.parts) > 1 {
			continue
		}
		sum := e.typical
		if f.Place != Sender && f.Place != Node {
			sum += e.sender[p.From]
		}
		if f.Place != Receiver && f.Place != Node {
			sum += e.receiver[p.To]
		}
		for _, b := range e.blocks {
			if f.Place != Group && b.has(p.From, p.To) {
				sum += b.effect
			}
		}
		return sum
	}
	return math.NaN()
}
