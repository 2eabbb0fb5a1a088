package links

import (
	"cmp"
	"math"
	"slices"
)

// Pair is a directed pair of ranks.
type Pair struct{ From, To int }

// Reverse is the other direction.
func (p Pair) Reverse() Pair { return Pair{p.To, p.From} }

// Figures are what was measured, by directed pair. What was not is NaN.
type Figures struct {
	N       int
	Alone   Matrix // bandwidth, in one unit
	Both    Matrix // the same while the other direction runs, too
	Latency Matrix // p50 in us; the same both ways
	// Lost is how often the sender heard that a packet is missing, of Packets that it sent.
	Lost, Packets Matrix
	// Noise and LatencyNoise are by how much the same pair differs from one measurement to the
	// next, as standard deviations of the logarithm; 0 where each was measured once. The matrix
	// of a few ranks alone does not tell: it has hardly more figures than effects.
	Noise, LatencyNoise float64
	// Dead are the pairs that gave no figure because their connection failed.
	Dead []bool // N*N; nil: none
	// Kind tells pairs apart that have nothing in common, as shared memory and a network
	// have not: they are judged by themselves.
	Kind []uint8 // N*N; nil: all alike
	// Group is that of each rank in the list, nil if it has none.
	Group []string
}

// NewFigures returns those of n ranks, of which none is measured.
func NewFigures(n int) *Figures {
	f := &Figures{N: n, Dead: make([]bool, n*n), Kind: make([]uint8, n*n)}
	for _, m := range []*Matrix{&f.Alone, &f.Both, &f.Latency, &f.Lost, &f.Packets} {
		*m = NewMatrix(n)
	}
	return f
}

// Kind is what is wrong.
type Kind string

// The kinds of findings, the worst first. The one explains the later ones of the same
// place: a pair that loses packets is slow, too.
const (
	Dead  Kind = "dead"  // no connection
	Lossy Kind = "lossy" // packets are missing
	Late  Kind = "late"  // latency
	Slow  Kind = "slow"  // bandwidth
)

var kinds = []Kind{Dead, Lossy, Late, Slow}

// Place is where it is wrong.
type Place string

// The places of findings.
const (
	Sender   Place = "sender"
	Receiver Place = "receiver"
	Node     Place = "node" // as both
	OnePair  Place = "pair"
	Group    Place = "group" // from one group to another
)

// Finding is one culprit.
type Finding struct {
	Kind  Kind
	Place Place
	// From and To are the ranks: one sender, one receiver, both of a pair, those of two
	// groups. Of a sender To is empty, of a receiver From; a node stands in both.
	From, To []int
	Names    [2]string // of groups of the list
	BothWays bool      // of a pair or of groups
	// Ratio is that of a bandwidth or a latency to what it would be by the other effects;
	// of losses the share of packets that are missing; of dead pairs their share.
	Ratio float64
	// Partners are the pairs of the culprit that show it, of so many.
	Partners, Of int
	// Spreads is how far off it lies, in spreads that chance gives a pair, or the median of a
	// node's pairs; 0 for counts.
	Spreads float64
	// Again are the pairs that were measured again, and AgainRatio is what they say.
	Again      int
	AgainRatio float64
	// Certain: it held with partners that do well, of which there are enough to tell it
	// from a pair. Else it is a suspect.
	Certain bool

	proved bool // by a trial
}

// How much of a difference counts: a tenth is what healthy ports of one kind differ by, and a fifth is
// seen in what a job takes; cables in a rack and across a hall differ by less than twice the latency of
// a network card; a healthy lossless fabric drops nothing, and a thousandth halves what go-back-N
// carries.
const (
	// SlowBelow is the ratio of bandwidths below which something is named.
	SlowBelow = 0.8
	// lateAbove is the factor of latencies above which something is named.
	lateAbove = 2
	// lossyAbove is the share of packets that may be missing.
	lossyAbove = 1e-3
)

// Options are how much of a difference counts. The zero value is for devices.
type Options struct {
	// LateLeast is the least difference of latencies in us that is named; 0: 5.
	LateLeast float64
}

