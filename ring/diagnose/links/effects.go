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
	// sick are the ranks that send, or receive, less than the others: what they send over a thin
	// link may fit through it, and does not tell of it.
	sick [2][]bool
}

// block is a group of senders that is low to a group of receivers.
type block struct {
	from, to []int // in order
	effect   float64
	light    float64   // the effect on a pair that is measured alone
	names    [2]string // of groups of the list
	share    float64   // of its pairs that are low
	bar      float64   // of its pairs: those that meet in one round share the link that is thin
}

const (
	// upper is the quantile that the first sweeps take out. A thin link between two halves
	// lowers a little more than half of each row; a few faults come on top.
	upper = 0.75
	// sweeps of rows and columns at most: the medians move by less than a hundredth after two, and
	// when they stand still there are no more.
	sweeps = 3
	still  = 1e-3
	near   = 5e-3
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
		e.sick = [2][]bool{make([]bool, n), make([]bool, n)}
		return e
	}
	e.sweep(upper, nil)
	e.centre()
	e.measureNoise(true)
	e.findSick()
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
	e.sweep(0.5, low)
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

// sweep takes a quantile of each row, and then of each column, out of the rest, by turns; those
// that are without do not count.
func (e *effects) sweep(q float64, without []bool) {
	n := e.n
	turned := e.rest.transposed()
	var turnedWithout []bool
	if without != nil {
		turnedWithout = transposed(n, without)
	}
	sender, receiver := make([]float64, n), make([]float64, n)
	for k := range sweeps {
		moved := max(levels(e.rest, without, q, k > 0, receiver, sender), levels(turned, turnedWithout, q, k > 0, sender, receiver))
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
// that moved most did. Again, most are near to what they were: that spares their sorting.
func levels(m Matrix, without []bool, q float64, again bool, columns, to []float64) (moved float64) {
	list := make([]float64, 0, m.N)
	row := func(i int, low, high float64) (below, all int) {
		list = list[:0]
		for j, v := range m.V[i*m.N : (i+1)*m.N] {
			if math.IsNaN(v) || without != nil && without[i*m.N+j] {
				continue
			}
			all++
			switch v -= columns[j]; {
			case v < low:
				below++
			case v <= high:
				list = append(list, v)
			}
		}
		return below, all
	}
	for i := range m.N {
		var level float64
		ok := false
		if again {
			below, all := row(i, to[i]-near, to[i]+near)
			level, ok = quantileOf(list, below, all, q)
		}
		if !ok {
			if row(i, math.Inf(-1), math.Inf(1)); len(list) < 2 { // of one figure it cannot be said whose it is
				continue
			}
			level = quantile(list, q)
		}
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
	block := make([]bool, len(low))
	for k := range e.blocks {
		for _, i := range e.blocks[k].from {
			for _, j := range e.blocks[k].to {
				block[i*n+j] = true
			}
		}
	}
	aside := slices.Clone(low)
	type line struct{ lows, all [2]int } // 1: of blocks
	var lines [2][]line                  // rows and columns
	lines[0], lines[1] = make([]line, n), make([]line, n)
	in := func(at int) int {
		if block[at] {
			return 1
		}
		return 0
	}
	for at, v := range e.rest.V {
		if math.IsNaN(v) {
			continue
		}
		in := in(at)
		for _, l := range []*line{&lines[0][at/n], &lines[1][at%n]} {
			l.all[in]++
			if aside[at] {
				l.lows[in]++
			}
		}
		low[at] = aside[at] || block[at]
	}
	for way := range lines {
		for k := range lines[way] {
			l := &lines[way][k]
			lows, all, alone := l.lows[0], l.all[0], l.all[0] >= ownLeast
			if !alone {
				lows, all = lows+l.lows[1], all+l.all[1]
			}
			most := lows*4 > all*3
			if alone && !most {
				continue
			}
			for other := range n {
				at := k*n + other
				if way == 1 {
					at = other*n + k
				}
				if alone && block[at] || !most && (aside[at] || !block[at]) {
					continue
				}
				if aside[at] {
					lines[1-way][other].lows[in(at)]--
				}
				low[at], aside[at] = false, false
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
// many ranks a few pairs that are disturbed make small ones by chance: there must be nearly as many
// pairs as ranks. Sick ranks are put into them afterwards.
func (e *effects) lookFor() (blocks []block) {
	n := e.n
	lows := make([][]int, n) // by sender
	for i := range n {
		for j := range n {
			if v := e.rest.At(i, j); v < -e.bar && !e.sick[0][i] && !e.sick[1][j] {
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
			if done[i] {
				continue
			}
			common := 0
			for _, j := range lows[i] {
				if is[j] {
					common++
				}
			}
			if float64(common) >= alike*float64(len(lows[i])+len(lows[seed])-common) && common > 0 {
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
		if len(b.from) < 2 || len(b.to) < 2 || len(b.from)*len(b.to) < n-1 || !e.of(&b) {
			continue
		}
		for _, i := range b.from {
			done[i] = true
		}
		blocks = append(blocks, b)
	}
	e.placeSick(blocks)
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
