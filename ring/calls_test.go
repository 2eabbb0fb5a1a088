package ring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
)

// TestCallsOfMany: where all ranks of a long ring find out at once that they disagree, all
// get the whole table, and each tells its neighbours what it knows a few times, not as often
// as there are ranks.
func TestCallsOfMany(t *testing.T) {
	n, odd := 24, 17
	if testing.Short() {
		n, odd = 8, 5
	}
	world := connect(t, n, nil)
	for rank, r := range world {
		r.SetCalls(func(number uint64) string {
			switch {
			case rank == odd:
				return "an all-reduce"
			case number != 9:
				return ""
			}
			return "a barrier"
		})
	}
	errs := make([]error, n)
	var all sync.WaitGroup
	for rank, r := range world {
		all.Go(func() { errs[rank] = r.Disagreement(9, map[int]string{odd: "an all-reduce"}, "") })
	}
	all.Wait()
	for rank, err := range errs {
		d, ok := errors.AsType[*DisagreementError](err)
		if !ok || len(d.Calls) != 2 || !reflect.DeepEqual(d.Calls[0], Called{Call: "an all-reduce", Ranks: []int{odd}}) || len(d.Calls[1].Ranks) != n-1 {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

// TestCallsMerged: that a rank makes a call counts more than that it did not; what is told
// of ranks that are not there is nothing; and what a neighbour knows is not told to it again.
func TestCallsMerged(t *testing.T) {
	world := connect(t, 2, nil)
	r := world[0]
	tell := func(calls ...Called) []Called {
		payload, err := json.Marshal(callsTold{operation{r.Epoch(), 1}, calls})
		if err != nil {
			t.Fatal(err)
		}
		answer, err := (&question{r, Left, payload}).calls(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return answer.([]Called)
	}
	tell(Called{State: "sleeps", Ranks: []int{1}})
	tell(Called{Call: "a barrier", Ranks: []int{1, 2, -1}})
	got := tell(Called{State: "sleeps", Ranks: []int{1}})
	if len(got) == 0 || !reflect.DeepEqual(got[0], Called{Call: "a barrier", Ranks: []int{1}}) {
		t.Errorf("%+v", got)
	}
	c := &r.callTables
	c.mu.Lock()
	if table := c.tables[operation{r.Epoch(), 1}]; table.shared[Left] == 0 || table.shared[Left] > table.made {
		t.Errorf("%+v: what the neighbour told is to be told to it", table)
	}
	c.mu.Unlock()
	if _, err := (&question{r, Left, []byte(fmt.Sprintf(`{"epoch":%d,"number":1}`, r.Epoch()+1))}).calls(context.Background()); err == nil {
		t.Error("calls of another epoch are taken")
	}
}