// Verdict is what the figures say.
type Verdict struct {
	Findings []Finding // the worst kind first, and within it what concerns most
	// Undecided are the suspects of which trials did not tell whether they are at fault.
	Undecided int

	parts  []*part
	slower map[Kind]float64 // by how much pairs that nothing was found about are worse when measured again
}

// part is the pairs of one kind, judged by themselves.
type part struct {
	f                  *Figures
	bandwidth, latency *effects // nil if not measured
}

// Judge says who is suspect of what, before anything was measured again.
func Judge(f *Figures, o Options) *Verdict {
	const least = 5 // us
	o.LateLeast = cmp.Or(o.LateLeast, least)
	v := &Verdict{}
	for _, own := range f.split() {
		p := &part{f: own}
		v.parts = append(v.parts, p)
		v.Findings = append(v.Findings, slices.Concat(p.dead(), p.lossy(), p.late(o.LateLeast), p.slow())...)
	}
	v.sort()
	return v
}

// split returns the pairs of each kind.
func (f *Figures) split() []*Figures {
	var all []uint8
	for i, k := range f.Kind {
		if !slices.Contains(all, k) && (f.Dead[i] || !math.IsNaN(f.Alone.V[i])) {
			all = append(all, k)
		}
	}
	if len(all) < 2 {
		return []*Figures{f}
	}
	slices.Sort(all)
	parts := make([]*Figures, len(all))
	for at, k := range all {
		own := *f
		own.Dead = slices.Clone(f.Dead)
		for _, m := range []*Matrix{&own.Alone, &own.Both, &own.Latency, &own.Lost, &own.Packets} {
			*m = m.clone()
		}
		for i := range f.Kind {
			if f.Kind[i] != k {
				own.Dead[i] = false
				for _, m := range []Matrix{own.Alone, own.Both, own.Latency, own.Lost, own.Packets} {
					m.V[i] = math.NaN()
				}
			}
		}
		parts[at] = &own
	}
	return parts
}

func (v *Verdict) sort() {
	slices.SortStableFunc(v.Findings, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(slices.Index(kinds, a.Kind), slices.Index(kinds, b.Kind)),
			cmp.Compare(len(b.From)*max(1, len(b.To))+b.Of, len(a.From)*max(1, len(a.To))+a.Of),
			slices.Compare(a.From, b.From), slices.Compare(a.To, b.To),
		)
	})
}

func (p *part) dead() []Finding {
	f := p.f
	if !slices.Contains(f.Dead, true) {
		return nil
	}
	has := make([]bool, len(f.Dead))
	for i := range has {
		has[i] = f.Dead[i] || !math.IsNaN(f.Alone.V[i])
	}
	return named(Dead, cover(f.N, f.Dead, has), func(c *culprit) float64 { return float64(c.partners) / float64(c.of) })
}

// lossyLeast is how many losses say something: one or two are chance.
const lossyLeast = 3

// ackShare is by how much the two directions of a pair must differ for the lesser one to
// be the echo of the other: what is lost there are acknowledgements.
const ackShare = 3

func (p *part) lossy() []Finding {
	f := p.f
	rate, has := Matrix{f.N, slices.Clone(f.Lost.V)}, make([]bool, len(f.Lost.V))
	for i := range rate.V {
		rate.V[i] /= f.Packets.V[i]
		has[i] = f.Packets.V[i] > 0 && !math.IsNaN(rate.V[i])
		if !has[i] {
			rate.V[i] = math.NaN()
		}
	}
	bad := make([]bool, len(has))
	for i, r := range rate.V {
		bad[i] = has[i] && r > lossyAbove && f.Lost.V[i] >= lossyLeast
	}
	for i := range f.N {
		for j := range i {
			one, other := i*f.N+j, j*f.N+i
			if bad[one] && bad[other] {
				bad[one] = rate.V[one]*ackShare >= rate.V[other]
				bad[other] = rate.V[other]*ackShare >= rate.V[one]
			}
		}
	}
	return named(Lossy, cover(f.N, bad, has), func(c *culprit) float64 {
		var list []float64
		for _, pair := range c.pairs {
			list = append(list, rate.At(pair.From, pair.To))
		}
		return quantile(list, 0.5)
	})
}

