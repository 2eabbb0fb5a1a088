package plan

import (
	"slices"
	"testing"
)

// TestWithin: what nothing on the way explains went wrong within the rank where it is wrong
// first, as its way through the ring goes.
func TestWithin(t *testing.T) {
	for _, test := range []struct {
		op        Operation
		algorithm Algorithm
		protocol  Protocol
		element   int
		wrong     []int
		want      int
	}{
		{OpAllReduce, AlgorithmRing, Eager, 5, []int{2}, 2},
		{OpAllReduce, AlgorithmRing, Eager, 5, []int{2, 3}, 2},
		{OpAllReduce, AlgorithmRing, Eager, 5, []int{3}, 3},
		{OpAllReduce, AlgorithmRing, Eager, 5, []int{0, 1, 2, 3}, -1}, // while it was reduced
		{OpAllReduce, AlgorithmRing, Direct, 5, []int{0, 1, 2, 3}, 0},
		{OpAllReduce, AlgorithmRing, Direct, 39, []int{3}, 3},
		{OpAllGather, AlgorithmRing, Eager, 15, []int{2, 3, 0}, 2},
		{OpAllGather, AlgorithmRing, Eager, 15, []int{0, 1, 2, 3}, 1},
		{OpReduceScatter, AlgorithmRing, Eager, 25, []int{2}, -1},
		{OpAllReduce, AlgorithmInbox, Direct, 5, []int{1}, 1},
		{OpAllReduce, AlgorithmTree, Eager, 5, []int{1, 2}, -1},
	} {
		c := Call{Op: test.op, Count: 40, CallOptions: CallOptions{Algorithm: test.algorithm, Protocol: test.protocol}}
		if got := c.Within(4, test.element, func(rank int) bool { return slices.Contains(test.wrong, rank) }); got != test.want {
			t.Errorf("%+v: got %d", test, got)
		}
	}
}
