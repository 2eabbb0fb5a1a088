package collective

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"ringcli/collective/reduce"
	"ringcli/ring"
	"ringcli/verbs"
	"ringcli/verbs/verbstest"
)

// TestMeshDisagreement: ranks over a mesh call different operations, or one of them
// goes round the ring; with the edges there, and without.
func TestMeshDisagreement(t *testing.T) {
	verbstest.Long(t)
	const n, odd = 4, 2
	type change struct {
		name   string
		change func(*Call)
		words  []string
	}
	for _, way := range meshWays {
		other := CallOptions{Algorithm: meshWays[int(way.Algorithm-AlgorithmRecursiveDoubling+1)%len(meshWays)].Algorithm}
		changes := []change{
			{"count", func(r *Call) { r.Count = 999 }, []string{"all-reduce of 1000 float32", "all-reduce of 999 float32"}},
			{"no elements", func(r *Call) { r.Count = 0 }, []string{"of 1000 float32", "of 0 float32"}},
			{"type", func(r *Call) { r.Type = reduce.Int32 }, []string{"1000 float32", "1000 int32"}},
			{"reduction", func(r *Call) { r.Reduction = reduce.Max }, []string{"float32, sum", "float32, max"}},
			{"operation", func(r *Call) { r.Op = OpReduceScatter }, []string{"all-reduce of", "reduce-scatter of"}},
			{"segment", func(r *Call) { r.Segment = 400 }, []string{"segments of 4000 bytes", "segments of 400 bytes"}},
			{"depth", func(r *Call) { r.Depth = 2 }, []string{"depth 4", "depth 2"}},
			{"the ring", func(r *Call) { r.CallOptions = ringWays[0] }, []string{"sum, " + way.Algorithm.String(), "sum, eager"}},
			{"a rendezvous", func(r *Call) { r.CallOptions = ringWays[1] }, []string{"sum, " + way.Algorithm.String(), "sum, rendezvous-write"}},
			{"another algorithm", func(r *Call) { r.CallOptions = other }, []string{"sum, " + way.Algorithm.String(), "sum, " + other.Algorithm.String()}},
			{"a barrier", func(r *Call) { *r = Call{Op: OpBarrier, CallOptions: ringWays[0]} }, []string{"sum, " + way.Algorithm.String(), "barrier, eager"}},
			{"a barrier like this", func(r *Call) { *r = Call{Op: OpBarrier, CallOptions: way} }, []string{"all-reduce of 1000 float32", "barrier, " + way.Algorithm.String()}},
		}
		for _, warm := range []bool{true, false} {
			for _, test := range changes {
				t.Run(fmt.Sprintf("%s, %s, edges there %v", way.Algorithm, test.name, warm), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t, n, ring.Options{}, nil)
					k := newKit(w, 1000, reduce.Float32, reduce.Sum)
					if warm {
						for _, way := range meshWays {
							k.runs(1, 10, way)
						}
					}
					start := time.Now()
					errs := w.each(func(rank int, c *Comm) error {
						r := Call{
							Op: OpAllReduce, Count: 1000, Type: reduce.Float32, Reduction: reduce.Sum, CallOptions: way, Send: k.send[rank].Addr(), Recv: k.recv[rank].Addr(),
						}
						if rank == odd {
							test.change(&r)
						}
						return c.Run(context.Background(), r)
					})
					if took := time.Since(start); took > 10*time.Second {
						t.Errorf("it took %v to find out", took)
					}
					wantTable(t, errs, odd)
					for rank, err := range errs {
						if !errors.Is(err, ErrUsage) {
							t.Errorf("rank %d: %v: expected a disagreement", rank, err)
							continue
						}
						for _, internal := range []string{"mesh", "gather"} {
							if strings.Contains(err.Error(), internal) {
								t.Errorf("rank %d: %q speaks of a %s, which is a word of ours", rank, err, internal)
							}
						}
						for _, word := range test.words {
							if !strings.Contains(err.Error(), word) {
								t.Errorf("rank %d: %q does not say %q", rank, err, word)
							}
						}
					}
				})
			}
		}
	}
}

// Who is waited for in another call is told by whom, and what for.
func TestAwaitedInAnotherCall(t *testing.T) {
	w := newWorld(t, 2, ring.Options{}, nil)
	k := newKit(w, 1000, reduce.Float32, reduce.Sum)
	errs := w.each(func(rank int, c *Comm) error {
		call := Call{Op: OpAllReduce, Count: 1000, Type: reduce.Float32, Reduction: reduce.Sum, Send: k.send[rank].Addr(), Recv: k.recv[rank].Addr()}
		call.CallOptions = []CallOptions{{Algorithm: AlgorithmTree}, {Algorithm: AlgorithmRing, Protocol: Eager}}[rank]
		return c.Run(context.Background(), call)
	})
	const want = "operation 1: rank 0 calls all-reduce of 1000 float32, sum, tree, eager in segments of 4000 bytes, depth 4; " +
		"rank 1 calls all-reduce of 1000 float32, sum, eager in segments of 2000 bytes, depth 4: " +
		"all ranks must make the same calls in the same order"
	if got := fmt.Sprint(errs[1]); got != want {
		t.Errorf("%s\nexpected %s", got, want)
	}
}

