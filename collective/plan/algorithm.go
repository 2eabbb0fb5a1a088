package plan

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"ringcli/collective/reduce"
	"ringcli/collective/reduce/reference"
	"ringcli/collective/script"
	"ringcli/collective/sharedmem"
	"ringcli/collective/topology"
)

// Algorithm is which ranks exchange what, and in which order operands meet.
type Algorithm uint8

// The algorithms. The values travel in headers between ranks: a new algorithm
// goes to the end.
const (
	AlgorithmAuto              Algorithm = iota // chosen by Table
	AlgorithmRing                               // 2(n-1) hops between neighbours; see package program
	AlgorithmRecursiveDoubling                  // log n exchanges with ranks at distance p/2 ... 2, 1
	AlgorithmTree                               // up an in-order binary tree, and down it
	AlgorithmInbox                              // one hop from every rank to every other, reduced by rank
	AlgorithmHierarchical                       // within hosts, and between the ranks of one place on each
)

// MaxInboxRanks is the largest ring that runs the inbox by messages: beyond it, n-1 of them
// per rank weigh more than the hops that they save. Ranks that share memory look at a line
// of each other one, which weighs little among all that a host has.
const MaxInboxRanks = 8

// algorithm is the description of an Algorithm.
type algorithm struct {
	reduce.Naming
	order  reference.Order  // of operands
	script script.Algorithm // nil round the ring
	// protocols are those that its messages can travel by, beside Auto and Eager.
	// Rendezvous is not for algorithms whose messages take less time than the round
	// trip of RTS and CTS; where all ranks read each other's memory, there is no need
	// of partial results that travel.
	protocols []Protocol
	maxRanks  int // of the largest ring that it runs on by messages; 0 is any
}

var algorithms = [...]algorithm{
	AlgorithmAuto:              {Naming: reduce.Naming{Name: "auto"}},
	AlgorithmRing:              {Naming: reduce.Naming{Name: "ring"}, order: reference.RingOrder, protocols: []Protocol{RendezvousWrite, RendezvousRead, Direct, ReceiverInitiated}},
	AlgorithmRecursiveDoubling: {Naming: reduce.Naming{Name: "recursive-doubling", Aliases: []string{"rd", "doubling"}}, order: reference.DoublingOrder, script: script.Doubling},
	AlgorithmTree:              {Naming: reduce.Naming{Name: "tree"}, order: reference.TreeOrder, script: script.Tree},
	AlgorithmInbox:             {Naming: reduce.Naming{Name: "inbox"}, order: reference.RankOrder, script: script.OneShot, protocols: []Protocol{Direct}, maxRanks: MaxInboxRanks},
	AlgorithmHierarchical:      {Naming: reduce.Naming{Name: "hierarchical", Aliases: []string{"hier"}}, order: reference.HostsOrder, script: script.Hierarchical},
}

var algorithmNames = reduce.Names[Algorithm]{
	What: "algorithm", Unknown: "algorithm %d", Count: len(algorithms), Of: func(a Algorithm) reduce.Naming { return algorithms[a].Naming },
}

// Algorithms returns the algorithms that can be asked for, AlgorithmAuto first.
func Algorithms() []Algorithm { return algorithmNames.All() }

// Valid reports whether a is one of the declared algorithms.
func (a Algorithm) Valid() bool { return int(a) < len(algorithms) }

// String returns the algorithm's name, as ParseAlgorithm takes it.
func (a Algorithm) String() string { return algorithmNames.Text(a) }

// ParseAlgorithm returns the algorithm of that name or alias, in any case. The
// empty name is AlgorithmAuto. The error for an unknown name lists the known ones.
func ParseAlgorithm(name string) (Algorithm, error) {
	return algorithmNames.Parse(cmp.Or(strings.TrimSpace(name), AlgorithmAuto.String()))
}

// Checker makes the inputs of a call that is planned, and checks its results in the order of
// operands that its algorithm documents. hosts may be nil, but for AlgorithmHierarchical.
func (c *Call) Checker(ranks int, hosts *topology.Hosts, seed uint64) *reference.Checker {
	k := reference.NewChecker(algorithms[c.Algorithm].order, c.Type, c.Reduction, ranks, c.Count, seed)
	if c.Op.Rooted() {
		k.Rooted(c.Root)
	}
	if c.Algorithm == AlgorithmHierarchical {
		k.Along(hosts, !c.Op.wholly())
	}
	return k
}

// MaxRanks is the largest ring that an algorithm runs on by a protocol, of which Auto is Direct
// where ranks share memory and the algorithm can.
func (a Algorithm) MaxRanks(p Protocol, shared bool) int {
	most := cmp.Or(algorithms[a].maxRanks, math.MaxInt)
	if shared && (p == Auto || p == Direct) && slices.Contains(algorithms[a].protocols, Direct) {
		most = max(most, sharedmem.MaxRanks)
	}
	return most
}

// MarshalText writes the algorithm's name.
func (a Algorithm) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText is ParseAlgorithm.
func (a *Algorithm) UnmarshalText(text []byte) (err error) {
	*a, err = ParseAlgorithm(string(text))
	return err
}
