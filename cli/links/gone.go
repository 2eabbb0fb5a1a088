package links

import "slices"

const (
	// goneRanks is with how many others, one after the other, a rank must have no connection for
	// nobody to try any more, and goneTries how often a pair in a row: each time costs all ranks
	// as long as retries and patience last.
	goneRanks = 4
	goneTries = 2
)

// gone is who is measured no more, alike on all ranks.
type gone struct {
	failed [][]int        // by rank: the others that it had no connection to since one worked
	tries  map[[2]int]int // by pair of ranks, the lower first: how often in a row, of most
	most   int
}

// newGone has each pair tried so often.
func newGone(n, most int) *gone {
	return &gone{failed: make([][]int, n), tries: map[[2]int]int{}, most: most}
}

func (g *gone) is(a, b int) bool {
	return len(g.failed[a]) >= goneRanks || len(g.failed[b]) >= goneRanks || g.tries[[2]int{min(a, b), max(a, b)}] >= g.most
}

// note takes in how a pair's round went, as its ends say: that one has no connection is enough.
func (g *gone) note(a, b int, there, back roundTold) {
	pair := [2]int{min(a, b), max(a, b)}
	switch {
	case there.Failed || back.Failed:
		g.tries[pair]++
		for _, ends := range [][2]int{{a, b}, {b, a}} {
			if own := &g.failed[ends[0]]; !slices.Contains(*own, ends[1]) {
				*own = append(*own, ends[1])
			}
		}
	case there.Worked:
		delete(g.tries, pair)
		g.failed[a], g.failed[b] = nil, nil
	}
}
