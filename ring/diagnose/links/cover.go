package links

import "slices"

// culprit is a sender, a receiver or a pair that accounts for pairs that are bad.
type culprit struct {
	place        Place
	rank         int // of a sender, receiver or node
	pairs        []Pair
	partners, of int
}

// coverShare is how much of a row or a column must be bad for its rank to be the culprit.
const coverShare = 0.6

// cover says in whose rows and columns the bad pairs of those that there are lie: the rank
// with the greatest share of bad ones among its pairs first, as long as that is most of them.
// What is left are pairs.
func cover(n int, bad, has []bool) (found []culprit) {
	at := [2]func(rank, other int) int{
		func(rank, other int) int { return rank*n + other }, // as sender
		func(rank, other int) int { return other*n + rank },
	}
	var counts, all [2][]int
	for way := range at {
		counts[way], all[way] = make([]int, n), make([]int, n)
		for rank := range n {
			for other := range n {
				if i := at[way](rank, other); has[i] {
					all[way][rank]++
					if bad[i] {
						counts[way][rank]++
					}
				}
			}
		}
	}
	open, taken := slices.Clone(has), [2][]bool{make([]bool, n), make([]bool, n)}
	for {
		best, bestWay, bestRank := coverShare, 0, -1
		most := 1 // of one bad pair nothing but that can be said
		for way := range at {
			for rank := range n {
				share := float64(counts[way][rank]) / max(1, float64(all[way][rank]))
				if c := counts[way][rank]; !taken[way][rank] && c > 1 && (share > best || share == best && c > most) {
					best, bestWay, bestRank, most = share, way, rank, c
				}
			}
		}
		if bestRank < 0 {
			break
		}
		c := culprit{place: [2]Place{Sender, Receiver}[bestWay], rank: bestRank}
		taken[bestWay][bestRank] = true
		for other := range n {
			i := at[bestWay](bestRank, other)
			if !has[i] {
				continue
			}
			c.of++
			if bad[i] {
				c.partners++
				c.pairs = append(c.pairs, Pair{i / n, i % n})
			}
			if open[i] {
				open[i] = false
				all[1-bestWay][other]--
				all[bestWay][bestRank]--
				if bad[i] {
					counts[1-bestWay][other]--
					counts[bestWay][bestRank]--
				}
			}
		}
		if twin := slices.IndexFunc(found, func(o culprit) bool { return o.rank == bestRank && o.place != OnePair }); twin >= 0 {
			t := &found[twin]
			t.place, t.partners, t.of, t.pairs = Node, t.partners+c.partners, t.of+c.of, append(t.pairs, c.pairs...)
			continue
		}
		found = append(found, c)
	}
	for i := range bad {
		if bad[i] && open[i] {
			found = append(found, culprit{OnePair, -1, []Pair{{i / n, i % n}}, 1, 1})
		}
	}
	return found
}

// named makes findings of culprits.
func named(kind Kind, list []culprit, ratio func(*culprit) float64) (found []Finding) {
	for i := range list {
		c := &list[i]
		f := Finding{Kind: kind, Place: c.place, Partners: c.partners, Of: c.of, Ratio: ratio(c)}
		switch c.place {
		case Sender:
			f.From = []int{c.rank}
		case Receiver:
			f.To = []int{c.rank}
		case Node:
			f.From, f.To = []int{c.rank}, []int{c.rank}
		default:
			f.From, f.To = []int{c.pairs[0].From}, []int{c.pairs[0].To}
		}
		found = append(found, f)
	}
	return joined(found)
}
