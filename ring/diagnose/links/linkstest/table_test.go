package linkstest

import (
	"slices"
	"testing"
)

// A table that was cut short says so, and how it goes on.
func TestUnfinished(t *testing.T) {
	seeds := map[int]Span{8: {Seeds: 3}, 232: {Seeds: 1000, From: 50}, 1000: {Seeds: 2}}
	table := []*row{
		{n: 8, worlds: 3}, {n: 8, worlds: 3}, {n: 232, worlds: 38}, {n: 232, worlds: 37}, {n: 232, worlds: 37}, {n: 1000},
	}
	want := []string{"232 ranks: 37 of 1000 seeds; go on with LINKS_SEEDS=232:963+87", "1000 ranks: 0 of 2 seeds; go on with LINKS_SEEDS=1000:2+0"}
	if got := unfinished(table, seeds); !slices.Equal(got, want) {
		t.Errorf("%q, expected %q", got, want)
	}
	for _, r := range table {
		r.worlds = seeds[r.n].Seeds
	}
	if got := unfinished(table, seeds); got != nil {
		t.Errorf("all done: %q", got)
	}
}
