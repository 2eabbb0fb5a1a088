package diagnose

import (
	"cmp"
	"slices"
)

// Merged is what two have found of one rank.
func Merged(a, b Place) Place {
	weight := map[Presence]int{Answers: 5, Gone: 4, Stopped: 3, Slow: 2, Silent: 1}
	if weight[b.Presence] > weight[a.Presence] {
		a, b = b, a
	}
	for _, w := range b.Witnesses {
		if a.Presence != Answers && !slices.Contains(a.Witnesses, w) {
			a.Witnesses = append(slices.Clone(a.Witnesses), w)
		}
	}
	a.Evidence = cmp.Or(a.Evidence, b.Evidence)
	return a
}
