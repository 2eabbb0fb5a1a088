package plan

import (
	"fmt"
	"slices"

	"ringcli/collective/program"
	"ringcli/collective/reduce"
	"ringcli/collective/script"
	"ringcli/collective/sharedmem"
)

// Operation is what a collective does.
type Operation uint8

// The operations. The values travel in headers between ranks: a new operation
// goes to the end. All else about them is in the table of operations.
const (
	OpAllReduce Operation = iota
	OpReduceScatter
	OpAllGather
	OpBarrier
	OpBroadcast
	OpReduce
)

// operation is the description of an Operation.
type operation struct {
	reduce.Naming
	summary string // for help, a line
	about   string // for help, a sentence or two

	reduces bool // contributions are reduced
	gathers bool // every rank gets what all ranks have, or have reduced
	rooted  bool // one rank is its root, whose chunk is the whole vector
	// What of the vector a rank's send buffer and its receive buffer hold.
	send, recv extent
	// busFactor is nccl-tests' ratio of busbw to algbw on n ranks
	// (doc/PERFORMANCE.md): what each link of a ring carries.
	busFactor func(n float64) float64

	program func(*program.Program) // round the ring
	script  func(script.Operations)
}

var operations = [...]operation{
	OpAllReduce: {
		Naming:  reduce.Naming{Name: "all-reduce", Aliases: []string{"allreduce", "ar"}},
		summary: "Reduce all ranks' vectors; every rank gets the result",
		about: `Reduces the vectors of all ranks element by element; every rank gets the whole
result.`,
		reduces: true, gathers: true, send: wholeVector, recv: wholeVector,
		busFactor: func(n float64) float64 { return 2 * (n - 1) / n },
		program:   (*program.Program).AllReduce,
		script:    script.Operations.AllReduce,
	},
	OpReduceScatter: {
		Naming:  reduce.Naming{Name: "reduce-scatter", Aliases: []string{"reducescatter", "rs"}},
		summary: "Reduce all ranks' vectors; each rank gets its chunk",
		about: `Reduces the vectors of all ranks element by element; rank r of n gets elements
r*count/n to (r+1)*count/n of the result.`,
		reduces: true, send: wholeVector, recv: ownChunk,
		busFactor: func(n float64) float64 { return (n - 1) / n },
		program:   (*program.Program).ReduceScatter,
		script:    script.Operations.ReduceScatter,
	},
	OpAllGather: {
		Naming:  reduce.Naming{Name: "all-gather", Aliases: []string{"allgather", "ag"}},
		summary: "Collect every rank's chunk; every rank gets the whole vector",
		about: `Every rank r of n contributes elements r*count/n to (r+1)*count/n and gets the
whole vector.`,
		gathers: true, send: ownChunk, recv: wholeVector,
		busFactor: func(n float64) float64 { return (n - 1) / n },
		program:   (*program.Program).AllGather,
		script:    script.Operations.AllGather,
	},
	OpBroadcast: {
		Naming:  reduce.Naming{Name: "broadcast", Aliases: []string{"bcast", "bc"}},
		summary: "Give every rank the vector of one",
		about:   `Every rank gets the vector of the rank that is --root.`,
		gathers: true, rooted: true, send: ofRoot, recv: wholeVector,
		busFactor: func(float64) float64 { return 1 },
		program:   (*program.Program).Broadcast,
		script:    script.Operations.Broadcast,
	},
	OpReduce: {
		Naming:  reduce.Naming{Name: "reduce", Aliases: []string{"red"}},
		summary: "Reduce all ranks' vectors; one rank gets the result",
		about: `Reduces the vectors of all ranks element by element; the rank that is --root
gets the whole result.`,
		reduces: true, rooted: true, send: wholeVector, recv: ofRoot,
		busFactor: func(float64) float64 { return 1 },
		program:   (*program.Program).Reduce,
		script:    script.Operations.Reduce,
	},
	// A barrier is an all-gather of nothing: the last message comes when every rank has
	// sent its own. It needs only its n-1 hops round the ring.
	OpBarrier: {
		Naming:  reduce.Naming{Name: "barrier", Aliases: []string{"bar"}},
		summary: "Wait for all ranks; nobody goes on before the last has come",
		about:   `Returns on no rank before every rank has called it. No data are moved.`,
		program: (*program.Program).AllGather,
		script:  script.Operations.Barrier,
	},
}

// extent is how much of the vector a buffer holds.
type extent uint8

const (
	noElements extent = iota
	wholeVector
	ownChunk
	ofRoot // the whole vector at the root, no elements elsewhere
)

// Range is the elements [Lo, Hi) of a vector.
type Range struct{ Lo, Hi int }

