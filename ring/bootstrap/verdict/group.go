package verdict

import "slices"

// Group is which nodes of the list that all were given make a ring: all but some. Those
// that remain keep their order and are numbered anew.
type Group struct {
	Whole   string `json:"whole"`             // digest of the whole list
	Without []int  `json:"without,omitempty"` // entries of it, ascending
	// Decision counts what a leader has decided: who follows takes up the latest. Ranks
	// that nobody leads have 0.
	Decision uint64 `json:"decision,omitempty"`
}

// Supersedes tells whether a leader has decided on other nodes since.
func (g *Group) Supersedes(old *Group) bool {
	return g.Whole == old.Whole && g.Decision > old.Decision && !slices.Equal(g.Without, old.Without)
}
