package script

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"ringcli/collective/topology"
)

// sorted is an expression with the lesser operand first: both ends of an exchange reduce, and
// all reductions commute.
func sorted(text string) string {
	if !strings.HasPrefix(text, "(") {
		return text
	}
	open, at := 0, 1
	for ; open > 0 || text[at] != ' '; at++ {
		switch text[at] {
		case '(':
			open++
		case ')':
			open--
		}
	}
	a, b := sorted(text[1:at]), sorted(text[at+1:len(text)-1])
	if b < a {
		a, b = b, a
	}
	return "(" + a + " " + b + ")"
}

// TestHalving plays all-reduce by halves, with vectors of fewer elements than there are
// ranks and of many segments, at any depth: no rank waits for ever or gets a message that it does
// not expect, and the order of operands is that of recursive doubling.
func TestHalving(t *testing.T) {
	for _, n := range []int{2, 3, 4, 5, 6, 7, 8, 11, 16} {
		alone := topology.Sized(n)
		played := func(by Algorithm, round, count, segment, depth, slots int, inPlace bool) []player {
			p := &players{t: t, rng: rand.New(rand.NewPCG(uint64(round), 7)), ranks: make([]player, n), wire: map[[2]int][]parcel{}, slots: slots,
				name: fmt.Sprintf("%d ranks, %d elements by %d, depth %d, %d slots, in place %v", n, count, segment, depth, slots, inPlace)}
			for rank := range p.ranks {
				p.ranks[rank].begin(by, Operations.AllReduce, "all-reduce", alone, rank, 0, count, segment, depth, inPlace)
			}
			p.play()
			for rank := range p.ranks {
				if r := &p.ranks[rank]; !r.Made() {
					t.Fatalf("%s: rank %d waits for ever in group %d, %+v", p.name, rank, r.First, r.Group(r.First))
				}
			}
			for edge, left := range p.wire {
				if len(left) > 0 {
					t.Fatalf("%s: %d messages from rank %d to %d were not received", p.name, len(left), edge[0], edge[1])
				}
			}
			return p.ranks
		}
		want := sorted(played(Doubling, 0, 1, 1, 1, 1, false)[0].output[0])
		for round, shape := range []struct{ count, segment, depth, slots int }{
			{n - 1, 4, 4, 8}, {n*3 + 1, 1000, 2, 1}, {n*29 + 3, 2, 1, 1}, {n*29 + 3, 2, 3, 2}, {n*29 + 3, 3, 4, 8}, {n*29 + 3, 3, 16, 1},
		} {
			for _, inPlace := range []bool{false, true} {
				ranks := played(Halving, round, shape.count, shape.segment, shape.depth, shape.slots, inPlace)
				for rank := range ranks {
					for i, got := range ranks[rank].output {
						if sorted(got) != want {
							t.Fatalf("%d ranks, %+v, in place %v: rank %d has %s as element %d, want %s", n, shape, inPlace, rank, got, i, want)
						}
					}
				}
			}
		}
	}
}
