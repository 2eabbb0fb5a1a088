// Package linkstest simulates what is measured between the ranks of a ring, healthy or with
// faults, for tests of package links. Nothing else imports it.
package linkstest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"ringcli/ring/diagnose/links"
)

// The noise of what is measured in 100 ms: log-normal of 3 %, per host a speed of its own
// within 3 %, and one measurement of a hundred is disturbed by something else, which
// makes it slower by a factor that is exponentially distributed in its logarithm.
const (
	noise, hosts    = 0.03, 0.03
	disturbed, tail = 0.01, 0.3

	bandwidth   = 11.8    // GB/s
	latency     = 4.0     // us
	window      = 1 << 20 // bytes in flight
	packets     = 290_000 // in a measurement
	spuriously  = 0.002   // share of measurements in which a healthy pair loses packets
	lossyFactor = 0.4     // of the bandwidth that go-back-N leaves at 1 % of losses
)

// Fault is one that is done to a world.
type Fault struct {
	Kind     links.Kind
	Place    links.Place
	From, To []int
	Both     bool // of groups
	Amount   float64
}

func (f Fault) String() string {
	return fmt.Sprintf("%s %s %v to %v, %.3g", f.Kind, f.Place, f.From, f.To, f.Amount)
}

// World is a simulated network.
type World struct {
	N                int
	Faults           []Fault
	Group            []string // of the list; nil if it names none
	rng              *rand.Rand
	sender, receiver []float64

	again *links.Figures // of pairs, and the last ones that are in them
	last  []links.Pair
}

// Kinds of faults, in the order of tables.
var Kinds = []string{"slow sender", "slow receiver", "slow pair", "lossy pair", "late pair", "slow group"}

// New makes a world of n ranks with faults of some kinds, of ranks that have nothing in
// common, as a seed draws them.
func New(n int, seed uint64, kinds ...string) *World {
	w := &World{N: n, rng: rand.New(rand.NewPCG(seed, uint64(n)))}
	for range n {
		w.sender = append(w.sender, 1+hosts*(2*w.rng.Float64()-1))
		w.receiver = append(w.receiver, 1+hosts*(2*w.rng.Float64()-1))
	}
	ranks := w.rng.Perm(n)
	draw := func() []int {
		r := ranks[0]
		ranks = ranks[1:]
		return []int{r}
	}
	ratio := func() float64 { return 0.3 + 0.3*w.rng.Float64() }
	for _, k := range kinds {
		var f Fault
		switch k {
		case "slow sender":
			f = Fault{Kind: links.Slow, Place: links.Sender, From: draw(), Amount: ratio()}
		case "slow receiver":
			f = Fault{Kind: links.Slow, Place: links.Receiver, To: draw(), Amount: ratio()}
		case "slow pair":
			f = Fault{Kind: links.Slow, Place: links.OnePair, From: draw(), To: draw(), Amount: ratio()}
		case "lossy pair":
			f = Fault{Kind: links.Lossy, Place: links.OnePair, From: draw(), To: draw(), Amount: 0.01}
		case "late pair":
			f = Fault{Kind: links.Late, Place: links.OnePair, From: draw(), To: draw(), Amount: 5000}
		case "slow group":
			f = w.groups()
		default:
			panic("no such kind: " + k)
		}
		w.Faults = append(w.Faults, f)
	}
	return w
}

// groups draws two groups, of which one is slow to the other at 0.5, or each to the other: halves,
// or two racks of eight. The list names all of them.
func (w *World) groups() Fault {
	all := w.rng.Perm(w.N)
	size := w.N / 2
	if w.N >= 32 && w.rng.IntN(2) == 0 {
		size = w.N / 8
	}
	w.Group = make([]string, w.N)
	for i, r := range all {
		w.Group[r] = fmt.Sprintf("rack%d", min(i/size, w.N/size-1))
	}
	f := Fault{Kind: links.Slow, Place: links.Group, Amount: 0.5, Both: w.rng.IntN(2) == 0, From: all[:size], To: all[size : 2*size]}
	slices.Sort(f.From)
	slices.Sort(f.To)
	return f
}