// Len is the number of elements.
func (r Range) Len() int { return r.Hi - r.Lo }

func (e extent) of(c *Call, ranks, rank int) Range {
	switch {
	case e == wholeVector || e == ofRoot && rank == c.Root:
		return Range{0, c.Count}
	case e == ownChunk:
		lo, hi := reduce.Chunk(c.Count, ranks, rank)
		return Range{lo, hi}
	}
	return Range{}
}

var operationNames = reduce.Names[Operation]{
	What: "operation", Unknown: "operation %d", Count: len(operations), Of: func(o Operation) reduce.Naming { return operations[o].Naming },
}

// Operations returns the operations on vectors: all but the barrier.
func Operations() []Operation {
	return slices.DeleteFunc(operationNames.All(), func(o Operation) bool { return !o.OnVectors() })
}

// AllOperations are those, and then the barrier.
func AllOperations() []Operation { return append(Operations(), OpBarrier) }

// Valid reports whether o is one of the declared operations.
func (o Operation) Valid() bool { return int(o) < len(operations) }

// String returns the operation's name as the command line writes it.
func (o Operation) String() string { return operationNames.Text(o) }

// Aliases returns other names of the operation.
func (o Operation) Aliases() []string { return operations[o].Aliases }

// Help returns what the operation does: in a line, and in whole sentences.
func (o Operation) Help() (summary, about string) { return operations[o].summary, operations[o].about }

// Rooted reports whether one rank is the operation's root.
func (o Operation) Rooted() bool { return operations[o].rooted }

// Reduces reports whether the operation has a reduction.
func (o Operation) Reduces() bool { return operations[o].reduces }

// Phases returns how many of the two phases the operation has: the reduction that
// leaves each rank a chunk, and the gathering of the chunks.
func (o Operation) Phases() (n int) {
	for _, has := range [...]bool{operations[o].reduces, operations[o].gathers} {
		if has {
			n++
		}
	}
	return n
}

// Phase is the operation that a phase of this one is.
func (o Operation) Phase(gathers bool) Operation {
	switch {
	case o.Phases() < 2:
		return o
	case gathers:
		return OpAllGather
	}
	return OpReduceScatter
}

// Buffers returns which elements of the vector the send buffer and the receive
// buffer of a rank hold. In place they are one buffer for both.
func (c *Call) Buffers(ranks, rank int) (send, recv Range) {
	return operations[c.Op].send.of(c, ranks, rank), operations[c.Op].recv.of(c, ranks, rank)
}

// InPlaceRule says where the buffer that holds less than the other is to be.
func (c *Call) InPlaceRule(sendOffset, recvOffset uint64) string {
	switch d := operations[c.Op]; {
	case d.send == d.recv:
		return "equal ones for in place"
	case d.recv == wholeVector:
		return fmt.Sprintf("the send buffer at %#x for in place", c.Recv+sendOffset)
	}
	return fmt.Sprintf("the receive buffer at %#x for in place", c.Send+recvOffset)
}

// BusFactor is nccl-tests' ratio of busbw to algbw on n ranks; 0 of a barrier.
func (o Operation) BusFactor(n int) float64 {
	if !o.OnVectors() {
		return 0
	}
	return operations[o].busFactor(float64(n))
}

// ParseOperation returns the operation of that name or alias, in any case. The error for
// an unknown name lists the known ones.
func ParseOperation(name string) (Operation, error) { return operationNames.Parse(name) }

// MarshalText writes the operation's name.
func (o Operation) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText is ParseOperation.
func (o *Operation) UnmarshalText(text []byte) (err error) {
	*o, err = ParseOperation(string(text))
	return err
}

// OnVectors reports whether the operation has buffers: all but the barrier have.
func (o Operation) OnVectors() bool { return o.Valid() && operations[o].send != noElements }

// Apart tells whether the operation's edges are made for it alone: of roots there may be
// many, and a barrier's peers by recursive doubling are others.
func (o Operation) Apart() bool { return o.Rooted() || !o.OnVectors() }

// wholly tells whether every transfer is of the whole vector, which then need not be
// cut by chunks.
func (o Operation) wholly() bool {
	return operations[o].send != ownChunk && operations[o].recv != ownChunk
}

// Program returns what writes the operation's program round the ring.
func (o Operation) Program() func(*program.Program) { return operations[o].program }

// SharedPhases are what the ranks of one host do for the operation.
func (o Operation) SharedPhases() (p sharedmem.Phases) {
	if operations[o].reduces {
		p |= sharedmem.Reduce
	}
	if operations[o].gathers {
		p |= sharedmem.Gather
	}
	return p
}
