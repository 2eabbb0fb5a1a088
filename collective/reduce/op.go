package reduce

// Op is a reduction operation.
type Op uint8

// The reduction operations. The values travel in operation digests between
// ranks: a new operation goes to the end.
const (
	Sum Op = iota
	Prod
	Min
	Max
	Avg // Sum at every step, then one division by the number of ranks

	numOps = int(Avg) + 1
)

// ops has the name and the accepted aliases of each operation: "mult" is what
// the first C programs call it, the others are those of NumPy and PyTorch.
var ops = [numOps]Naming{
	Sum:  {"sum", []string{"add"}},
	Prod: {"prod", []string{"mult", "mul", "product"}},
	Min:  {"min", []string{"minimum"}},
	Max:  {"max", []string{"maximum"}},
	Avg:  {"avg", []string{"average", "mean"}},
}

var opNames = Names[Op]{"reduction", "op(%d)", numOps, func(op Op) Naming { return ops[op] }}

// Ops returns all operations in the order of their values.
func Ops() []Op { return opNames.All() }

// Valid reports whether op is one of the declared operations.
func (op Op) Valid() bool { return int(op) < numOps }

// String returns the operation's name, as [ParseOp] takes it.
func (op Op) String() string { return opNames.Text(op) }

// ParseOp returns the operation of that name or alias, in any case. The error
// for an unknown name lists the known ones.
func ParseOp(name string) (Op, error) { return opNames.Parse(name) }
