package disagreement

import (
	"context"
	"reflect"
	"testing"

	"ringcli/ring/bootstrap/calls"
	"ringcli/ring/edges"
)

// TestMerged: that a rank makes a call counts more than that it did not; what is told
// of ranks that are not there is nothing; and what a neighbour knows is not told to it again.
func TestMerged(t *testing.T) {
	life, end := context.WithCancel(t.Context())
	c := New(Ring{
		Size: 2, Life: life, Epoch: func() uint32 { return 3 }, Failed: func() bool { return false }, Activity: func() string { return "" },
		Tell: func(ctx context.Context, side edges.Side, told Told) ([]calls.Called, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	})
	defer c.Close()
	defer end()
	tell := func(told ...calls.Called) []calls.Called {
		known, ok := c.Hear(edges.Left, Told{Operation{3, 1}, told})
		if !ok {
			t.Fatal("what a neighbour tells is not heard")
		}
		return known
	}
	tell(calls.Called{State: "sleeps", Ranks: []int{1}})
	tell(calls.Called{Call: "a barrier", Ranks: []int{1, 2, -1}})
	got := tell(calls.Called{State: "sleeps", Ranks: []int{1}})
	if len(got) == 0 || !reflect.DeepEqual(got[0], calls.Called{Call: "a barrier", Ranks: []int{1}}) {
		t.Errorf("%+v", got)
	}
	c.mu.Lock()
	if table := c.tables[Operation{3, 1}]; table.shared[edges.Left] == 0 || table.shared[edges.Left] > table.made {
		t.Errorf("%+v: what the neighbour told is to be told to it", table)
	}
	c.mu.Unlock()
	if _, ok := c.Hear(edges.Left, Told{Operation{4, 1}, nil}); ok {
		t.Error("calls of another epoch are taken")
	}
}
