package bench

import (
	"testing"
	"time"

	"ringcli/cli/bench/narrow"
	"ringcli/collective"
	"ringcli/collective/reduce"
)

// TestFollow: ranks tell of the first wrong words alone. What one has not told of is not taken
// for right, and is counted.
func TestFollow(t *testing.T) {
	plan := collective.Call{Op: collective.OpAllGather, Count: 4000, Type: reduce.Uint32, CallOptions: collective.CallOptions{Algorithm: collective.AlgorithmRing, Protocol: collective.Eager}}
	wrong := func(rank, from, words int, of uint64) (r checkedRank) {
		r.Rank, r.Wrong = rank, of
		for i := range words {
			r.Words = append(r.Words, narrow.Word{Element: from + 2*i, Got: 1})
		}
		return r
	}
	c := checking{begun: time.Now(), done: 1}
	c.follow(plan, []checkedRank{wrong(0, 0, wordsKept, 1000), wrong(1, 0, 0, 0), wrong(2, 900, 1, 1), wrong(3, 0, 0, 0)})
	if got := c.corruption(4).Pattern; got.Words != wordsKept+1 || got.Of != 1000 {
		t.Errorf("%d words of %d: expected %d of 1000", got.Words, got.Of, wordsKept+1)
	}
	for _, w := range c.words {
		if want := map[bool]int{true: 0, false: -1}[w.Element < 900 && w.Rank == 0]; w.From != want || w.To != want {
			t.Errorf("element %d of rank %d went wrong within %d: expected %d", w.Element, w.Rank, w.From, want)
		}
	}
}
