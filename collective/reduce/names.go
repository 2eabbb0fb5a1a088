package reduce

import (
	"fmt"
	"slices"
	"strings"
)

// Naming is how people call a value of an enumeration.
type Naming struct {
	Name    string
	Aliases []string
}

// Names are how people call the values of an enumeration, which count from 0.
type Names[E ~uint8] struct {
	What    string // a value is, in errors
	Unknown string // format of a value that is not declared
	Count   int
	Of      func(E) Naming
}

// All returns the values in their order.
func (n *Names[E]) All() []E {
	all := make([]E, n.Count)
	for i := range all {
		all[i] = E(i)
	}
	return all
}

// Text returns the name of a value, as Parse takes it.
func (n *Names[E]) Text(e E) string {
	if int(e) >= n.Count {
		return fmt.Sprintf(n.Unknown, uint8(e))
	}
	return n.Of(e).Name
}

// Parse returns the value that a name or an alias, in any case, stands for. The error
// for an unknown one says what it should be, and lists the known ones.
func (n *Names[E]) Parse(text string) (E, error) {
	want := strings.ToLower(strings.TrimSpace(text))
	var known []string
	for _, e := range n.All() {
		named := n.Of(e)
		if want == named.Name || slices.Contains(named.Aliases, want) {
			return e, nil
		}
		if len(named.Aliases) > 0 {
			named.Name += " (" + strings.Join(named.Aliases, ", ") + ")"
		}
		known = append(known, named.Name)
	}
	return 0, fmt.Errorf("unknown %s %q: expected one of %s", n.What, text, strings.Join(known, ", "))
}
