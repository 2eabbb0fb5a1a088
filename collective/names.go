package collective

import (
	"fmt"
	"slices"
	"strings"
)

// naming is how people call a row of a table.
type naming struct {
	name    string
	aliases []string
}

// parseName returns the index of the row of that name or alias, in any case. The
// empty name is row 0. The error for an unknown name lists the known ones.
func parseName(what, text string, rows []naming) (int, error) {
	want := strings.ToLower(strings.TrimSpace(text))
	if want == "" {
		return 0, nil
	}
	var known []string
	for i, row := range rows {
		if want == row.name || slices.Contains(row.aliases, want) {
			return i, nil
		}
		name := row.name
		if len(row.aliases) > 0 {
			name += " (" + strings.Join(row.aliases, ", ") + ")"
		}
		known = append(known, name)
	}
	return 0, fmt.Errorf("unknown %s %q: expected one of %s", what, text, strings.Join(known, ", "))
}

// eitherOf is "a, b or c".
func eitherOf[T fmt.Stringer](list []T) string {
	var b strings.Builder
	for i, v := range list {
		switch {
		case i == 0:
		case i == len(list)-1:
			b.WriteString(" or ")
		default:
			b.WriteString(", ")
		}
		b.WriteString(v.String())
	}
	return b.String()
}
