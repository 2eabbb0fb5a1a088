package model

import (
	"cmp"
	"math"
	"slices"

	"ringcli/collective"
)

// Slow is what the edge that costs a ring most costs it: a ring is as slow as its slowest
// edge, since every byte goes over each.
type Slow struct {
	Pair    Pair
	Edge    Edge
	Usual   Edge    // the median of the ring's edges, each figure by itself
	With    float64 // s: a call over the ring as it is
	Without float64 // were the edge as the usual one
	// Order is a better order of the ranks; nil: none was found among the pairs that are
	// known.
	Order   []int
	Ordered float64 // s: the call in that order
}

// candidates is how many of the edges that look slowest are tried.
const candidates = 8

// Slow finds the edge whose mending saves a call round the ring most. Every edge of the
// ring must be known.
func (m Machine) Slow(k collective.Call) Slow {
	s := Slow{With: m.Time(k)}
	ring := m.around()
	edges := make([]Edge, len(ring))
	for i, p := range ring {
		edges[i] = m.Edges[p]
	}
	s.Usual = Usual(edges)
	each := bytes(&k) / float64(m.Ranks)
	slices.SortStableFunc(ring, func(a, b Pair) int { return -cmp.Compare(m.Edges[a].time(each), m.Edges[b].time(each)) })
	for i, p := range ring[:min(candidates, len(ring))] {
		was := m.Edges[p]
		m.Edges[p] = s.Usual
		without := m.Time(k)
		m.Edges[p] = was
		if i == 0 || without < s.Without {
			s.Pair, s.Edge, s.Without = p, was, without
		}
	}
	s.Order, s.Ordered = m.better(k, s.With)
	return s
}

func (e Edge) time(bytes float64) float64 { return e.Alpha + bytes*e.Beta }

// Usual is the median of those edges that carry anything, each figure by itself; an edge
// that carries nothing if none does.
func Usual(edges []Edge) Edge {
	var alphas, betas []float64
	for _, e := range edges {
		if !math.IsInf(e.Beta, 1) {
			alphas, betas = append(alphas, e.Alpha), append(betas, e.Beta)
		}
	}
	if len(betas) == 0 {
		return Edge{Beta: math.Inf(1)}
	}
	return Edge{median(alphas), median(betas)}
}

func median(v []float64) float64 {
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// around are the edges of the ring as it is ordered.
func (m *Machine) around() []Pair {
	list := make([]Pair, m.Ranks)
	for i := range list {
		list[i] = Pair{m.at(i), m.at((i + 1) % m.Ranks)}
	}
	return list
}

func (m *Machine) at(place int) int {
	if m.Order == nil {
		return place
	}
	return m.Order[place]
}

// known tells whether every edge of an order, each way, has been measured.
func (m *Machine) known() bool {
	for _, p := range m.around() {
		if _, ok := m.Edges[p]; !ok {
			return false
		}
	}
	return true
}

const (
	// worthwhile is the least gain for which ranks are put elsewhere.
	worthwhile = 0.98
	// turns bounds the search: each ends with one edge less that is slow.
	turns = 32
)

// better looks for an order in which a call takes less time than in the present one: from
// that, again and again, the best of all ways to put a rank at either end of the slowest
// edge somewhere else, to exchange it for another, or to turn a stretch round, of which
// any may take another edge out of the ring. It does not find the best, but for few ranks
// that is hard to tell: a shortest tour of the slowest leg.
func (m Machine) better(k collective.Call, present float64) (order []int, t float64) {
	n := m.Ranks
	order = make([]int, n)
	for i := range order {
		order[i] = m.at(i)
	}
	best := present
	try := func(o []int) {
		m.Order = o
		if !m.known() {
			return
		}
		if t := m.Time(k); t < best*worthwhile {
			best, order = t, o
		}
	}
	back := slices.Clone(order)
	slices.Reverse(back)
	try(back)
	for range turns {
		before, from := best, slices.Clone(order)
		at := m.slowestPlace(&k, from)
		for _, end := range []int{at, (at + 1) % n} {
			rank := from[end]
			rest := slices.Delete(slices.Clone(from), end, end+1)
			for to := range n {
				try(slices.Insert(slices.Clone(rest), to, rank))
				swapped := slices.Clone(from)
				swapped[end], swapped[to] = swapped[to], swapped[end]
				try(swapped)
				turned := slices.Clone(from)
				slices.Reverse(turned[min(end, to) : max(end, to)+1])
				try(turned)
			}
		}
		if best == before {
			break
		}
	}
	if best == present {
		return nil, 0
	}
	if first := slices.Index(order, 0); first > 0 { // a ring has no beginning
		order = slices.Concat(order[first:], order[:first])
	}
	return order, best
}

// slowestPlace is where the slowest edge of an order begins.
func (m Machine) slowestPlace(k *collective.Call, order []int) (place int) {
	m.Order = order
	each, most := bytes(k)/float64(m.Ranks), -1.0
	for i, p := range m.around() {
		if t := m.Edges[p].time(each); t > most {
			place, most = i, t
		}
	}
	return place
}
