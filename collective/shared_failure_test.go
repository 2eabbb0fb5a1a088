package collective

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"ringcli/collective/hostteam"
	"ringcli/collective/reduce"
	"ringcli/ring"
	"ringcli/verbs/verbstest"
)

// directWays are those of ranks that share memory.
var directWays = []CallOptions{{Algorithm: AlgorithmInbox, Protocol: Direct}, {Algorithm: AlgorithmRing, Protocol: Direct}}

// sharedWays are all that ranks that share memory can do.
func sharedWays() []CallOptions {
	return append(append(directWays[:len(directWays):len(directWays)], ringWays...),
		CallOptions{Algorithm: AlgorithmRecursiveDoubling}, CallOptions{Algorithm: AlgorithmTree}, CallOptions{Algorithm: AlgorithmInbox, Protocol: Eager})
}

// TestSharedDisagreement: among ranks that share memory one calls something else
// than the others, or the same in another way. Every rank gets an error that names
// both calls.
func TestSharedDisagreement(t *testing.T) {
	verbstest.Long(t)
	inbox, pull := directWays[0], directWays[1]
	eagerInbox := CallOptions{Algorithm: AlgorithmInbox, Protocol: Eager}
	for i, test := range []struct {
		name   string
		base   CallOptions
		change func(*Call)
		words  []string
	}{
		{"count", CallOptions{}, func(r *Call) { r.Count = 999 }, []string{"all-reduce of 1000 float32, sum, inbox, direct", "all-reduce of 999 float32, sum, inbox, direct"}},
		{"no elements", CallOptions{}, func(r *Call) { r.Count = 0 }, []string{"of 1000 float32", "of 0 float32"}},
		{"type", CallOptions{}, func(r *Call) { r.Type = reduce.Int32 }, []string{"1000 float32", "1000 int32"}},
		{"reduction", CallOptions{}, func(r *Call) { r.Reduction = reduce.Max }, []string{"float32, sum", "float32, max"}},
		{"operation", CallOptions{}, func(r *Call) { r.Op = OpReduceScatter }, []string{"all-reduce of", "reduce-scatter of"}},
		{"barrier", CallOptions{}, func(r *Call) { *r = Call{Op: OpBarrier} }, []string{"all-reduce of", "barrier"}},
		{"count, pulled", pull, func(r *Call) { r.Count = 999 }, []string{"of 1000 float32", "of 999 float32"}},
		{"operation, pulled", pull, func(r *Call) { r.Op = OpAllGather }, []string{"all-reduce of", "all-gather of"}},
		{"sync", pull, func(r *Call) { r.Sync = true }, []string{"direct", "direct, synchronized"}},
		{"algorithm", inbox, func(r *Call) { r.CallOptions = pull }, []string{"inbox, direct", "sum, direct"}},
		{"direct for eager", ringWays[0], func(r *Call) { r.CallOptions = pull }, []string{"sum, direct", "sum, eager"}},
		{"eager for direct", CallOptions{}, func(r *Call) { r.CallOptions = ringWays[0] }, []string{"direct", "sum, eager"}},
		{"write for direct", pull, func(r *Call) { r.CallOptions = ringWays[1] }, []string{"direct", "rendezvous-write"}},
		{"read for direct", pull, func(r *Call) { r.CallOptions = ringWays[2] }, []string{"direct", "rendezvous-read"}},
		{"inbox by messages for direct", inbox, func(r *Call) { r.CallOptions = eagerInbox }, []string{"inbox, direct", "inbox"}},
		{"doubling for direct", CallOptions{}, func(r *Call) { r.CallOptions = meshWays[0] }, []string{"direct", "recursive-doubling"}},
		{"direct for a tree", meshWays[1], func(r *Call) { r.CallOptions = inbox }, []string{"direct", "tree"}},
		{"tree for doubling", meshWays[0], func(r *Call) { r.CallOptions = meshWays[1] }, []string{"recursive-doubling", "tree"}},
		{"count, by messages", ringWays[0], func(r *Call) { r.Count = 999 }, []string{"1000 float32, sum, eager", "999 float32, sum, eager"}},
		{"count, tree", meshWays[1], func(r *Call) { r.Count = 999 }, []string{"of 1000 float32", "of 999 float32"}},
	} {
		for _, n := range []int{2, 4, 8} {
			if n == 8 && i%3 > 0 || n != 4 && testing.Short() {
				continue // a sample
			}
			for _, warm := range []bool{false, true} {
				if warm && (n != 4 || test.base.Protocol == Direct && i%2 > 0) {
					continue
				}
				t.Run(fmt.Sprintf("%s, %d ranks, edges there %v", test.name, n, warm), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t, n, ring.Options{Device: shared0}, nil)
					k := newKit(w, 1000, reduce.Float32, reduce.Sum)
					if warm {
						for _, way := range append(meshWays[:2:2], eagerInbox) {
							k.runs(1, 10, way)
						}
					}
					start := time.Now()
					errs := w.each(func(rank int, c *Comm) error {
						r := Call{
							Op: OpAllReduce, Count: 1000, Type: reduce.Float32, Reduction: reduce.Sum, CallOptions: test.base,
							Send: k.send[rank].Addr(), Recv: k.recv[rank].Addr(),
						}
						if rank == n/2 {
							test.change(&r)
						}
						return c.Run(context.Background(), r)
					})
					if took := time.Since(start); took > 10*time.Second {
						t.Errorf("it took %v to find out", took)
					}
					wantTable(t, errs, n/2)
					for rank, err := range errs {
						if !errors.Is(err, ErrUsage) {
							t.Errorf("rank %d: %v: expected a disagreement", rank, err)
							continue
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

// TestSharedCancel: one rank gives up in the middle, closes its Comm at once and
// with it takes its memory back. The others, who may be reading that, end with an
// error that says why.
func TestSharedCancel(t *testing.T) {
	for _, way := range sharedWays() {
		for _, count := range []int{100, 1 << 20} {
			t.Run(fmt.Sprintf("%s, %d elements", wayName(way), count), func(t *testing.T) {
				const n, odd = 3, 1
				w := newWorld(t, n, ring.Options{Device: shared0}, nil)
				k := newKit(w, count, reduce.Int32, reduce.Sum)
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				errs := w.each(func(rank int, c *Comm) error {
					own := context.Background()
					if rank == odd {
						own = ctx
					}
					for i := 0; ; i++ {
						if err := c.AllReduce(own, k.send[rank].Addr(), k.recv[rank].Addr(), count, k.typ, k.red, way); err != nil {
							return errors.Join(err, c.Close())
						}
						if rank == 0 && i == 2 {
							time.AfterFunc(time.Duration(count%7+1)*time.Millisecond, cancel)
						}
					}
				})
				for rank, err := range errs {
					if rank == odd && !errors.Is(err, context.Canceled) || rank != odd && !strings.HasSuffix(err.Error(), "was stopped") {
						t.Errorf("rank %d: %v: expected what rank %d reports", rank, err, odd)
					}
					if err := w.comms[rank].Barrier(context.Background()); !errors.Is(err, ErrClosed) {
						t.Errorf("rank %d: a barrier afterwards: %v", rank, err)
					}
				}
			})
		}
	}
}

// TestSharedMissingRank: one rank never calls. The error of a rank that waits for it
// says in which phase, for whom, and what had come.
func TestSharedMissingRank(t *testing.T) {
	const n, absent = 3, 2
	for _, test := range []struct {
		way   CallOptions
		count int
		words []string
	}{
		{directWays[0], 2, []string{"all-reduce of 2 int32, sum, inbox, direct", "piece 1 of 1", "awaited from rank 2"}},
		{directWays[0], 9000, []string{"all-reduce of 9000 int32, sum, inbox, direct", "piece 1 of", "awaited from rank 2"}},
		{directWays[1], 9000, []string{"all-reduce of 9000 int32, sum, direct", "where the buffers are", "awaited from rank 2"}},
	} {
		t.Run(fmt.Sprintf("%s, %d elements", wayName(test.way), test.count), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, n, ring.Options{Device: shared0}, nil)
			w.timeout(time.Second)
			k := newKit(w, test.count, reduce.Int32, reduce.Sum)
			k.runs(1, test.count, test.way)
			start := time.Now()
			errs := w.each(func(rank int, c *Comm) error {
				if rank == absent {
					return nil
				}
				return c.AllReduce(context.Background(), k.send[rank].Addr(), k.recv[rank].Addr(), test.count, k.typ, k.red, test.way)
			})
			if took := time.Since(start); took > 15*time.Second { // of the 20 that ranks have to come up
				t.Errorf("it took %v to give up after 1 s", took)
			}
			timeouts := 0
			for rank, err := range errs[:absent] {
				if err == nil {
					t.Fatalf("rank %d: an operation without rank 2 succeeded", rank)
				}
				if errors.Is(err, ErrTimeout) && errors.Is(err, context.DeadlineExceeded) {
					timeouts++
				}
				for _, word := range append(test.words, "no progress for 1s", fmt.Sprintf("rank %d's had come", 1-rank)) {
					if !strings.Contains(err.Error(), word) && errors.Is(err, ErrTimeout) {
						t.Errorf("rank %d: %q does not say %q", rank, err, word)
					}
				}
				if !strings.Contains(err.Error(), "rank 2") {
					t.Errorf("rank %d: %q does not name rank 2", rank, err)
				}
			}
			if timeouts == 0 {
				t.Errorf("%v: nobody's deadline passed", errs)
			}
		})
	}
}

// TestSharedPart: a rank that closes its Comm right after the last operation takes
// nothing away that others need for its end.
func TestSharedPart(t *testing.T) {
	rounds := 16
	if testing.Short() || verbstest.Race {
		rounds = 4
	}
	for i := range rounds {
		way := sharedWays()[i%len(sharedWays())]
		w := newWorld(t, 4, ring.Options{Device: shared0}, nil)
		k := newKit(w, 40000, reduce.Int32, reduce.Sum)
		w.must(func(rank int, c *Comm) error {
			for range 3 {
				if err := c.AllReduce(context.Background(), k.send[rank].Addr(), k.recv[rank].Addr(), 40000, k.typ, k.red, way); err != nil {
					return fmt.Errorf("%s: %w", wayName(way), err)
				}
			}
			return c.Close()
		})
	}
}

// TestSharedPartAhead: a rank that has what others have yet to take closes its Comm when they
// have, however late they are.
func TestSharedPartAhead(t *testing.T) {
	const n, count = 3, 500
	for _, op := range rootedOps() {
		w := newWorld(t, n, ring.Options{Device: shared0}, nil)
		k := newKit(w, count, reduce.Int32, reduce.Sum)
		k.runs(1, count, CallOptions{})
		late := 0 // the root of a reduce, a leaf of a broadcast
		if op == OpBroadcast {
			late = n - 1
		}
		ahead, come := make(chan int, n), make(chan struct{})
		w.must(func(rank int, c *Comm) error {
			if rank == late {
				for range n - 1 {
					select {
					case <-ahead:
					case <-time.After(rankTimeout / 2):
						return fmt.Errorf("rank %d: %s: others have waited for it", rank, op)
					}
				}
				time.Sleep(3 * hostteam.Parting)
				close(come)
			}
			err := c.Run(context.Background(), Call{Op: op, Count: count, Type: k.typ, Reduction: k.red, Send: k.send[rank].Addr(), Recv: k.recv[rank].Addr()})
			ahead <- rank
			err = errors.Join(err, c.Close())
			select {
			case <-come:
			default: // the late one may go on all the same, by what is left of a board that is gone
				err = errors.Join(err, fmt.Errorf("rank %d: %s: it parted before rank %d had come", rank, op, late))
			}
			return err
		})
	}
}

// TestSharedSecondComm: several Comms over one ring, one after the other and side by
// side, each with a board of its own.
func TestSharedSecondComm(t *testing.T) {
	const n, count = 3, 30000
	w := newWorld(t, n, ring.Options{Device: shared0}, nil)
	for _, way := range sharedWays() {
		k := newKit(w, count, reduce.Int32, reduce.Sum)
		k.expect(count)
		k.check(OpAllReduce, count, way, false)
		first := w.comms
		w.comms = make([]*Comm, n)
		w.must(func(rank int, _ *Comm) (err error) {
			w.comms[rank], err = New(w.rings[rank], Options{})
			return err
		})
		second := newKit(w, count, reduce.Int32, reduce.Sum)
		second.expect(count)
		second.check(OpAllReduce, count, way, true)
		if err := w.comms[1].agreement.Load().NotShared; err != "" {
			t.Errorf("the second Comm has no memory to share: %s", err)
		}
		both := w.comms
		w.comms = first
		k.check(OpReduceScatter, count, w.comms[0].elseEager(OpReduceScatter, way), false)
		w.must(func(_ int, c *Comm) error { return c.Close() })
		w.comms = both
		second.check(OpAllGather, count, w.comms[0].elseEager(OpAllGather, way), false)
	}
}

// TestSharedCorrupt: where one rank injects faults into what arrives, all do without
// Direct, and say why.
func TestSharedCorrupt(t *testing.T) {
	w := newWorld(t, 3, ring.Options{Device: shared0}, func(rank int) Options {
		if rank != 1 {
			return Options{}
		}
		return Options{Corrupt: func(Operation, int, []byte) {}}
	})
	for rank, c := range w.comms {
		if why := c.agreement.Load().NotShared; !strings.Contains(why, "rank 1: faults are injected") {
			t.Errorf("rank %d: apart because %q, expected rank 1's faults", rank, why)
		}
		if p, err := c.Plan(Call{Op: OpAllReduce, Count: 100000, Type: reduce.Int32, Reduction: reduce.Sum, CallOptions: CallOptions{}}); err != nil || p.Protocol == Direct {
			t.Errorf("rank %d plans %+v, %v", rank, p, err)
		}
		_, err := c.Plan(Call{Op: OpAllReduce, Count: 100, Type: reduce.Int32, Reduction: reduce.Sum, CallOptions: directWays[1]})
		if !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), "rank 1: faults are injected") {
			t.Errorf("rank %d: Direct is %v, expected an error of usage that says why", rank, err)
		}
	}
	k := newKit(w, 1000, reduce.Int32, reduce.Sum)
	k.expect(1000)
	k.check(OpAllReduce, 1000, CallOptions{}, false)
}
