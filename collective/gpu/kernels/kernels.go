package kernels

import (
	_ "embed"
	"slices"

	"ringcli/collective/reduce"
)

// Block is how many threads a block has: four warps for each scheduler of a multiprocessor,
// or four of AMD's waves.
const Block = 256

// line is what a thread reads at once, in bytes.
const line = 16

// mostBlocks fill every GPU that there is, with some blocks for each of its multiprocessors;
// threads go round from there.
const mostBlocks = 2048

// HIP is the source of all kernels, for hiprtc. It is C as well, but for what HIP has beside
// that, so that a C compiler makes the same of it for the host.
//
//go:embed kernels.hip
var HIP string

// Name is that of the kernel of an operation over elements of a type; ok tells whether there
// is one. Of Avg it is that of the last step.
func Name(op reduce.Op, t reduce.Type) (name string, ok bool) {
	return "ringcli_" + op.String() + "_" + t.String(), op.Valid() && slices.Contains(types, t)
}

// Grid is how many blocks a vector of n bytes takes.
func Grid(n uint64) int {
	return int(min(max((n+Block*line-1)/(Block*line), 1), mostBlocks))
}

// Args are a kernel's arguments, in their order: the addresses of the vectors, their number of
// elements, and that of the ranks, by which avg divides.
type Args struct{ Dst, A, B, Count, Ranks uint64 }

// Words are the arguments as a launch takes them.
func (a Args) Words() []uint64 { return []uint64{a.Dst, a.A, a.B, a.Count, a.Ranks} }