// Measure measures pairs both ways, or all. The figures of pairs hold until the next are measured.
func (w *World) Measure(pairs []links.Pair) *links.Figures {
	f := w.again
	if pairs == nil || f == nil {
		f = links.NewFigures(w.N)
		f.Group = w.Group
	}
	for _, p := range w.last { // of f
		for _, at := range []int{p.From*w.N + p.To, p.To*w.N + p.From} {
			for _, m := range []links.Matrix{f.Alone, f.Latency, f.Lost, f.Packets} {
				m.V[at] = math.NaN()
			}
		}
	}
	if pairs != nil {
		w.again, w.last = f, pairs
	}
	passes := 1
	if pairs == nil {
		passes = links.Passes(links.Rounds(w.N))
	}
	which := make([]bool, w.N*w.N)
	for i := range which {
		which[i] = pairs == nil && i/w.N != i%w.N
	}
	for _, p := range pairs {
		which[p.From*w.N+p.To], which[p.To*w.N+p.From] = true, true
	}
	for i, measured := range which {
		if measured {
			w.healthy(f, i, passes)
		}
	}
	for _, x := range w.Faults {
		w.spoil(f, x)
	}
	return f
}

// healthy is the best of so many passes.
func (w *World) healthy(f *links.Figures, at, passes int) {
	i, j := at/w.N, at%w.N
	f.Alone.V[at] = bandwidth * w.sender[i] * w.receiver[j] * w.disturbance(passes)
	f.Latency.V[at] = latency / w.disturbance(passes)
	f.Packets.V[at], f.Lost.V[at] = packets, 0
	if w.rng.Float64() < spuriously {
		f.Lost.V[at] = float64(w.rng.IntN(200))
	}
}

// disturbance is a factor by which the best of so many measurements is off.
func (w *World) disturbance(passes int) float64 {
	best := math.Inf(-1)
	for range passes {
		x := noise * w.rng.NormFloat64()
		if w.rng.Float64() < disturbed {
			x -= tail * w.rng.ExpFloat64()
		}
		best = max(best, x)
	}
	return math.Exp(best)
}

// spoil does a fault to what was measured.
func (w *World) spoil(f *links.Figures, x Fault) {
	all := func(list []int) []int {
		if list != nil {
			return list
		}
		list = make([]int, w.N)
		for i := range list {
			list[i] = i
		}
		return list
	}
	for _, i := range all(x.From) {
		for _, j := range all(x.To) {
			at, back := i*w.N+j, j*w.N+i
			switch x.Kind {
			case links.Slow:
				f.Alone.V[at] *= x.Amount
				if x.Both {
					f.Alone.V[back] *= x.Amount
				}
			case links.Lossy:
				f.Alone.V[at] *= lossyFactor * w.disturbance(1)
				f.Lost.V[at] += x.Amount * packets * (0.5 + w.rng.Float64())
				// Some acknowledgements are lost, too.
				f.Alone.V[back] *= 0.8
				f.Lost.V[back] += x.Amount / 10 * packets * w.rng.Float64()
			case links.Late:
				most := window / (2 * x.Amount) / 1e3 // GB/s
				for _, at := range []int{at, back} {
					f.Latency.V[at] += x.Amount
					f.Alone.V[at] = min(f.Alone.V[at], most*w.disturbance(1))
				}
			}
		}
	}
}

// Grade is how a verdict compares with the faults.
type Grade struct {
	Faults, Found, Missed int
	Hidden                int             // slow pairs behind a thin link, which are not named
	False                 []links.Finding // who has no part in any fault
}

// Grade holds a verdict against the faults: the right place, kind and ranks.
func (w *World) Grade(v *links.Verdict) (g Grade) {
	g.Faults = len(w.Faults)
	found := make([]bool, g.Faults)
	for _, f := range v.Findings {
		at := slices.IndexFunc(w.Faults, func(x Fault) bool { return x.is(&f) })
		if at < 0 {
			g.False = append(g.False, f)
		} else {
			found[at] = true
		}
	}
	for i, ok := range found {
		switch {
		case ok:
			g.Found++
		case w.behind(&w.Faults[i]):
			g.Hidden++
		default:
			g.Missed++
		}
	}
	return g
}

// behind tells whether a slow pair is one of those between two groups that are slow.
func (w *World) behind(x *Fault) bool {
	in := func(list []int, rank int) bool { return slices.Contains(list, rank) }
	return x.Kind == links.Slow && x.Place == links.OnePair && slices.ContainsFunc(w.Faults, func(g Fault) bool {
		return g.Place == links.Group && (in(g.From, x.From[0]) && in(g.To, x.To[0]) || g.Both && in(g.To, x.From[0]) && in(g.From, x.To[0]))
	})
}

func (x Fault) is(f *links.Finding) bool {
	same := slices.Equal(f.From, x.From) && slices.Equal(f.To, x.To)
	turned := slices.Equal(f.From, x.To) && slices.Equal(f.To, x.From)
	switch {
	case f.Kind != x.Kind || f.Place != x.Place:
		return false
	case x.Kind == links.Late:
		return same || turned
	case f.Place == links.Group:
		return f.BothWays == x.Both && (same || x.Both && turned)
	}
	return same && f.BothWays == x.Both
}
