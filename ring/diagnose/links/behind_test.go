package links_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"ringcli/ring/diagnose/links"
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
					v := links.Judge(measure(nil), links.Options{})
					for range links.Confirmations(n) {
						v = v.Confirm(measure(v.Retests(n)))
					}
					group, node := false, false
					for _, f := range v.Final().Findings {
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

// Few suspected pairs are measured one at a time. Many between two groups are measured at once, and
// those that hold one at a time then, first those that lose packets.
func TestPairsAreMeasuredAlone(t *testing.T) {
	f := links.NewFigures(64)
	for i := range 64 {
		for j := range 64 {
			if i == j {
				continue
			}
			v := 10.0
			if i < 32 && j >= 32 {
				v = 5
				if (i+j)%8 == 0 { // more than there is room for
					v = 1
				}
			}
			f.Alone.Set(i, j, v)
			f.Lost.Set(i, j, 0)
			f.Packets.Set(i, j, 1e5)
		}
	}
	f.Alone.Set(2, 5, 3)
	f.Lost.Set(1, 60, 1000)
	v := links.Judge(f, links.Options{})
	has := func(batches [][]links.Pair, p links.Pair) (alone bool, singles int) {
		for _, b := range batches {
			if len(b) == 1 {
				singles++
				alone = alone || b[0] == p
			}
		}
		return alone, singles
	}
	within, between := links.Pair{From: 2, To: 5}, links.Pair{From: 1, To: 60}
	first := v.Retests(64)
	if alone, singles := has(first, within); !alone || singles != 1 { // those between are too many, and there is another time
		t.Errorf("%d of %d batches are of one pair: %v", singles, len(first), first)
	}
	then := v.Confirm(f).Retests(64)
	if alone, singles := has(then, between); !alone || singles < 64 || singles > 80 {
		t.Errorf("%d of %d batches are of one pair then: %v", singles, len(then), then)
	}
}
