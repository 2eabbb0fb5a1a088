package links

import (
	"math"
	"slices"
)

// effects is a matrix of logarithms, higher is better, taken apart.
type effects struct {
	n                int
	typical          float64
	sender, receiver []float64 // how far from those of most
	blocks           []block
	rest             Matrix  // what no effect explains; changed in place
	noise            float64 // spread of rest
	bar              float64 // how far below a figure must lie to be low
	floor, least     float64 // the least that bar and noise may be
	// sick are the ranks that send, or receive, less than the others: their traffic may fit through a
	// thin link, and does not show it.
	sick [2][]bool
}

// block is a group of senders that is low to a group of receivers.
type block struct {
	from, to []int // in order
	effect   float64
	names    [2]string // of the groups
	share    float64   // of its pairs that are low
}

const (
	// upper is the quantile that the first sweeps take out. A thin link between two halves
	// lowers a little more than half of each row; a few faults come on top.
	upper = 0.75
	// sweeps of rows and columns at most: the medians move by less than a hundredth after two, and
	// when they stand still there are no more.
	sweeps = 3
	still  = 1e-3
	// NamedSpreads is how many spreads below the others a pair or a node must lie, to be
	// measured again.
	NamedSpreads = 5
	// mostBar is how far off a pair lies that is measured again whatever the noise is: a tenth of
	// the bandwidth, or ten times the latency.
	mostBar = 2.3
	// sample bounds the figures from which the spread is taken: it is not more exact with more.
	sample = 1 << 16
)

// decompose takes a matrix of logarithms apart, which it changes. floor is how far below
// the others something must be at least to be called low, and noise the spread that it has at
// least. group is that of each rank, or nil.
func decompose(x Matrix, floor, noise float64, group []string) *effects {
	n := x.N
	e := &effects{n: n, sender: make([]float64, n), receiver: make([]float64, n), rest: x, floor: floor, least: noise}
	if n == 2 { // a row is one figure, which would explain itself
		e.typical = quantile(figures(nil, x.V), 1)
		e.shift(e.typical)
		e.noise = noise
		e.bar = min(max(floor, NamedSpreads*noise), mostBar)
		return e
	}
	e.sweep(upper, nil)
	e.centre()
	e.measureNoise(true)
	e.sick = [2][]bool{e.low(e.sender), e.low(e.receiver)}
	e.blocks = e.between(group)
	for _, b := range e.blocks {
		e.lift(b)
	}
	low := make([]bool, len(x.V))
	for i, v := range e.rest.V {
		low[i] = v < -e.bar
	}
	e.keepMost(low)
	e.sweep(0.5, low)
	e.centre()
	e.measureNoise(false)
	return e
}

// low tells which ranks lie below the others.
func (e *effects) low(list []float64) []bool {
	is := make([]bool, e.n)
	for _, rank := range slow(list, e.nodeBar()) {
		is[rank] = true
	}
	return is
}

// shift takes a value off all of the rest.
func (e *effects) shift(by float64) {
	for i := range e.rest.V {
		e.rest.V[i] -= by
	}
}

// sweep takes a quantile of each row, and then of each column, out of the rest, by turns; those
// that are without do not count.
func (e *effects) sweep(q float64, without []bool) {
	n := e.n
	turned := Matrix{n, transposed(n, e.rest.V)}
	var turnedWithout []bool
	if without != nil {
		turnedWithout = transposed(n, without)
	}
	sender, receiver := make([]float64, n), make([]float64, n)
	for range sweeps {
		moved := max(levels(e.rest, without, q, receiver, sender), levels(turned, turnedWithout, q, sender, receiver))
		if moved < still {
			break
		}
	}
	for i, own := range sender {
		row := e.rest.V[i*n : (i+1)*n]
		for j := range row {
			row[j] -= own + receiver[j]
		}
		e.sender[i] += own
		e.receiver[i] += receiver[i]
	}
}

// levels takes a quantile of each row, less what the columns have, and returns by how much the row
// that moved most did.
func levels(m Matrix, without []bool, q float64, columns, to []float64) (moved float64) {
	list := make([]float64, 0, m.N)
	for i := range m.N {
		list = list[:0]
		for j, v := range m.V[i*m.N : (i+1)*m.N] {
			if !math.IsNaN(v) && (without == nil || !without[i*m.N+j]) {
				list = append(list, v-columns[j])
			}
		}
		if len(list) < 2 { // of one figure it cannot be said whose it is
			continue
		}
		level := quantile(list, q)
		moved = max(moved, math.Abs(level-to[i]))
		to[i] = level
	}
	return moved
}

// ownLeast is of how many pairs beside those of blocks the effect of a rank is taken.
const ownLeast = 3

