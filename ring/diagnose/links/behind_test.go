package links_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"ringcli/ring/diagnose/links"
	"ringcli/ring/diagnose/links/linkstest"
)

// Of a slow port and a thin link on one way the slower one alone is seen: the group has all its
// ranks all the same, the port is named, and no pair is.
func TestSlowPortBehindThinLink(t *testing.T) {
	const n, thin = 64, 0.5
	for _, port := range []float64{0.3, 0.55, 0.7} {
		for _, place := range []links.Place{links.Sender, links.Receiver} {
			for _, back := range []bool{false, true} {
				for _, rank := range []int{3, 40} {
					rng := rand.New(rand.NewPCG(uint64(rank), 7))
					measure := func(pairs [][]links.Pair) *links.Figures {
						f := links.NewFigures(n)
						f.Group = slices.Concat(slices.Repeat([]string{"a"}, n/2), slices.Repeat([]string{"b"}, n/2))
						set := func(i, j int, busy bool) {
							v := 1.0
							if i < n/2 && j >= n/2 || back && j < n/2 && i >= n/2 {
								v = 1 // the link is wide for one pair
								if busy {
									v = thin * (0.8 + 0.4*rng.Float64())
								}
							}
							if place == links.Sender && i == rank || place == links.Receiver && j == rank {
								v = min(v, port)
							}
							f.Alone.Set(i, j, 10*v*(1+0.02*rng.Float64()))
							f.Latency.Set(i, j, 4)
						}
						for i := range n {
							for j := range n {
								if i != j && pairs == nil {
									set(i, j, true)
								}
							}
						}
						for _, batch := range pairs {
							for _, p := range batch {
								set(p.From, p.To, len(batch) > 1)
								set(p.To, p.From, len(batch) > 1)
							}
						}
						return f
					}
					group, node := false, false
					for _, f := range linkstest.Again(links.Judge(measure(nil), links.Options{}), n, measure).Findings {
						switch f.Place {
						case links.Group:
							low, high := f.From, f.To
							if slices.Contains(high, 0) {
								low, high = high, low
							}
							group = len(low) == n/2 && len(high) == n/2 && low[n/2-1] == n/2-1 && f.BothWays == back
						case place:
							node = slices.Equal(slices.Concat(f.From, f.To), []int{rank})
						default:
							t.Errorf("%s %d at %.2f, both ways %t: %+v", place, rank, port, back, f)
						}
					}
					if !group || !node {
						t.Errorf("%s %d at %.2f, both ways %t: group %t, port %t", place, rank, port, back, group, node)
					}
				}
			}
		}
	}
}

// Few suspected pairs are measured one at a time, many at once. A slow pair between two groups that
// are slow to each other is no suspect.
func TestPairsAreMeasuredAlone(t *testing.T) {
	const n = 64
	for _, many := range []bool{false, true} {
		f := links.NewFigures(n)
		f.Group = slices.Concat(slices.Repeat([]string{"a"}, n/2), slices.Repeat([]string{"b"}, n/2))
		slow := 0
		for i := range n {
			for j := range n {
				v := 10.0
				switch between := i < n/2 && j >= n/2; {
				case i == j:
					continue
				case between && (i+j)%8 == 0:
					v = 1
				case between:
					v = 5
				case i == 2 && j == 5, many && j == i+1:
					v, slow = 3, slow+1
				}
				f.Alone.Set(i, j, v)
			}
		}
		if many { // more than there is room for
			for i := range n / 4 {
				f.Alone.Set(i+2, i, 3)
				f.Alone.Set(i+n/2+2, i+n/2, 3)
				slow += 2
			}
		}
		v := links.Judge(f, links.Options{})
		groups, pairs := 0, 0
		for _, x := range v.Findings {
			switch x.Place {
			case links.Group:
				groups++
			case links.OnePair:
				pairs++
			}
		}
		singles := 0
		for _, b := range v.Retests(n) {
			if len(b) == 1 {
				singles++
			}
		}
		if groups != 1 || pairs != slow || (singles > 0) == many {
			t.Errorf("many: %t: %d groups, %d pairs, %d measured alone; expected 1 and %d pairs", many, groups, pairs, singles, slow)
		}
	}
}
