// Package calls tells what ranks call that must all call the same, and names ranks, and times,
// for people.
package calls

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Called is what some ranks call, where all must call the same; or that they do not.
type Called struct {
	Call  string `json:"call"` // in words; "" of ranks that call nothing, as far as is known
	Ranks []int  `json:"ranks"`
	// State is what is known of ranks without a call.
	State string `json:"state,omitempty"`
}

// Tabulate puts ranks together by what they call: those that differ from most come first,
// and those without a call last.
func Tabulate(byRank []Called) (table []Called) {
	for rank, c := range byRank {
		i := slices.IndexFunc(table, func(t Called) bool { return t.Call == c.Call && t.State == c.State })
		if i < 0 {
			i = len(table)
			table = append(table, Called{Call: c.Call, State: c.State})
		}
		table[i].Ranks = append(table[i].Ranks, rank)
	}
	slices.SortStableFunc(table, func(a, b Called) int {
		if (a.Call == "") != (b.Call == "") {
			return cmp.Compare(b.Call, a.Call) // "" last
		}
		return cmp.Compare(len(a.Ranks), len(b.Ranks))
	})
	return table
}

// Tell puts a table in words: "rank 2 calls a; ranks 0, 1 call b". verb is as in
// "call".
func Tell(verb string, table []Called) string {
	var parts []string
	for _, c := range table {
		ending := ""
		if len(c.Ranks) == 1 {
			ending = "s"
		}
		switch {
		case c.Call != "":
			parts = append(parts, fmt.Sprintf("%s %s%s %s", Ranks(c.Ranks), verb, ending, c.Call))
		default:
			parts = append(parts, fmt.Sprintf("%s: %s", Ranks(c.Ranks), c.State))
		}
	}
	return strings.Join(parts, "; ")
}

// Differ tells whether ranks of a table call different things.
func Differ(table []Called) bool { return len(table) > 1 && table[1].Call != "" }

// MostNamed bounds the ranks that a text names.
const MostNamed = 8

// Ranks is as in "ranks 1, 2".
func Ranks(ranks []int) string {
	ranks = slices.Compact(slices.Sorted(slices.Values(ranks))) // with two ranks both neighbours are one
	shown := ranks[:min(len(ranks), MostNamed)]
	text := strings.ReplaceAll(strings.Trim(fmt.Sprint(shown), "[]"), " ", ", ")
	switch more := len(ranks) - len(shown); {
	case len(ranks) == 1:
		return "rank " + text
	case more > 0:
		return fmt.Sprintf("ranks %s, %d more", text, more)
	}
	return "ranks " + text
}

// Ago rounds a time for people.
func Ago(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}
