package ring

import (
	"errors"
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
		r.Stalls().SetCalls(func(number uint64) string {
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
		all.Go(func() { errs[rank] = r.stalls.Disagreement(9, map[int]string{odd: "an all-reduce"}, "") })
	}
	all.Wait()
	for rank, err := range errs {
		d, ok := errors.AsType[*DisagreementError](err)
		if !ok || len(d.Calls) != 2 || !reflect.DeepEqual(d.Calls[0], Called{Call: "an all-reduce", Ranks: []int{odd}}) || len(d.Calls[1].Ranks) != n-1 {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}