// keepMost says which figures are set aside: those that are low, and those of blocks, since of two
// things that are thin one after the other the thinner one alone is seen. It takes rows and
// columns back in of which nearly all was set aside: what is low in most of a row is the row's.
func (e *effects) keepMost(low []bool) {
	n := e.n
	block, aside := make([]bool, len(low)), slices.Clone(low)
	for k := range e.blocks {
		for _, i := range e.blocks[k].from {
			for _, j := range e.blocks[k].to {
				block[i*n+j], aside[i*n+j] = true, true
			}
		}
	}
	for line := range 2 * n {
		at := func(other int) int { return line*n + other }
		if line >= n {
			at = func(other int) int { return other*n + line - n }
		}
		var lows, all [2]int // outside of blocks, and in them
		for other := range n {
			in, k := 0, at(other)
			if block[k] {
				in = 1
			}
			if !math.IsNaN(e.rest.V[k]) {
				all[in]++
				if low[k] {
					lows[in]++
				}
			}
		}
		alone := all[0] >= ownLeast
		if !alone {
			lows[0], all[0] = lows[0]+lows[1], all[0]+all[1]
		}
		most := lows[0]*4 > all[0]*3
		for other := range n {
			if k := at(other); (!alone || !block[k]) && (most || !low[k]) {
				aside[k] = false
			}
		}
	}
	copy(low, aside)
}

// centre has the effects of most be zero.
func (e *effects) centre() {
	for _, list := range [][]float64{e.sender, e.receiver} {
		middle := quantile(slices.Clone(list), 0.5)
		for i := range list {
			list[i] -= middle
		}
		e.typical += middle
	}
}

// topSpreads is how many standard deviations of normal noise lie between the quantiles 0.75
// and 0.95.
const topSpreads = 1.645 - 0.674

// measureNoise takes the spread of the rest. halved: blocks may be in it that are low, up to a
// little more than half of all; then what lies above them says what noise is.
func (e *effects) measureNoise(halved bool) {
	step := max(1, len(e.rest.V)/sample)
	if step > 1 {
		step |= 1 // odd, and so not always the same columns
	}
	var list []float64
	for i := 0; i < len(e.rest.V); i += step {
		if v := e.rest.V[i]; !math.IsNaN(v) {
			list = append(list, v)
		}
	}
	top := math.Inf(1)
	if halved {
		top = (quantile(list, 0.95) - quantile(list, upper)) / topSpreads
	}
	e.noise = max(min(spread(list), top), e.least)
	e.bar = min(max(e.floor, NamedSpreads*e.noise), mostBar)
}

// lift takes the effect of a block out of its pairs.
func (e *effects) lift(b block) {
	for _, i := range b.from {
		for _, j := range b.to {
			e.rest.V[i*e.n+j] -= b.effect
		}
	}
}

// of measures a block: the median of its pairs, and how many are low. ok if it is low.
func (e *effects) of(b *block) (ok bool) {
	list, low := e.within(b), 0
	for _, v := range list {
		if v < -e.bar {
			low++
		}
	}
	b.share = float64(low) / max(1, float64(len(list)))
	b.effect = quantile(list, 0.5)
	return b.share >= blockShare
}

// within are the figures of a block's pairs in the rest, without those of sick ranks.
func (e *effects) within(b *block) (list []float64) {
	for _, i := range b.from {
		for _, j := range b.to {
			if v := e.rest.At(i, j); !math.IsNaN(v) && !e.sick[0][i] && !e.sick[1][j] {
				list = append(list, v)
			}
		}
	}
	return list
}

func (b *block) has(i, j int) bool {
	_, from := slices.BinarySearch(b.from, i)
	_, to := slices.BinarySearch(b.to, j)
	return from && to
}

// inBlock tells whether a pair is of two groups that are slow to each other.
func (e *effects) inBlock(i, j int) bool {
	return slices.ContainsFunc(e.blocks, func(b block) bool { return b.has(i, j) })
}

// blockShare is how much of a block must be low. Pairs that are low by chance make no whole block.
const blockShare = 0.7

// between measures the blocks of groups, and returns those that are low.
func (e *effects) between(group []string) (blocks []block) {
	members := map[string][]int{}
	for i, g := range group {
		members[g] = append(members[g], i)
	}
	names := make([]string, 0, len(members))
	for g := range members {
		names = append(names, g)
	}
	slices.Sort(names)
	for _, from := range names {
		for _, to := range names {
			b := block{from: members[from], to: members[to], names: [2]string{from, to}}
			if from != to && len(b.from)*len(b.to) > 1 && e.of(&b) {
				blocks = append(blocks, b)
			}
		}
	}
	return blocks
}

// nodeNoise is the spread of a node's effect by chance alone: it is that of many pairs. leastNoise
// is what figures of a clock and of a queue's length differ by at least.
func (e *effects) nodeNoise() float64 { return max(e.noise, leastNoise) / math.Sqrt(float64(e.n-1)) }

const leastNoise = 0.01

// nodeBar is how far below the others a node must lie at least.
func (e *effects) nodeBar() float64 {
	if e.n == 2 {
		return e.bar
	}
	return min(e.bar, max(e.floor, NamedSpreads*e.nodeNoise()))
}

// slow returns which senders, or receivers, lie below the others.
func slow(list []float64, floor float64) (who []int) {
	bar := max(floor, NamedSpreads*spread(slices.Clone(list)))
	for i, v := range list {
		if v < -bar {
			who = append(who, i)
		}
	}
	return who
}
