package plain

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"ringcli/collective"
	"ringcli/collective/reduce"
	"ringcli/ring"
	"ringcli/verbs"
	_ "ringcli/verbs/shm"
	_ "ringcli/verbs/soft"
	"ringcli/verbs/verbstest"
)

// onDevices runs a test on n ranks that are goroutines of this process: with slices
// that are copied, and with such that are not.
func onDevices(t *testing.T, n int, test func(t *testing.T, comms []*Comm)) {
	for _, device := range []string{"soft:lo", "shm:0"} {
		t.Run(device, func(t *testing.T) {
			servers := freshServers(t, n)
			comms, errs := make([]*Comm, n), make([]error, n)
			var wg sync.WaitGroup
			for rank := range n {
				wg.Go(func() {
					r, err := ring.Connect(t.Context(), servers, rank, ring.Options{Device: device, Wait: verbs.WaitGosched, Timeout: 20 * time.Second})
					if err != nil {
						errs[rank] = err
						return
					}
					c, err := collective.New(r, collective.Options{})
					if err != nil {
						errs[rank] = errors.Join(err, r.Close())
						return
					}
					comms[rank] = New(c)
					t.Cleanup(func() {
						if err := errors.Join(c.Close(), r.Close()); err != nil {
							t.Errorf("rank %d: close: %v", rank, err)
						}
					})
				})
			}
			wg.Wait()
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			test(t, comms)
		})
	}
}

// freshServers returns n addresses of a 127.x.y.0/24 that nobody uses. The address
// .254 stays bound to hold it.
func freshServers(t *testing.T, n int) (servers []string) {
	for range 100 {
		subnet := fmt.Sprintf("127.%d.%d", 1+rand.IntN(250), 1+rand.IntN(250))
		claim, err := net.Listen("tcp", subnet+".254:18600")
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = claim.Close() })
		for r := range n {
			servers = append(servers, fmt.Sprintf("%s.%d", subnet, r+1))
		}
		return servers
	}
	t.Fatal("no free 127.x.y.0/24")
	return nil
}

