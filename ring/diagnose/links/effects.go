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
}

// block is a group of senders that is low to a group of receivers.
type block struct {
	from, to []int // in order
	effect   float64
	names    [2]string // of groups of the list
	share    float64   // of its pairs that are low
	bar      float64   // of its pairs: those that meet in one round share the link that is thin
}

const (
	// upper is the quantile that the first sweeps take out. A thin link between two halves
	// lowers a little more than half of each row; a few faults come on top.
	upper = 0.75
	// sweeps of rows and columns: the medians move by less than a hundredth after two.
	sweeps = 3
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
// least. group is that of each rank, or nil: they are looked for.
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
	for range sweeps {
		e.sweep(upper, nil)
	}
	e.centre()
	e.measureNoise(true)
	if group != nil {
		e.blocks = e.between(group)
	} else {
		e.blocks = e.lookFor()
	}
	for _, b := range e.blocks {
		e.add(b, -b.effect)
	}
	low := make([]bool, len(x.V))
	for i, v := range e.rest.V {
		low[i] = v < -e.bar
	}
	e.keepMost(low)
	for range sweeps {
		e.sweep(0.5, low)
	}
	e.centre()
	e.measureNoise(false)
	for i := range e.blocks {
		b := &e.blocks[i]
		b.bar = min(max(e.bar, NamedSpreads*spread(e.within(b))), mostBar)
	}
	return e
}

// shift takes a value off all of the rest.
func (e *effects) shift(by float64) {
	for i := range e.rest.V {
		e.rest.V[i] -= by
	}
}

// sweep takes a quantile of each row, and then of each column, out of the rest.
func (e *effects) sweep(q float64, without []bool) {
	n := e.n
	e.sweepRows(e.rest, e.sender, q, func(i, j int) bool { return without != nil && without[i*n+j] })
	t := e.rest.transposed()
	e.sweepRows(t, e.receiver, q, func(i, j int) bool { return without != nil && without[j*n+i] })
	e.rest.V = t.transposed().V
}

func (e *effects) sweepRows(m Matrix, to []float64, q float64, without func(i, j int) bool) {
	row := make([]float64, 0, e.n)
	for i := range e.n {
		all := m.V[i*e.n : (i+1)*e.n]
		row = row[:0]
		for j, v := range all {
			if !math.IsNaN(v) && !without(i, j) {
				row = append(row, v)
			}
		}
		if len(row) < 2 { // of one figure it cannot be said whose it is
			continue
		}
		level := quantile(row, q)
		to[i] += level
		for j := range all {
			all[j] -= level
		}
	}
}

// keepMost takes rows and columns back in of which nearly all was set aside: what is low
// in most of a row is the row's.
func (e *effects) keepMost(low []bool) {
	n := e.n
	for i := range n {
		for _, at := range []func(j int) int{func(j int) int { return i*n + j }, func(j int) int { return j*n + i }} {
			aside, all := 0, 0
			for j := range n {
				if !math.IsNaN(e.rest.V[at(j)]) {
					all++
					if low[at(j)] {
						aside++
					}
				}
			}
			if aside*4 > all*3 {
				for j := range n {
					low[at(j)] = false
				}
			}
		}
	}
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

// add adds to the rest of a block's pairs.
func (e *effects) add(b block, by float64) {
	for _, i := range b.from {
		for _, j := range b.to {
			e.rest.V[i*e.n+j] += by
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

// within are the figures of a block's pairs in the rest.
func (e *effects) within(b *block) (list []float64) {
	for _, i := range b.from {
		for _, j := range b.to {
			if v := e.rest.At(i, j); !math.IsNaN(v) {
				list = append(list, v)
			}
		}
	}
	return list
}

// barOf is how far below a pair must lie.
func (e *effects) barOf(i, j int) float64 {
	bar := e.bar
	for k := range e.blocks {
		if b := &e.blocks[k]; b.has(i, j) {
			bar = max(bar, b.bar)
		}
	}
	return bar
}

func (b *block) has(i, j int) bool {
	_, from := slices.BinarySearch(b.from, i)
	_, to := slices.BinarySearch(b.to, j)
	return from && to
}

const (
	// blockShare is how much of a block must be low. What is low besides, by chance, makes
	// no whole block.
	blockShare = 0.7
	// alike is how much of what two senders are slow to must be common (Jaccard), for
	// both to be in one group.
	alike = 0.5
)

// between measures the blocks of groups that are known.
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

// lookFor finds blocks: senders that are low to the same receivers, two or more of each. Of
// many ranks a few pairs that are disturbed make small ones by chance: there must be as many
// pairs as ranks.
func (e *effects) lookFor() (blocks []block) {
	n := e.n
	lows := make([][]int, n) // by sender
	for i := range n {
		for j := range n {
			if v := e.rest.At(i, j); v < -e.bar {
				lows[i] = append(lows[i], j)
			}
		}
	}
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(lows[b]) - len(lows[a]) })
	done := make([]bool, n)
	is := make([]bool, n)
	for _, seed := range order {
		if done[seed] || len(lows[seed]) < 2 {
			continue
		}
		for _, j := range lows[seed] {
			is[j] = true
		}
		var b block
		counts := make([]int, n)
		for i := range n {
			common := 0
			for _, j := range lows[i] {
				if is[j] {
					common++
				}
			}
			if !done[i] && float64(common) >= alike*float64(len(lows[i])+len(lows[seed])-common) && common > 0 {
				b.from = append(b.from, i)
				for _, j := range lows[i] {
					counts[j]++
				}
			}
		}
		for _, j := range lows[seed] {
			is[j] = false
		}
		for j, c := range counts {
			if 2*c > len(b.from) && !slices.Contains(b.from, j) {
				b.to = append(b.to, j)
			}
		}
		done[seed] = true
		if len(b.from) < 2 || len(b.to) < 2 || len(b.from)*len(b.to) < n || !e.of(&b) {
			continue
		}
		for _, i := range b.from {
			done[i] = true
		}
		blocks = append(blocks, b)
	}
	return blocks
}

// nodeNoise is the spread of a node's effect by chance alone: it is that of many pairs. leastNoise
// is what figures of a clock and of a queue's length differ by at least.
func (e *effects) nodeNoise() float64 { return max(e.noise, leastNoise) / math.Sqrt(float64(e.n-1)) }

const leastNoise = 0.01

// slow returns who of the senders, or receivers, lies below the others.
func slow(list []float64, floor float64) (who []int, bar float64) {
	bar = max(floor, NamedSpreads*spread(slices.Clone(list)))
	for i, v := range list {
		if v < -bar {
			who = append(who, i)
		}
	}
	return who, bar
}
