package links_test

import (
	"slices"
	"testing"

	"ringcli/ring/diagnose/links"
	"ringcli/ring/diagnose/links/linkstest"
)

// judge is the whole way: a mesh, the suspects again, and what holds.
func judge(w *linkstest.World) *links.Verdict {
	v := links.Judge(w.Measure(nil), links.Options{})
	for range links.Confirmations(w.N) {
		if again := slices.Concat(v.Retests(w.N)...); len(again) > 0 {
			v = v.Confirm(w.Measure(again))
		}
	}
	return v.Final()
}

// Each kind alone, several at once, and nobody on healthy figures.
func TestVerdicts(t *testing.T) {
	seeds := map[int]int{8: 60, 232: 2}
	if !testing.Short() {
		seeds = map[int]int{4: 200, 8: 400, 64: 100, 232: 20, 1000: 1}
	}
	linkstest.Table(t, linkstest.Seeds(t, seeds), func(n int, seed uint64, kinds []string) (*linkstest.World, *links.Verdict) {
		w := linkstest.New(n, seed, kinds...)
		return w, judge(w)
	})
}
