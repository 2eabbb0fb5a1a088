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

// cover says in which rows and columns the bad pairs of those that there are lie: the rank
// with the greatest share of bad ones among its pairs first, as long as that is most of them.
// The remaining bad pairs are culprits by themselves.
func cover(n int, bad, has []bool) (found []culprit) {
	open, taken := slices.Clone(has), make([]bool, 2*n)
	at := func(line, other int) int { // a row for each sender, then a column for each receiver
		if line < n {
			return line*n + other
		}
		return other*n + line - n
	}
	for {
		best, most, share := -1, 1, coverShare // of one bad pair nothing but that can be said
		for line := range 2 * n {
			bads, all := 0, 0
			for other := range n {
				if k := at(line, other); open[k] {
					all++
					if bad[k] {
						bads++
					}
				}
			}
			if own := float64(bads) / max(1, float64(all)); !taken[line] && bads > 1 && (own > share || own == share && bads > most) {
				best, most, share = line, bads, own
			}
		}
		if best < 0 {
			break
		}
		c := culprit{place: [2]Place{Sender, Receiver}[best/n], rank: best % n}
		taken[best] = true
		for other := range n {
			k := at(best, other)
			if has[k] {
				c.of++
			}
			if has[k] && bad[k] {
				c.partners, c.pairs = c.partners+1, append(c.pairs, Pair{k / n, k % n})
			}
			open[k] = false
		}
		if twin := slices.IndexFunc(found, func(o culprit) bool { return o.rank == c.rank }); twin >= 0 {
			t := &found[twin]
			t.place, t.partners, t.of, t.pairs = Node, t.partners+c.partners, t.of+c.of, append(t.pairs, c.pairs...)
			continue
		}
		found = append(found, c)
	}
	for k := range bad {
		if bad[k] && open[k] {
			found = append(found, culprit{OnePair, -1, []Pair{{k / n, k % n}}, 1, 1})
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