// TestAbsentRank: one rank does not come to the first operation of all, or to the
// first of an algorithm. The others name it in good time.
func TestAbsentRank(t *testing.T) {
	for _, agreed := range []bool{false, true} {
		t.Run(fmt.Sprintf("agreed %v", agreed), func(t *testing.T) {
			const n, absent = 3, 1
			w := newWorld(t, n, ring.Options{}, nil)
			w.timeout(300 * time.Millisecond)
			k := newKit(w, 100, reduce.Int32, reduce.Sum)
			for _, c := range w.comms {
				c.agreed = agreed
			}
			start := time.Now()
			errs := w.each(func(rank int, c *Comm) error {
				if rank == absent {
					return nil
				}
				return c.AllReduce(context.Background(), k.send[rank].Addr(), k.recv[rank].Addr(), 100, k.typ, k.red, CallOptions{Algorithm: AlgorithmInbox})
			})
			if took := time.Since(start); took > 15*time.Second { // of the 20 that ranks have to come up
				t.Errorf("it took %v to give up after 0.3 s", took)
			}
			for rank, err := range errs {
				if rank != absent && (err == nil || !strings.Contains(err.Error(), "rank 1") || !errors.Is(err, context.DeadlineExceeded) && !strings.Contains(err.Error(), "found by rank")) {
					t.Errorf("rank %d: %v: expected a deadline that names rank 1", rank, err)
				}
			}
		})
	}
}

// TestTableOfRank0: the table of rank 0 counts, on all ranks, from the first
// operation on; a table that makes no sense stops all.
func TestTableOfRank0(t *testing.T) {
	tables := []Table{{Rules: []Rule{{Op: OpAllReduce, Algorithm: AlgorithmTree}}}, {Rules: []Rule{{Op: OpAllReduce, Algorithm: AlgorithmRing}}}, {}}
	w := newWorld(t, len(tables), ring.Options{}, func(rank int) Options { return Options{Table: tables[rank]} })
	for rank, c := range w.comms {
		plan, err := c.Plan(Call{Op: OpAllReduce, Count: 100, Type: reduce.Int32, Reduction: reduce.Sum, CallOptions: CallOptions{}})
		if err != nil || plan.Algorithm != AlgorithmTree {
			t.Errorf("rank %d plans %+v, %v: expected the tree of rank 0's table", rank, plan, err)
		}
	}
	k := newKit(w, 100, reduce.Int32, reduce.Sum)
	k.expect(100)
	k.check(OpAllReduce, 100, CallOptions{}, false)
	for _, c := range w.comms {
		c.agreed = false
	}
	w.comms[0].table.Store(&Table{Rules: []Rule{{}}})
	errs := w.each(func(rank int, c *Comm) error { return c.Barrier(context.Background()) })
	for rank, err := range errs {
		if !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), "rule 1: algorithm auto") {
			t.Errorf("rank %d: %v: expected an error of usage that names the rule", rank, err)
		}
	}
}

// TestMeshLost: the queue pair of a mesh's edge is gone while nothing is on its way
// to it. Who waits for it finds out, and names the rank, before the timeout.
func TestMeshLost(t *testing.T) {
	t.Parallel()
	const n, victim = 3, 0
	w := newWorld(t, n, ring.Options{QPTimeout: new(16), RetryCnt: new(1)}, nil)
	w.timeout(8 * time.Second)
	k := newKit(w, 100, reduce.Float32, reduce.Sum)
	k.runs(1, 100, CallOptions{Algorithm: AlgorithmInbox})
	for _, e := range w.rings[victim].MeshEdges() {
		if err := e.QP.Modify(verbs.QPAttr{State: verbs.StateErr}, verbs.AttrState); err != nil {
			t.Fatal(err)
		}
	}
	errs := w.each(func(rank int, c *Comm) error {
		if rank == victim {
			return nil // it stands still
		}
		// A tree: rank 1, its root, waits for rank 0, and sends it nothing yet.
		return c.AllReduce(context.Background(), k.send[rank].Addr(), k.recv[rank].Addr(), 100, k.typ, k.red, CallOptions{Algorithm: AlgorithmInbox})
	})
	found := false
	for rank := 1; rank < n; rank++ {
		var completion *ring.CompletionError
		if errors.As(errs[rank], &completion) && completion.Peer == victim && strings.Contains(errs[rank].Error(), verbs.RetryExceeded.String()) {
			found = true
		} else if errs[rank] == nil || !strings.Contains(errs[rank].Error(), "found by rank") {
			t.Errorf("rank %d: %v: expected %v of rank %d", rank, errs[rank], verbs.RetryExceeded, victim)
		}
	}
	if !found {
		t.Errorf("%v: nobody found out", errs)
	}
}
