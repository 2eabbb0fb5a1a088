package reduce

import (
	"fmt"
	"slices"
	"strings"
)

// FindName returns the index of the row of a table that a name or an alias, in any
// case, stands for. The error for an unknown one says what it should be, and lists
// the known ones.
func FindName(what, text string, rows int, row func(i int) (name string, aliases []string)) (int, error) {
	want := strings.ToLower(strings.TrimSpace(text))
	known := make([]string, rows)
	for i := range known {
		name, aliases := row(i)
		if want == name || slices.Contains(aliases, want) {
			return i, nil
		}
		if known[i] = name; len(aliases) > 0 {
			known[i] += " (" + strings.Join(aliases, ", ") + ")"
		}
	}
	return 0, fmt.Errorf("unknown %s %q: expected one of %s", what, text, strings.Join(known, ", "))
}
