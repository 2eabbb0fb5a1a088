package collective

import (
	"fmt"
	"strings"

	"ringcli/collective/reduce/reference"
)

// Algorithm is which ranks exchange what, and in which order operands meet.
type Algorithm uint8

// The algorithms. The values travel in headers between ranks: a new algorithm
// goes to the end.
const (
	AlgorithmAuto              Algorithm = iota // chosen by Table
	AlgorithmRing                               // 2(n-1) hops between neighbours; see program
	AlgorithmRecursiveDoubling                  // log n exchanges with ranks at doubling distances
	AlgorithmTree                               // up an in-order binary tree, and down it
	AlgorithmInbox                              // one hop from every rank to every other, reduced by rank
)

// MaxInboxRanks is the largest ring that runs the inbox: beyond it, n-1 messages
// per rank weigh more than the hops that they save.
const MaxInboxRanks = 8

var algorithmNames = [...]struct {
	name    string
	aliases []string
}{
	AlgorithmAuto:              {"auto", nil},
	AlgorithmRing:              {"ring", nil},
	AlgorithmRecursiveDoubling: {"recursive-doubling", []string{"rd", "doubling"}},
	AlgorithmTree:              {"tree", nil},
	AlgorithmInbox:             {"inbox", nil},
}

// Algorithms returns the algorithms that can be asked for, AlgorithmAuto first.
func Algorithms() []Algorithm {
	return []Algorithm{AlgorithmAuto, AlgorithmRing, AlgorithmRecursiveDoubling, AlgorithmTree, AlgorithmInbox}
}

// Valid reports whether a is one of the declared algorithms.
func (a Algorithm) Valid() bool { return int(a) < len(algorithmNames) }

// String returns the algorithm's name, as ParseAlgorithm takes it.
func (a Algorithm) String() string {
	if !a.Valid() {
		return fmt.Sprintf("algorithm %d", uint8(a))
	}
	return algorithmNames[a].name
}

// ParseAlgorithm returns the algorithm of that name or alias, in any case. The
// empty name is AlgorithmAuto. The error for an unknown name lists the known ones.
func ParseAlgorithm(name string) (Algorithm, error) {
	want := strings.ToLower(strings.TrimSpace(name))
	if want == "" {
		return AlgorithmAuto, nil
	}
	var known []string
	for i, a := range algorithmNames {
		if want == a.name {
			return Algorithm(i), nil
		}
		for _, alias := range a.aliases {
			if want == alias {
				return Algorithm(i), nil
			}
		}
		text := a.name
		if len(a.aliases) > 0 {
			text += " (" + strings.Join(a.aliases, ", ") + ")"
		}
		known = append(known, text)
	}
	return 0, fmt.Errorf("unknown algorithm %q: expected one of %s", name, strings.Join(known, ", "))
}

// Order returns the order of operands that the algorithm documents, for who checks
// results. It is defined for all but AlgorithmAuto.
func (a Algorithm) Order() reference.Order {
	switch a {
	case AlgorithmRecursiveDoubling:
		return reference.DoublingOrder
	case AlgorithmTree:
		return reference.TreeOrder
	case AlgorithmInbox:
		return reference.RankOrder
	}
	return reference.RingOrder
}

// MarshalText writes the algorithm's name.
func (a Algorithm) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText is ParseAlgorithm.
func (a *Algorithm) UnmarshalText(text []byte) (err error) {
	*a, err = ParseAlgorithm(string(text))
	return err
}