func (p *part) slow() []Finding {
	x := p.f.Alone.clone()
	if len(figures(nil, x.V)) == 0 {
		return nil
	}
	for i, v := range x.V {
		x.V[i] = math.Log(v)
	}
	p.bandwidth = decompose(x, -math.Log(SlowBelow), p.f.Noise, p.f.Group)
	return p.bandwidth.findings(Slow)
}

func (p *part) late(least float64) (found []Finding) {
	x := p.f.Latency.clone()
	if len(figures(nil, x.V)) == 0 {
		return nil
	}
	for i, v := range x.V {
		x.V[i] = -math.Log(v)
	}
	p.latency = decompose(x, math.Log(lateAbove), p.f.LatencyNoise, p.f.Group)
	usual := math.Exp(-p.latency.typical)
	for _, f := range p.latency.findings(Late) {
		// Groups that lie farther apart have a greater latency, and nobody is to blame.
		if f.Ratio = 1 / f.Ratio; f.Place != Group && (f.Ratio-1)*usual >= least {
			found = append(found, f)
		}
	}
	return found
}

// findings names who lies below the others.
func (e *effects) findings(kind Kind) (found []Finding) {
	floor := e.nodeBar()
	senders, receivers := slow(e.sender, floor), slow(e.receiver, floor)
	for _, i := range senders {
		f := Finding{Kind: kind, Place: Sender, From: []int{i}, Ratio: math.Exp(e.sender[i]), Spreads: -e.sender[i] / e.nodeNoise()}
		if f.Partners, f.Of = e.partners(i, true); f.Of == 0 {
			continue
		}
		if slices.Contains(receivers, i) {
			n, of := e.partners(i, false)
			f.Place, f.To, f.Partners, f.Of = Node, []int{i}, f.Partners+n, f.Of+of
			f.Ratio = math.Exp((e.sender[i] + e.receiver[i]) / 2)
		}
		found = append(found, f)
	}
	for _, j := range receivers {
		if !slices.Contains(senders, j) {
			f := Finding{Kind: kind, Place: Receiver, To: []int{j}, Ratio: math.Exp(e.receiver[j]), Spreads: -e.receiver[j] / e.nodeNoise()}
			if f.Partners, f.Of = e.partners(j, false); f.Of > 0 {
				found = append(found, f)
			}
		}
	}
	for _, b := range e.blocks {
		all := len(b.from) * len(b.to)
		found = append(found, Finding{
			Kind: kind, Place: Group, From: b.from, To: b.to, Names: b.names, Ratio: math.Exp(b.effect), Spreads: e.spreads(b.effect),
			Partners: int(math.Round(b.share * float64(all))), Of: all,
		})
	}
	for i := range e.n {
		for j := range e.n {
			if v := e.rest.At(i, j); v < -e.bar && (kind != Slow || !e.inBlock(i, j)) {
				found = append(found, Finding{
					Kind: kind, Place: OnePair, From: []int{i}, To: []int{j}, Ratio: math.Exp(v), Spreads: e.spreads(v), Partners: 1, Of: 1,
				})
			}
		}
	}
	return joined(found)
}

func (e *effects) spreads(by float64) float64 { return -by / max(e.noise, leastNoise) }

// partners is how many pairs of a rank, as sender or receiver, are low with its effect.
func (e *effects) partners(rank int, sends bool) (low, all int) {
	for other := range e.n {
		i, j, own := rank, other, e.sender[rank]
		if !sends {
			i, j, own = other, rank, e.receiver[rank]
		}
		if v := e.rest.At(i, j); !math.IsNaN(v) {
			all++
			if v+own < own/2 {
				low++
			}
		}
	}
	return low, all
}

// joined makes the two directions of one pair, or of two groups, one finding.
func joined(found []Finding) []Finding {
	type ends struct {
		place    Place
		from, to int // the first of each: ranks are in one group of a finding
	}
	known := map[ends]int{}
	out := found[:0]
	for _, f := range found {
		if f.Place != OnePair && f.Place != Group {
			out = append(out, f)
			continue
		}
		at, ok := known[ends{f.Place, f.To[0], f.From[0]}]
		if !ok || !slices.Equal(out[at].From, f.To) || !slices.Equal(out[at].To, f.From) {
			known[ends{f.Place, f.From[0], f.To[0]}] = len(out)
			out = append(out, f)
			continue
		}
		g := &out[at]
		g.BothWays = true
		g.Ratio = (g.Ratio + f.Ratio) / 2
		g.Spreads = min(g.Spreads, f.Spreads)
		g.Partners, g.Of = g.Partners+f.Partners, g.Of+f.Of
	}
	return out
}