// must runs f on every rank at once.
func must(t *testing.T, comms []*Comm, f func(rank int, c *Comm) error) {
	t.Helper()
	errs := make([]error, len(comms))
	var wg sync.WaitGroup
	for rank, c := range comms {
		wg.Go(func() { errs[rank] = f(rank, c) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func TestTypeOf(t *testing.T) {
	got := []reduce.Type{
		TypeOf[int8](), TypeOf[uint8](), TypeOf[int32](), TypeOf[uint32](), TypeOf[int64](), TypeOf[uint64](),
		TypeOf[Float16](), TypeOf[BFloat16](), TypeOf[float32](), TypeOf[float64](),
	}
	if !slices.Equal(got, reduce.Types()) {
		t.Errorf("%v, want %v", got, reduce.Types())
	}
}

func TestReduce(t *testing.T) {
	const n = 3
	onDevices(t, n, func(t *testing.T, comms []*Comm) {
		must(t, comms, func(rank int, c *Comm) error {
			for _, count := range []int{0, 1, 1001, 100_000} {
				for root := range n {
					send, recv := make([]int32, count), make([]int32, count)
					for inPlace := range 2 {
						for i := range send {
							send[i] = int32(i * (rank + 1))
						}
						switch {
						case rank != root:
							recv = nil
						case inPlace == 1:
							recv = send
						}
						if err := Reduce(context.Background(), c, send, recv, reduce.Sum, root); err != nil {
							return err
						}
						for i, v := range recv {
							if v != int32(i*(1+2+3)) {
								return fmt.Errorf("rank %d, root %d, element %d of %d: %d", rank, root, i, count, v)
							}
						}
					}
				}
			}
			return nil
		})
		if err := Reduce(context.Background(), comms[1], make([]int8, 2), make([]int8, 3), reduce.Sum, 1); !errors.Is(err, collective.ErrUsage) {
			t.Errorf("2 elements to 3: %v", err)
		}
	})
}

func TestBroadcast(t *testing.T) {
	const n = 3
	onDevices(t, n, func(t *testing.T, comms []*Comm) {
		must(t, comms, func(rank int, c *Comm) error {
			for _, count := range []int{0, 1, 1001, 100_000} {
				for root := range n {
					send, recv := make([]int32, count), make([]int32, count)
					if rank != root {
						send = nil
					}
					for i := range send {
						send[i] = int32(i * (root + 1))
					}
					for range 2 { // once more, in place
						if err := Broadcast(context.Background(), c, send, recv, root); err != nil {
							return err
						}
						for i, v := range recv {
							if v != int32(i*(root+1)) {
								return fmt.Errorf("rank %d, root %d, element %d of %d: %d", rank, root, i, count, v)
							}
						}
						send = recv
					}
				}
			}
			return nil
		})
		if err := Broadcast(context.Background(), comms[1], make([]int8, 2), make([]int8, 3), 1); !errors.Is(err, collective.ErrUsage) {
			t.Errorf("2 elements to 3: %v", err)
		}
	})
}

func TestSlices(t *testing.T) {
	const n, count = 3, 1001
	onDevices(t, n, func(t *testing.T, comms []*Comm) {
		must(t, comms, func(rank int, c *Comm) error {
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
	})
}

// TestConcurrentCallers: calls of many goroutines run one at a time.
func TestConcurrentCallers(t *testing.T) {
	const n, callers, calls = 2, 4, 10
	onDevices(t, n, func(t *testing.T, comms []*Comm) {
		must(t, comms, func(_ int, c *Comm) error {
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
		if got := comms[0].comm.Stats().Operations; got != callers*calls {
			t.Errorf("%d operations, want %d", got, callers*calls)
		}
	})
}

func TestUsage(t *testing.T) {
	onDevices(t, 2, func(t *testing.T, comms []*Comm) {
		c, ctx := comms[0], t.Context()
		for want, err := range map[string]error{
			"all-reduce: 3 elements to send and 4 to receive: expected as many":                          AllReduce(ctx, c, make([]int32, 3), make([]int32, 4), reduce.Sum),
			"reduce-scatter: 4 elements to receive: expected 5, the chunk of rank 0 of 2 in 10 elements": ReduceScatter(ctx, c, make([]int32, 10), make([]int32, 4), reduce.Sum),
			"all-gather: 4 elements to send: expected 5, the chunk of rank 0 of 2 in 10 elements":        AllGather(ctx, c, make([]int32, 4), make([]int32, 10)),
		} {
			if !errors.Is(err, collective.ErrUsage) || err.Error() != want {
				t.Errorf("%v, want an error of usage: %s", err, want)
			}
		}
		// Nothing of this has harmed the ring.
		must(t, comms, func(_ int, c *Comm) error { return c.comm.Barrier(ctx) })
	})
}

// TestAllocations: nothing is allocated per operation.
func TestAllocations(t *testing.T) {
	// What an operation allocates, it allocates in every try; what the control ring
	// allocates, for signs of life and clocks, comes once a second, and counts in few
	// tries even where operations take long, on a busy machine.
	const n, count, runs, tries = 2, 1 << 16, 100, 30
	onDevices(t, n, func(t *testing.T, comms []*Comm) {
		if verbstest.Race {
			t.Skip("the race detector allocates")
		}
		once := func(rank int, v []float32) error {
			return AllReduce(context.Background(), comms[rank], v, v, reduce.Sum)
		}
		allocs := 1.0
		mine, its := make([]float32, count), make([]float32, count)
		for try := 0; try < tries && allocs >= 1; try++ {
			peer := make(chan error, 1)
			go func() {
				var errs error
				for range runs + 1 { // AllocsPerRun runs once more to warm up
					errs = errors.Join(errs, once(1, its))
				}
				peer <- errs
			}()
			var failed error
			// The average counts both ranks: they are goroutines of one process.
			allocs = testing.AllocsPerRun(runs, func() { failed = errors.Join(failed, once(0, mine)) })
			if err := errors.Join(failed, <-peer); err != nil {
				t.Fatal(err)
			}
		}
		if allocs >= 1 {
			t.Errorf("%v allocations per operation, want 0", allocs)
		}
	})
}
