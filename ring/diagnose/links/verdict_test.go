package links_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"ringcli/ring/diagnose/links"
	"ringcli/ring/diagnose/links/linkstest"
)

// judge is the whole way: a mesh, the suspects again, and what holds.
func judge(w *linkstest.World) *links.Verdict {
	v := links.Judge(w.Measure(nil), links.Options{})
	for range links.Confirmations {
		if again := slices.Concat(v.Retests(w.N)...); len(again) > 0 {
			v = v.Confirm(w.Measure(again))
		}
	}
	return v.Final()
}

// row is a line of the table.
type row struct {
	n, faults                  int
	kind                       string
	worlds, done, found, named int
	judging                    time.Duration
}

func (r *row) add(t *testing.T, seed uint64, kinds []string) {
	w := linkstest.New(r.n, seed, kinds...)
	begun := time.Now()
	g := w.Grade(judge(w))
	r.judging += time.Since(begun)
	r.worlds, r.done, r.found, r.named = r.worlds+1, r.done+g.Faults, r.found+g.Found, r.named+len(g.False)
	if (g.Missed > 0 || len(g.False) > 0) && testing.Verbose() {
		t.Logf("%d ranks, seed %d, %v: missed %d, falsely named %d: %+.200v", r.n, seed, w.Faults, g.Missed, len(g.False), g.False)
	}
}

// Each kind alone, several at once, and nobody on healthy figures.
func TestVerdicts(t *testing.T) {
	seeds := map[int]int{8: 60, 232: 2}
	if !testing.Short() {
		seeds = map[int]int{4: 200, 8: 1000, 64: 200, 232: 50, 1000: 3}
	}
	if all := os.Getenv("LINKS_SEEDS"); all != "" {
		var n, k int
		clear(seeds)
		for part := range strings.SplitSeq(all, ",") {
			if _, err := fmt.Sscanf(part, "%d:%d", &n, &k); err != nil {
				t.Fatalf("LINKS_SEEDS=%s: %v: expected RANKS:SEEDS,...", all, err)
			}
			seeds[n] = k
		}
	}
	var table []row
	for _, n := range []int{4, 8, 64, 232, 1000} {
		if seeds[n] == 0 {
			continue
		}
		for _, kind := range append([]string{"healthy"}, linkstest.Kinds...) {
			r := row{n: n, kind: kind}
			var kinds []string
			if kind != "healthy" {
				kinds, r.faults = []string{kind}, 1
			}
			for seed := range seeds[n] {
				r.add(t, uint64(seed), kinds)
			}
			table = append(table, r)
		}
		for faults := 2; faults <= 5 && n > 8; faults++ {
			r := row{n: n, kind: "any", faults: faults}
			for seed := range seeds[n] {
				rng := rand.New(rand.NewPCG(uint64(seed), uint64(faults)))
				var kinds []string
				for range faults {
					kinds = append(kinds, linkstest.Kinds[rng.IntN(len(linkstest.Kinds))])
				}
				if i := slices.Index(kinds, "slow group"); i >= 0 { // one division of the network at a time
					for j := i + 1; j < len(kinds); j++ {
						if kinds[j] == "slow group" {
							kinds[j] = "slow pair"
						}
					}
				}
				r.add(t, uint64(seed), kinds)
			}
			table = append(table, r)
		}
	}
	var b strings.Builder
	out := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(out, "ranks\tat once\tkind\tworlds\tfaults\tfound\tmissed\tfalsely named\tms each\t")
	for _, r := range table {
		_, _ = fmt.Fprintf(out, "%d\t%d\t%s\t%d\t%d\t%d\t%d\t%d\t%.1f\t\n", r.n, r.faults, r.kind, r.worlds, r.done, r.found, r.done-r.found, r.named,
			r.judging.Seconds()*1e3/float64(r.worlds))
		if r.named > 0 || r.found < r.done {
			t.Errorf("%d ranks, %d of %s: %d of %d found, %d falsely named", r.n, r.faults, r.kind, r.found, r.done, r.named)
		}
	}
	_ = out.Flush()
	t.Log("\n" + b.String())
}
