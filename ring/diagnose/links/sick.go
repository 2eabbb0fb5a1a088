package links

import (
	"math"
	"slices"
)

// findSick notes who sends, or receives, less than the others, by the first sweeps.
func (e *effects) findSick() {
	for way, list := range [][]float64{e.sender, e.receiver} {
		e.sick[way] = make([]bool, e.n)
		who, _ := slow(list, e.nodeBar())
		for _, rank := range who {
			e.sick[way][rank] = true
		}
	}
}

// placeSick puts sick senders and receivers into the blocks that the healthy ones make: who is
// lower to the block than to others; else, where its own fault may hide the block's, who has the
// block behind it the other way round; else, of two groups that are all ranks, who is not in the
// other one.
func (e *effects) placeSick(blocks []block) {
	healthy := make([]block, len(blocks)) // before anybody was put in
	for i, b := range blocks {
		healthy[i] = block{from: slices.Clone(b.from), to: slices.Clone(b.to)}
	}
	for k := range blocks {
		b := &blocks[k]
		back := slices.IndexFunc(healthy, func(o block) bool {
			return 2*common(o.from, b.to) > len(b.to) && 2*common(o.to, b.from) > len(b.from)
		})
		for way := range 2 {
			own, other, level := &b.from, healthy[k].to, e.sender
			if way == 1 {
				own, other, level = &b.to, healthy[k].from, e.receiver
			}
			for rank := range e.n {
				if !e.sick[way][rank] || slices.Contains(*own, rank) {
					continue
				}
				in := e.lowerTo(rank, way, other)
				switch hides := level[rank] < b.effect/2; {
				case in || !hides:
				case back >= 0:
					in = slices.Contains([2][]int{healthy[back].to, healthy[back].from}[way], rank)
				default:
					in = !e.sick[1-way][rank] && !slices.Contains(other, rank) && e.halves(&healthy[k])
				}
				if in {
					*own = append(*own, rank)
				}
			}
			slices.Sort(*own)
		}
	}
}

// lowShare is how much of what a rank has with others lies below what is compared with it.
const lowShare = 0.1

// lowerTo tells whether a rank is lower to a list of ranks, or, way 1, from it, than to others: more
// lie below nearly all of the others than chance puts there.
func (e *effects) lowerTo(rank, way int, list []int) bool {
	var in, out []float64
	for other := range e.n {
		i, j := rank, other
		if way == 1 {
			i, j = other, rank
		}
		v := e.rest.At(i, j)
		if math.IsNaN(v) || e.sick[1-way][other] {
			continue
		}
		if _, ok := slices.BinarySearch(list, other); ok {
			in = append(in, v)
		} else {
			out = append(out, v)
		}
	}
	if len(in) < 2 || len(out) < 2 {
		return false
	}
	below, bar := 0, quantile(out, lowShare)-max(e.noise, leastNoise)
	for _, v := range in {
		if v < bar {
			below++
		}
	}
	n := float64(len(in))
	return float64(below)/n > lowShare+NamedSpreads*math.Sqrt(lowShare*(1-lowShare)/n)
}

// halves tells whether the groups of a block are all ranks, sick ones aside.
func (e *effects) halves(b *block) bool {
	for rank := range e.n {
		if !slices.Contains(b.from, rank) && !slices.Contains(b.to, rank) && !e.sick[0][rank] && !e.sick[1][rank] {
			return false
		}
	}
	return true
}

// common is how many two lists in order have in common.
func common(a, b []int) (n int) {
	for _, v := range a {
		if _, ok := slices.BinarySearch(b, v); ok {
			n++
		}
	}
	return n
}
