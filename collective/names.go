package collective

import (
	"fmt"
	"strings"

	"ringcli/collective/reduce"
)

// naming is how people call a row of a table.
type naming struct {
	name    string
	aliases []string
}

// parseName returns the index of the row of that name or alias, in any case. The
// empty name is row 0. The error for an unknown name lists the known ones.
func parseName(what, text string, rows []naming) (int, error) {
	if strings.TrimSpace(text) == "" {
		return 0, nil
	}
	return reduce.FindName(what, text, len(rows), func(i int) (string, []string) { return rows[i].name, rows[i].aliases })
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
