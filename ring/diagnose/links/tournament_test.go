package links

import "testing"

// Each pair meets once in a cycle, and nobody is in two pairs of a round.
func TestCircle(t *testing.T) {
	for n := 2; n <= 300; n++ {
		met := make([]int, n*n)
		for round := range Rounds(n) {
			rests := 0
			meets := Shuffled(n, round, n%3)
			for rank, other := range meets {
				switch {
				case other < 0:
					rests++
				case other == rank || meets[other] != rank:
					t.Fatalf("%d ranks, round %d: rank %d meets %d, which does not meet it", n, round, rank, other)
				default:
					met[rank*n+other]++
				}
			}
			if rests != n%2 {
				t.Fatalf("%d ranks, round %d: %d rest, want %d", n, round, rests, n%2)
			}
		}
		for i, times := range met {
			if want := map[bool]int{true: 0, false: 1}[i/n == i%n]; times != want {
				t.Fatalf("%d ranks: %d meets %d %d times, want %d", n, i/n, i%n, times, want)
			}
		}
	}
}

func TestShift(t *testing.T) {
	for n := 2; n <= 300; n++ {
		for _, k := range []int{1, n / 2, n - 1} {
			for rank := range n {
				to, _ := Shift(n, rank, k)
				if _, back := Shift(n, to, k); back != rank {
					t.Fatalf("%d ranks, shift %d: %d sends to %d, which receives from %d", n, k, rank, to, back)
				}
			}
		}
	}
}

func TestDisjoint(t *testing.T) {
	var pairs []Pair
	for i := range 20 {
		for j := range i {
			if (i*j)%3 != 1 {
				pairs = append(pairs, Pair{i, j})
			}
		}
	}
	met := map[Pair]int{}
	rounds := Disjoint(20, pairs)
	for _, r := range rounds {
		for rank, other := range r {
			if other >= 0 {
				if r[other] != rank {
					t.Fatalf("%d meets %d, which meets %d", rank, other, r[other])
				}
				met[Pair{rank, other}]++
			}
		}
	}
	for _, p := range pairs {
		if met[p] != 1 || met[p.Reverse()] != 1 {
			t.Errorf("%v meets %d times", p, met[p])
		}
	}
	if len(met) != 2*len(pairs) || len(rounds) > 40 {
		t.Errorf("%d meetings in %d rounds of %d pairs", len(met), len(rounds), len(pairs))
	}
}
