package links

import "math/rand/v2"

// Rounds is how many rounds of Circle n ranks take.
func Rounds(n int) int {
	if n < 2 {
		return 0
	}
	return n - 1 + n%2
}

// Circle returns whom each rank meets in a round of a round-robin tournament, -1 for the one
// that rests where the ranks are odd. In Rounds(n) rounds each meets each other once.
//
// It is the circle method: one rank stays, the others move on by one place a round, and who
// face each other meet. An odd number of ranks has one that is not there.
func Circle(n, round int) []int {
	even := n + n%2
	meets := make([]int, n)
	turn := even - 1
	if turn < 1 {
		return []int{-1}[:n]
	}
	for rank := range n {
		other := ((round-rank)%turn + turn) % turn // those whose sum is the round meet
		switch {
		case rank == turn:
			// The one that stays meets the one that would meet itself.
			other = half(round%turn, turn)
		case other == rank:
			other = turn
		}
		if other >= n {
			other = -1
		}
		meets[rank] = other
	}
	return meets
}

// Shuffled is Circle with the ranks in an order of their own in each pass, the same wherever it is
// asked for; pass 0 is Circle itself.
func Shuffled(n, round, pass int) []int {
	if pass == 0 {
		return Circle(n, round)
	}
	order := rand.New(rand.NewPCG(uint64(n), uint64(pass))).Perm(n)
	meets := make([]int, n)
	for place, other := range Circle(n, round) {
		if other >= 0 {
			other = order[other]
		}
		meets[order[place]] = other
	}
	return meets
}

// half is the rank whose double is the round, modulo an odd number.
func half(round, odd int) int {
	if round%2 == 1 {
		round += odd
	}
	return round / 2
}

// Shift returns to whom each rank sends in a shift by k, and from whom it receives: all at
// once, which loads the core of a network as no pair does.
func Shift(n, rank, k int) (to, from int) { return (rank + k) % n, ((rank-k)%n + n) % n }

const (
	// fewRounds is up to how many rounds the pairs are measured in several passes, at most
	// mostPasses: of a few ranks a few figures would have to tell what is noise.
	fewRounds  = 24
	mostPasses = 5
)

// Passes is how often pairs are measured in so many rounds each time; the best counts.
func Passes(rounds int) int { return min(max(fewRounds/rounds, 1), mostPasses) }

// Disjoint puts pairs into rounds in which no rank is in two, as Circle's: whom each rank
// meets, -1 if nobody.
func Disjoint(n int, pairs []Pair) (rounds [][]int) {
	first := make([]int, n) // the first round in which a rank may be free
	for _, p := range pairs {
		at := max(first[p.From], first[p.To])
		for ; ; at++ {
			if at == len(rounds) {
				idle := make([]int, n)
				for i := range idle {
					idle[i] = -1
				}
				rounds = append(rounds, idle)
			}
			if rounds[at][p.From] < 0 && rounds[at][p.To] < 0 {
				break
			}
		}
		rounds[at][p.From], rounds[at][p.To] = p.To, p.From
		for _, rank := range []int{p.From, p.To} {
			for first[rank] < len(rounds) && rounds[first[rank]][rank] >= 0 {
				first[rank]++
			}
		}
	}
	return rounds
}
