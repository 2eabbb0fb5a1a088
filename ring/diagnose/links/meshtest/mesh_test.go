package meshtest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"ringcli/ring/diagnose/links/linkstest"
)

// TestMesh: each kind of fault alone, several at once and none, on simulated networks. It is of
// 32 ranks; RINGTEST_MATRIX=full takes 232 and 1,000 and shows the table, see make growth.
func TestMesh(t *testing.T) {
	full := os.Getenv("RINGTEST_MATRIX") == "full"
	sizes := []struct{ n, seeds int }{{32, 1}}
	if full {
		sizes = []struct{ n, seeds int }{{64, 10}, {232, 3}}
	}
	var b strings.Builder
	out := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(out, "ranks\tkinds\tworlds\tfaults\tfound\tmissed\tfalsely named\trounds\tsimulated\ttook each\t")
	row := func(n, seeds int, kinds ...string) {
		var g linkstest.Grade
		var m *Mesh
		begun := time.Now()
		for seed := range seeds {
			m = network(n, uint64(seed), kinds...)
			v := m.Judge()
			own := m.World.Grade(v)
			g.Faults, g.Found, g.Missed, g.False = g.Faults+own.Faults, g.Found+own.Found, g.Missed+own.Missed, append(g.False, own.False...)
			if own.Missed > 0 || len(own.False) > 0 {
				t.Errorf("%d ranks, seed %d, %v: missed %d, falsely named %d: %.500s", n, seed, m.World.Faults, own.Missed, len(own.False), fmt.Sprintf("%+v", own.False))
			}
		}
		_, _ = fmt.Fprintf(out, "%d\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t\n", n, strings.Join(kinds, ", "), seeds, g.Faults, g.Found, g.Missed, len(g.False),
			m.Rounds, m.Clock.Round(10*time.Millisecond), (time.Since(begun) / time.Duration(seeds)).Round(time.Millisecond))
	}
	for _, s := range sizes {
		row(s.n, s.seeds)
		for _, kind := range linkstest.Kinds {
			row(s.n, s.seeds, kind)
		}
		if full {
			row(s.n, s.seeds, "slow sender", "lossy pair", "slow pair")
			row(s.n, s.seeds, "slow sender", "slow receiver", "lossy pair", "late pair", "slow group")
		}
	}
	if full {
		row(1000, 1, "slow sender", "slow receiver", "lossy pair", "late pair", "slow group")
	} else {
		row(32, 1, "slow sender", "lossy pair", "slow pair")
	}
	_ = out.Flush()
	t.Log("\n" + b.String())
}

func network(n int, seed uint64, kinds ...string) *Mesh {
	rng := rand.New(rand.NewPCG(seed, 0x3e5))
	return New(linkstest.New(n, seed, kinds...), seed, func() float64 { return 1 + 0.03*(2*rng.Float64()-1) })
}
