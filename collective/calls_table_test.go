package collective

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"ringcli/collective/plan"
	"ringcli/collective/reduce"
	"ringcli/ring"
	"ringcli/verbs/verbstest"
)

// tableOf is who calls what, as a rank's error says.
func tableOf(err error) []ring.Called {
	var d *DisagreementError
	var v *ring.Verdict
	switch {
	case errors.As(err, &d):
		return d.Calls
	case errors.As(err, &v):
		return v.Calls
	}
	return nil
}

// wantTable expects that each rank's error says that one rank of n calls something else than
// the others, which are named after it.
func wantTable(t *testing.T, errs []error, odd int) {
	t.Helper()
	var others []int
	for rank := range errs {
		if rank != odd {
			others = append(others, rank)
		}
	}
	for rank, err := range errs {
		table := tableOf(err)
		if len(table) != 2 || table[0].Call == "" || table[1].Call == "" || table[0].Call == table[1].Call {
			t.Errorf("rank %d: %v with the table %v: expected two calls", rank, err, table)
			continue
		}
		first, second := table[0].Ranks, table[1].Ranks
		if len(others) == 1 && first[0] != odd {
			first, second = second, first
		}
		if !slices.Equal(first, []int{odd}) || !slices.Equal(second, others) {
			t.Errorf("rank %d: %v: expected rank %d, then ranks %v", rank, err, odd, others)
		}
	}
}

// TestCallsOfAll: the table of a disagreement has those that differ from most first, and
// last who has called nothing.
func TestCallsOfAll(t *testing.T) {
	const n, odd, idle = 4, 2, 3
	w := newWorld(t, n, ring.Options{}, nil)
	w.rings[idle].Control().SetActivity("idle at its prompt")
	k := newKit(w, 2000, reduce.Float32, reduce.Sum)
	errs := w.each(func(rank int, c *Comm) error {
		call := Call{Op: OpAllReduce, Count: 1024, Type: reduce.Float32, Reduction: reduce.Sum, CallOptions: ringWays[0], Send: k.send[rank].Addr(), Recv: k.recv[rank].Addr()}
		switch rank {
		case odd:
			call.Count = 1000
		case idle:
			_, err := c.ring.Await(context.Background()) // as a follower does
			return err
		}
		return c.Run(context.Background(), call)
	})
	const want = "operation 1: rank 2 calls all-reduce of 1000 float32, sum, eager in segments of 1000 bytes, depth 4; " +
		"ranks 0, 1 call all-reduce of 1024 float32, sum, eager in segments of 1024 bytes, depth 4; " +
		"rank 3: has not called it (idle at its prompt for "
	for rank, err := range errs {
		if !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("rank %d: %v\nexpected %s", rank, err, want)
		}
		if table := tableOf(err); len(table) != 3 || !slices.Equal(table[2].Ranks, []int{idle}) || table[2].Call != "" {
			t.Errorf("rank %d: the table is %+v", rank, table)
		}
	}
}

// TestCalledAtOnce: the control ring asks what a rank calls with its lock held, so that answer
// waits for no operation, and says nothing of a Comm that is closed.
func TestCalledAtOnce(t *testing.T) {
	w := newWorld(t, 2, ring.Options{Device: shared0}, nil)
	k := newKit(w, 64, reduce.Int32, reduce.Sum)
	k.runs(1, 64, CallOptions{})
	c := w.comms[0]
	said := make(chan string, 1)
	_ = c.lock.Lock(t.Context())
	go func() { said <- c.watch.Called(c.watch.Seq) }()
	select {
	case text := <-said:
		if text == "" {
			t.Errorf("operation %d: %q", c.watch.Seq, text)
		}
	case <-time.After(5 * time.Second):
		t.Error("what it calls is not said while an operation runs")
	}
	c.lock.Unlock()
	w.each(func(_ int, c *Comm) error { return c.Close() })
	if text := c.watch.Called(c.watch.Seq); text != "" {
		t.Errorf("a closed Comm calls %q", text)
	}
}

// TestCallsOfRooted: ranks that call an operation with another root, count, type or
// operation get the table, though not all of them wait for all others.
func TestCallsOfRooted(t *testing.T) {
	verbstest.Long(t)
	const n, odd = 3, 2
	for _, device := range []string{"soft:lo", shared0} {
		for i, way := range []CallOptions{ringWays[0], ringWays[1], ringWays[2], meshWays[0], meshWays[1], meshWays[2], {}} {
			for j, change := range []func(*Call){
				func(k *Call) { k.Root = odd }, func(k *Call) { k.Count = 1000 }, func(k *Call) { k.Type = reduce.Int32 }, func(k *Call) { k.Op, k.Root = OpAllGather, 0 },
			} {
				if testing.Short() && (i+j)%4 != 0 {
					continue
				}
				for _, op := range rootedOps() {
					t.Run(fmt.Sprintf("%s/%s/%s/%d", device, op, wayName(way), j), func(t *testing.T) {
						w := newWorld(t, n, ring.Options{Device: device}, nil)
						k := newKit(w, 2000, reduce.Float32, reduce.Sum)
						errs := w.each(func(rank int, c *Comm) (err error) {
							call := Call{Op: op, Root: 1, Count: 1024, Type: reduce.Float32, Reduction: reduce.Sum, CallOptions: way, Send: k.send[rank].Addr(), Recv: k.recv[rank].Addr()}
							if rank == odd {
								change(&call)
							}
							// Who has nothing to wait for hears of it when it has filled all slots.
							for range 100 {
								if err = c.Run(context.Background(), call); err != nil {
									return err
								}
							}
							return err
						})
						wantTable(t, errs, odd)
					})
				}
			}
		}
	}
}

func rootedOps() []Operation {
	return slices.DeleteFunc(plan.Operations(), func(o Operation) bool { return !o.Rooted() })
}
