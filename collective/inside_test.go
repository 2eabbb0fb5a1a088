package collective

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"ringcli/collective/exec"
	"ringcli/collective/plan"
	"ringcli/collective/reduce"
	"ringcli/ring"
	"ringcli/trace"
	"ringcli/verbs/route"
)

// byTurns makes ranks that lie round so many hosts by turns.
func byTurns(hosts int) func(rank int) ring.Options {
	return func(rank int) ring.Options {
		h := route.ThisHost()
		h.BootID = fmt.Sprint("host ", rank%hosts)
		return ring.Options{Device: route.Auto, Host: &h}
	}
}

// inMemory fails if some rank does not share memory with those of its host, or has an edge of a mesh to
// one of them.
func (w *world) inMemory() {
	w.tb.Helper()
	for rank, c := range w.comms {
		h := c.Hosts()
		if shares := c.within != nil; shares != (len(h.On(rank)) > 1) {
			w.tb.Errorf("rank %d of %s shares memory with its host: %v", rank, h, shares)
		}
		for _, e := range w.rings[rank].MeshEdges() {
			if h.Host(e.Peer) == h.Host(rank) {
				w.tb.Errorf("rank %d of %s has an edge to rank %d of its host", rank, h, e.Peer)
			}
		}
	}
}

// TestMatrixInside: along hosts nothing goes between ranks of a host but through memory, where ranks
// lie round the hosts by turns too, and where the sets are several pieces of the vector. No neighbour is
// on a rank's host then, whose device of shared memory comes after the first buffers.
func TestMatrixInside(t *testing.T) {
	for name, test := range map[string]struct {
		n       int
		options func(rank int) ring.Options
	}{
		"by turns": {5, byTurns(2)}, "in a row": {5, along(3, 2)}, "three by turns": {6, byTurns(3)}, "alone": {4, along(1, 2, 1)},
		"told": {4, func(int) ring.Options { return ring.Options{Device: shared0, Hosts: "2,2"} }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldOf(t, test.n, test.options, nil)
			for _, count := range []int{0, 1, 1000, 1<<17 - 1} {
				k := newKit(w, count, reduce.Float32, reduce.Avg)
				k.expect(count)
				for _, op := range plan.Operations() {
					k.check(op, count, hierarchical, false)
					k.check(op, count, hierarchical, true)
				}
				for rank, c := range w.comms {
					if len(c.Hosts().On(rank)) > 1 && errors.Join(k.send[rank].Mappable(), k.recv[rank].Mappable()) != nil {
						t.Fatalf("a buffer of Alloc of rank %d cannot be mapped", rank)
					}
				}
			}
			w.must(func(_ int, c *Comm) error {
				return c.Run(context.Background(), Call{Op: OpBarrier, CallOptions: hierarchical})
			})
			w.inMemory()
			k := newKit(w, 5000, reduce.Float32, reduce.Sum)
			k.expect(5000)
			k.check(OpAllReduce, 5000, CallOptions{Algorithm: AlgorithmHierarchical, Verify: true}, false)
			for rank, c := range w.comms {
				if on := c.Hosts().On(rank); len(on) > 1 && !slices.ContainsFunc(w.rings[rank].MeshEdges(), func(e *ring.Edge) bool { return slices.Contains(on, e.Peer) }) {
					t.Errorf("rank %d: segments were to be verified, and none went within its host", rank)
				}
			}
		})
	}
}

// TestNotInside: where the ranks of one host cannot map each other's memory all hosts do with messages.
func TestNotInside(t *testing.T) {
	const n, count = 5, 1 << 16
	options := along(3, 2)
	w := newWorldOf(t, n, func(rank int) ring.Options {
		o := options(rank)
		if rank == 1 {
			o.Device = "soft:lo"
		}
		return o
	}, nil)
	k := newKit(w, count, reduce.Float32, reduce.Sum)
	k.expect(count)
	for _, op := range plan.Operations() {
		k.check(op, count, hierarchical, false)
	}
	for rank, c := range w.comms {
		if c.within != nil {
			t.Errorf("rank %d shares memory with its host", rank)
		}
	}
}

// TestInsideDisagreement: along hosts one rank calls something else. All get the table of both calls.
func TestInsideDisagreement(t *testing.T) {
	const n, odd = 6, 3
	for name, change := range map[string]func(*Call){
		"count":       func(r *Call) { r.Count = 999 },
		"no elements": func(r *Call) { r.Count = 0 },
		"reduction":   func(r *Call) { r.Reduction = reduce.Max },
		"operation":   func(r *Call) { r.Op = OpReduceScatter },
		"the ring":    func(r *Call) { r.CallOptions = ringWays[0] },
		"a barrier":   func(r *Call) { *r = Call{Op: OpBarrier, CallOptions: hierarchical} },
		"verified":    func(r *Call) { r.Verify = true },
	} {
		for _, warm := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, edges there %v", name, warm), func(t *testing.T) {
				w := newWorldOf(t, n, byTurns(3), nil)
				k := newKit(w, 1000, reduce.Float32, reduce.Sum)
				if warm {
					k.runs(1, 10, hierarchical)
				}
				start := time.Now()
				errs := w.each(func(rank int, c *Comm) error {
					r := Call{
						Op: OpAllReduce, Count: 1000, Type: k.typ, Reduction: k.red, CallOptions: hierarchical, Send: k.send[rank].Addr(), Recv: k.recv[rank].Addr(),
					}
					if rank == odd {
						change(&r)
					}
					return c.Run(context.Background(), r)
				})
				if took := time.Since(start); took > 10*time.Second {
					t.Errorf("it took %v to find out", took)
				}
				wantTable(t, errs, odd)
			})
		}
	}
}

