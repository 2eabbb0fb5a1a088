package collective

import (
	"math"
	"slices"
	"testing"
)

// roots has the ranks take turns at being the root, by what they take turns in.
type roots map[any][]int // turns by rank

// What ranks take turns in: an operation by a way, the same in place or not, and an operation by
// the algorithm that is planned, whatever the way calls it.
type (
	byWay struct {
		op  Operation
		way CallOptions
	}
	byPlace struct {
		byWay
		inPlace bool
	}
	byAlgorithm struct {
		op        Operation
		algorithm Algorithm
	}
)

// next returns one of n ranks that has had the fewest turns in the first; of those, in the second;
// and so on.
func (r roots) next(n int, in ...any) int {
	left := make([]int, n)
	for i := range left {
		left[i] = (i + 1) % n // rank 0 is the root where nobody names one
	}
	for _, key := range in {
		if r[key] == nil {
			r[key] = make([]int, n)
		}
		fewest := math.MaxInt
		for _, rank := range left {
			fewest = min(fewest, r[key][rank])
		}
		left = slices.DeleteFunc(left, func(rank int) bool { return r[key][rank] > fewest })
	}
	for _, key := range in {
		r[key][left[0]]++
	}
	return left[0]
}

// nextRoot returns the root of a kit's next case. An empty vector, of which nothing is sent, is
// nobody's turn.
func (k *kit) nextRoot(call Call, inPlace bool) int {
	if call.Count == 0 {
		return k.root
	}
	planned, err := k.w.comms[0].Plan(call)
	if err != nil {
		k.w.tb.Fatal(err)
	}
	if k.roots == nil {
		k.roots = roots{}
	}
	way := byWay{call.Op, call.CallOptions}
	return k.roots.next(k.n, way, byPlace{way, inPlace}, byAlgorithm{call.Op, planned.Algorithm})
}

// metEveryRoot checks that each rank was the root of each operation that has one, by each
// algorithm that the ways ask for.
func (k *kit) metEveryRoot(t *testing.T, ways []CallOptions) {
	t.Helper()
	for key, turns := range k.roots {
		by, ok := key.(byAlgorithm)
		asked := slices.ContainsFunc(ways, func(o CallOptions) bool { return o.Algorithm == by.algorithm })
		if never := slices.Index(turns, 0); ok && asked && never >= 0 {
			t.Errorf("rank %d of %d was the root of no %s by %s: expected that each has its turn", never, k.n, by.op, by.algorithm)
		}
	}
}
