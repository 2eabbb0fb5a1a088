package reduce

// The conversions, for the tests against package reference, which imports this
// package.
var (
	Widen16   = widen16
	Narrow16  = narrow16
	WidenB16  = widenB16
	NarrowB16 = narrowB16
)

// Set is one implementation of all kernels.
type Set struct {
	Name    string
	kernels *kernels
}

// Kernel is Lookup in that set.
func (s Set) Kernel(t Type, op Op) Kernel { return s.kernels[t][op] }

// Sets returns the kernels in plain Go and, where the processor has others,
// these.
func Sets() []Set {
	sets := []Set{{"plain", &plain}}
	if table != &plain {
		sets = append(sets, Set{"vector", table})
	}
	return sets
}