// TestMissingInside: a rank that stops before any stage is named by its number in the ring by the other of its
// host, whose wait ends at the ring's deadline.
func TestMissingInside(t *testing.T) {
	const n, count, missing, beside = 6, 900, 4, 1
	for stage := range stages {
		t.Run(fmt.Sprint("stage ", stage+1), func(t *testing.T) {
			t.Parallel()
			w := newWorldOf(t, n, byTurns(3), nil)
			k := newKit(w, count, reduce.Int32, reduce.Sum)
			k.runs(1, count, hierarchical)
			w.rings[beside].SetTimeout(time.Second)
			errs := w.each(func(rank int, c *Comm) error {
				call := Call{Op: OpAllReduce, Count: count, Type: k.typ, Send: k.send[rank].Addr(), Recv: k.recv[rank].Addr(), CallOptions: hierarchical}
				if rank != missing {
					return c.Run(context.Background(), call)
				}
				return c.endsIn(stage, call, func() error {
					for !c.ring.Failed() {
						time.Sleep(time.Millisecond)
					}
					return c.ring.Err()
				})
			})
			for _, want := range []string{
				fmt.Sprintf("(rank %d, all-reduce, where the buffers are (round", beside), fmt.Sprintf("awaited from rank %d", missing),
			} {
				if err := errs[beside]; err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("rank %d: %v: expected %q", beside, err, want)
				}
			}
		})
	}
}

// stages are before the memory of the host is used, before the messages, and behind them.
const stages = 3

// ending is a stage of a call which ends so, behind another stage or nil.
type ending struct {
	first exec.Stage
	end   func() error
}

func (d ending) Perform(ctx context.Context, begun trace.Stamp) (end trace.Stamp, err error) {
	if d.first != nil {
		if end, err = d.first.Perform(ctx, begun); err != nil {
			return end, err
		}
	}
	return end, d.end()
}

// endsIn runs a call up to a stage, which ends so.
func (c *Comm) endsIn(stage int, k Call, end func() error) error {
	p, err := c.Prepare(context.Background(), k)
	if err != nil {
		return err
	}
	switch stage {
	case 0:
		p.Before = ending{nil, end}
	case 1:
		p.Before = ending{p.Before, end}
	default:
		p.Behind = ending{nil, end}
	}
	return p.Run(context.Background())
}

// TestKilledInside kills a rank of one of three hosts in each stage of a call along them. The others name it in
// time.
func TestKilledInside(t *testing.T) {
	const n, victim = 6, 4
	for stage := range stages {
		start := time.Now()
		ranks := startRanks(t, n, rankJob{Hosts: "2,2,2", Device: route.Auto, Dies: 1 + stage, Victim: victim}, t.TempDir())
		for r, p := range ranks {
			for _, what := range []string{"connected", "working"} {
				if _, err := p.awaits(what, 2*rankTimeout); err != nil {
					t.Fatalf("stage %d: rank %d: %v", stage+1, r, err)
				}
			}
		}
		if _, err := ranks[victim].awaits("", 4*rankTimeout); err == nil || !strings.Contains(err.Error(), "it ended") {
			t.Fatalf("stage %d: rank %d: %v: expected its end", stage+1, victim, err)
		}
		begun := time.Now()
		for r, p := range ranks {
			if r == victim {
				continue
			}
			s, err := p.awaits("failed", rankTimeout/2)
			if err != nil || !strings.Contains(s.Error, fmt.Sprint("rank ", victim)) {
				t.Errorf("stage %d: rank %d: %v, %+v: expected the end of rank %d", stage+1, r, err, s, victim)
			}
		}
		t.Logf("stage %d: rank %d ended after %s, and the others %s later", stage+1, victim, begun.Sub(start), time.Since(begun))
	}
}

// dies runs calls along hosts until the victim has killed itself.
func (s *workload) dies(job rankJob) error {
	c := s.c
	call := Call{Op: OpAllReduce, Count: 1 << 16, Type: reduce.Int32, Send: s.pairs[1][0].Addr(), Recv: s.pairs[1][1].Addr(), CallOptions: hierarchical}
	if s.done > 2 && c.Rank() == job.Victim {
		return c.endsIn(job.Dies-1, call, func() error { return syscall.Kill(syscall.Getpid(), syscall.SIGKILL) })
	}
	s.done++
	if c.within == nil && c.agreed {
		return fmt.Errorf("%w: rank %d of %s does without memory", errWrong, c.Rank(), c.Hosts())
	}
	return c.Run(context.Background(), call)
}
