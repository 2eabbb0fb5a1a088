package collective

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"ringcli/collective/reduce"
	"ringcli/ring"
)

func TestTypeOf(t *testing.T) {
	got := []reduce.Type{
		TypeOf[int8](), TypeOf[uint8](), TypeOf[int32](), TypeOf[uint32](), TypeOf[int64](), TypeOf[uint64](),
		TypeOf[Float16](), TypeOf[BFloat16](), TypeOf[float32](), TypeOf[float64](),
	}
	if !slices.Equal(got, reduce.Types()) {
		t.Errorf("%v, want %v", got, reduce.Types())
	}
}

func TestSlices(t *testing.T) {
	const n, count = 3, 1001
	w := newWorld(t, n, ring.Options{}, nil)
	w.must(func(rank int, c *Comm) error {
		ctx := context.Background()
		lo, hi := reduce.Chunk(count, n, rank)
		send, recv := make([]float64, count), make([]float64, count)
		for i := range send {
			send[i] = float64(i * (rank + 1))
		}
		check := func(what string, got []float64, from int, factor float64) error {
			for i, v := range got {
				if want := factor * float64(from+i); v != want {
					return fmt.Errorf("%s: element %d is %v, want %v", what, from+i, v, want)
				}
			}
			return nil
		}
		own := make([]float64, hi-lo)
		return errors.Join(
			AllReduce(ctx, c, send, recv, reduce.Sum), check("all-reduce", recv, 0, 6),
			check("the send buffer", send, 0, float64(rank+1)),
			ReduceScatter(ctx, c, send, own, reduce.Max), check("reduce-scatter", own, lo, 3),
			AllGather(ctx, c, own, recv), check("all-gather", recv, 0, 3),
			AllReduce(ctx, c, send, send, reduce.Avg), check("all-reduce in place", send, 0, 2),
			AllReduce(ctx, c, []int8{}, []int8{}, reduce.Sum),
		)
	})
}

// TestConcurrentCallers: calls of many goroutines run one at a time.
func TestConcurrentCallers(t *testing.T) {
	const n, callers, calls = 2, 4, 10
	w := newWorld(t, n, ring.Options{}, nil)
	w.must(func(rank int, c *Comm) error {
		errs := make([]error, callers)
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				for range calls {
					v := []uint32{1, 2, 3}
					errs[i] = errors.Join(errs[i], AllReduce(context.Background(), c, v, v, reduce.Sum))
					if !slices.Equal(v, []uint32{n, 2 * n, 3 * n}) {
						errs[i] = errors.Join(errs[i], fmt.Errorf("caller %d got %v", i, v))
					}
				}
			})
		}
		wg.Wait()
		return errors.Join(errs...)
	})
	if got := w.comms[0].Stats().Operations; got != callers*calls {
		t.Errorf("%d operations, want %d", got, callers*calls)
	}
}