// Has tells whether a directed pair is one of the finding's, whose ranks are in order.
func (f *Finding) Has(p Pair) bool {
	is := func(list []int, rank int) bool {
		_, ok := slices.BinarySearch(list, rank)
		return ok
	}
	switch f.Place {
	case Sender:
		return is(f.From, p.From)
	case Receiver:
		return is(f.To, p.To)
	case Node:
		return is(f.From, p.From) || is(f.To, p.To)
	}
	return is(f.From, p.From) && is(f.To, p.To) || f.BothWays && is(f.From, p.To) && is(f.To, p.From)
}

// Final leaves findings out that a worse one of their place explains, once all were measured
// again: what is slow is no echo of a latency that was chance.
func (v *Verdict) Final() *Verdict {
	final := *v
	final.Findings = worst(v.Findings)
	return &final
}

// Shared makes one finding of pairs that share something, once none of them is chance.
func (v *Verdict) Shared() *Verdict {
	final := *v
	final.Findings = shared(v.Findings, v.parts[0].f.N)
	return &final
}

// fewRanks are so few that their slow pairs are named one by one.
const fewRanks = 3

// shared makes one finding of slow pairs that are as many as the ranks, or more: they share something
// that no list names. It is a suspect from all of their senders to all of their receivers.
func shared(found []Finding, ranks int) []Finding {
	var pairs, others []Finding
	for _, f := range found {
		if f.Kind == Slow && f.Place == OnePair {
			pairs = append(pairs, f)
		} else {
			others = append(others, f)
		}
	}
	if len(pairs) < ranks || ranks <= fewRanks {
		return found
	}
	all := Finding{Kind: Slow, Place: Group, Spreads: math.Inf(1)}
	var ratios, again []float64
	for _, f := range pairs {
		all.From, all.To = append(all.From, f.From...), append(all.To, f.To...)
		if f.BothWays {
			all.From, all.To = append(all.From, f.To...), append(all.To, f.From...)
		}
		ratios, again = append(ratios, f.Ratio), append(again, f.AgainRatio)
		all.Partners, all.Again, all.Spreads = all.Partners+f.Partners, all.Again+f.Again, min(all.Spreads, f.Spreads)
	}
	slices.Sort(all.From)
	slices.Sort(all.To)
	all.From, all.To = slices.Compact(all.From), slices.Compact(all.To)
	all.Ratio, all.AgainRatio = quantile(ratios, 0.5), quantile(again, 0.5)
	for _, i := range all.From {
		if all.Of += len(all.To); slices.Contains(all.To, i) {
			all.Of--
		}
	}
	return append(others, all)
}

// worst needs the findings by kind, the worst first.
func worst(found []Finding) (left []Finding) {
	worse := 0 // of left: those of worse kinds
	for i, f := range found {
		if i > 0 && f.Kind != found[i-1].Kind {
			worse = len(left)
		}
		if !slices.ContainsFunc(left[:worse], func(w Finding) bool { return w.explains(&f) }) {
			left = append(left, f)
		}
	}
	return left
}

// explains tells whether all of f's pairs are this finding's, in either direction: what is
// lost on the way there makes the way back wait for acknowledgements, and latency is that of
// both.
func (w *Finding) explains(f *Finding) bool {
	switch {
	case w.Place == Node, w.Place == Sender, w.Place == Receiver:
		own := slices.Concat(w.From, w.To)[0]
		switch f.Place {
		case Group:
			return false
		case OnePair:
			return f.From[0] == own || f.To[0] == own
		}
		return slices.Concat(f.From, f.To)[0] == own
	case f.Place == OnePair:
		p := Pair{f.From[0], f.To[0]}
		return w.Has(p) || w.Has(p.Reverse())
	case f.Place == Group && w.Place == Group:
		return slices.Equal(f.From, w.From) && slices.Equal(f.To, w.To) || slices.Equal(f.From, w.To) && slices.Equal(f.To, w.From)
	}
	return false
}
