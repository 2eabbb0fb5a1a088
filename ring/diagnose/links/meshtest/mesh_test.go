package meshtest

import (
	"math/rand/v2"
	"testing"

	"ringcli/ring/diagnose/links"
	"ringcli/ring/diagnose/links/linkstest"
	"ringcli/verbs/verbstest"
)

// TestMesh: each kind of fault alone, several at once and none, on simulated networks. It is of
// 32 ranks; RINGTEST_MATRIX=full takes 64, 232 and 1,000, see make growth, and LINKS_SEEDS others.
func TestMesh(t *testing.T) {
	seeds := map[int]int{32: 1}
	if verbstest.Full() {
		seeds = map[int]int{64: 100, 232: 20, 1000: 1}
	}
	linkstest.Table(t, linkstest.Seeds(t, seeds), func(n int, seed uint64, kinds []string) (*linkstest.World, *links.Verdict) {
		m := network(n, seed, kinds...)
		return m.World, m.Judge()
	})
}

func network(n int, seed uint64, kinds ...string) *Mesh {
	rng := rand.New(rand.NewPCG(seed, 0x3e5))
	return New(linkstest.New(n, seed, kinds...), seed, func() float64 { return 1 + 0.03*(2*rng.Float64()-1) })
}

// What is measured without events is what is measured by events, also where pairs share a trunk.
func TestTalk(t *testing.T) {
	kinds := []string{"slow sender", "slow receiver", "slow pair", "late pair", "slow group"}
	m, by := network(16, 1, kinds...), network(16, 1, kinds...)
	for round := range links.Rounds(16) {
		p := newPairs(by.net, 16)
		var list []*talk
		for a, b := range links.Circle(16, round) {
			if a < b {
				p.add(a, b, sample)
				list = append(list, newTalk(m.ports, a, b))
			}
		}
		p.run()
		converse(float64(round)*1e9, list...)
		for i, want := range p.list {
			x := list[i]
			if off(x.latency, want.latency) || off(x.alone[0], want.alone[0]) || off(x.alone[1], want.alone[1]) || x.sent != want.sent || x.packets != want.packets {
				t.Errorf("round %d: %+v, by events %+v", round, x.pair, want)
			}
		}
	}
}

func off(a, b float64) bool { return a > b*(1+1e-6) || b > a*(1+1e-6) }
