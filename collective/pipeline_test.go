package collective

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"ringcli/collective/plan"
	"ringcli/collective/reduce"
	"ringcli/collective/reduce/reference"
	"ringcli/ring"
	"ringcli/verbs/memory"
	"ringcli/verbs/verbstest"
)

// newKit makes buffers for vectors of up to longest elements of a type, and
// their inputs.
func newKit(w *world, longest int, typ reduce.Type, red reduce.Op) *kit {
	n := len(w.comms)
	k := &kit{w: w, n: n, typ: typ, red: red, inputs: make([][]byte, n), send: make([]*Buffer, n), recv: make([]*Buffer, n)}
	bytes := longest * typ.Size()
	w.must(func(rank int, c *Comm) (err error) {
		k.inputs[rank] = make([]byte, bytes)
		reference.Fill(k.inputs[rank], typ, red, rank, 0, matrixSeed)
		if k.send[rank], err = c.Alloc(uint64(bytes + guard)); err != nil {
			return err
		}
		copy(k.send[rank].Bytes(), k.inputs[rank])
		k.recv[rank], err = c.Alloc(uint64(bytes + guard))
		return err
	})
	k.gathered = make([]byte, bytes)
	return k
}

var rendezvous = []Protocol{RendezvousWrite, RendezvousRead}

// TestPipeline takes segments and depths at random, so that groups are full and
// not, chunks end with empty segments, and one operation follows another with
// other parameters while a neighbour is ahead.
func TestPipeline(t *testing.T) {
	rounds := 150
	if testing.Short() || verbstest.Race {
		rounds = 25
	}
	for _, n := range []int{2, 3, 4} {
		t.Run(fmt.Sprintf("ranks=%d", n), func(t *testing.T) {
			const longest = 30000
			w := newWorld(t, n, ring.Options{SlotSize: 4096, Slots: 8}, nil)
			k := newKit(w, longest, reduce.Float32, reduce.Sum)
			rng := rand.New(rand.NewPCG(uint64(n), matrixSeed))
			for range rounds {
				count := rng.IntN(longest + 1)
				k.expect(count)
				op := Operation(rng.IntN(3))
				ways := append(allWays(), CallOptions{})
				way := ways[rng.IntN(len(ways))]
				o := CallOptions{
					Algorithm: way.Algorithm, Protocol: way.Protocol, Segment: 4 + rng.IntN(12000), Depth: rng.IntN(plan.MaxDepth + 1), Sync: rng.IntN(4) == 0, Verify: rng.IntN(4) == 0,
				}
				k.check(op, count, w.comms[0].elseEager(op, o), rng.IntN(2) == 0)
			}
		})
	}
}

// TestBackToBack starts operations without waiting for the other ranks, so that
// a left neighbour is ahead by as much as its credits allow.
func TestBackToBack(t *testing.T) {
	const n, count, calls = 3, 500, 200
	w := newWorld(t, n, ring.Options{}, nil)
	w.must(func(rank int, c *Comm) error {
		b, err := c.Alloc(8 * count)
		if err != nil {
			return err
		}
		v := memory.Slice[int64](b.Addr(), count)
		for call := range calls {
			for i := range v {
				v[i] = int64(i + rank*call)
			}
			if err := c.AllReduce(context.Background(), b.Addr(), b.Addr(), count, reduce.Int64, reduce.Sum, CallOptions{}); err != nil {
				return err
			}
			for i := range v {
				if want := int64(n*i + call*n*(n-1)/2); v[i] != want {
					return fmt.Errorf("call %d: element %d is %d, want %d", call, i, v[i], want)
				}
			}
			if rank == call%n {
				time.Sleep(time.Millisecond)
			}
		}
		return nil
	})
}

// TestImpaired: packets are lost, doubled, reordered and corrupted on the way,
// and the result is the same to the bit.
func TestImpaired(t *testing.T) {
	w := newWorld(t, 3, ring.Options{QPTimeout: new(15), Inject: "soft: loss 1%, duplicate 1%, reorder 1%, corrupt 1%, seed 7"}, nil)
	const count = 100000
	k := newKit(w, count, reduce.Float32, reduce.Sum)
	k.expect(count)
	for i, way := range allWays() {
		for _, inPlace := range []bool{false, true} {
			if !testing.Short() || inPlace == (i%2 == 1) {
				k.check(OpAllReduce, count, way, inPlace)
			}
		}
	}
}

// runs makes every rank run the kit's all-reduce of count elements so often.
func (k *kit) runs(times, count int, o CallOptions) {
	k.w.tb.Helper()
	k.w.must(func(rank int, c *Comm) error {
		for range times {
			if err := c.AllReduce(context.Background(), k.send[rank].Addr(), k.recv[rank].Addr(), count, k.typ, k.red, o); err != nil {
				return err
			}
		}
		return nil
	})
}

func TestStats(t *testing.T) {
	for _, slots := range []int{2, 16} {
		t.Run(fmt.Sprintf("%d slots", slots), func(t *testing.T) { testStats(t, slots) })
	}
}

func testStats(t *testing.T, slots int) {
	const n, count, segment = 4, 1 << 18, 16 << 10
	w := newWorld(t, n, ring.Options{Slots: slots}, nil)
	k := newKit(w, count, reduce.Float32, reduce.Sum)
	// Each rank sends and receives 2(n-1) chunks, half of them to be reduced.
	const moved = 2 * (n - 1) * count * 4 / n
	const segments = moved / segment
	for _, depth := range []int{1, 4} {
		for _, protocol := range []Protocol{Eager, RendezvousWrite, RendezvousRead, ReceiverInitiated} {
			if protocol == ReceiverInitiated && slots < 16 {
				continue // it has no room
			}
			t.Run(fmt.Sprintf("%s, depth %d", protocol, depth), func(t *testing.T) {
				var before [n]Stats
				for r, c := range w.comms {
					before[r] = c.Stats()
				}
				k.runs(1, count, CallOptions{Protocol: protocol, Segment: segment, Depth: depth})
				var overlapped uint64
				for r, c := range w.comms {
					s := minus(c.Stats(), before[r])
					overlapped += s.Overlapped
					want := Stats{Operations: 1, Sent: moved, Received: moved, Reductions: segments / 2}
					switch protocol {
					case ReceiverInitiated:
						want.EagerWrites, want.Writes = segments/2, segments/2
					case Eager:
						want.EagerWrites, want.CopiedAllGather = segments, moved/2
					case RendezvousWrite:
						want.RTS, want.CTS, want.Writes = segments, segments, segments
					case RendezvousRead:
						want.RTS, want.Reads, want.FIN = segments, segments, segments
					}
					want.Overlapped, want.Credits = s.Overlapped, s.Credits
					if s != want {
						t.Errorf("rank %d: %+v, want %+v", r, s, want)
					}
					if credits := (s.Credits > 0); credits != (protocol == Eager) {
						t.Errorf("rank %d: %d credits under %s", r, s.Credits, protocol)
					}
				}
				if depth == 1 && overlapped != 0 || depth > 1 && overlapped == 0 {
					t.Errorf("at depth %d, %d reductions finished while a transfer was in flight", depth, overlapped)
				}
			})
		}
	}
}

// minus returns the difference of two snapshots.
func minus(s, o Stats) Stats {
	return Stats{
		Operations:      s.Operations - o.Operations,
		Sent:            s.Sent - o.Sent,
		Received:        s.Received - o.Received,
		CopiedAllGather: s.CopiedAllGather - o.CopiedAllGather,
		CopiedOwn:       s.CopiedOwn - o.CopiedOwn,
		Reductions:      s.Reductions - o.Reductions,
		Overlapped:      s.Overlapped - o.Overlapped,
		EagerWrites:     s.EagerWrites - o.EagerWrites,
		Credits:         s.Credits - o.Credits,
		Writes:          s.Writes - o.Writes,
		Reads:           s.Reads - o.Reads,
		RTS:             s.RTS - o.RTS,
		CTS:             s.CTS - o.CTS,
		FIN:             s.FIN - o.FIN,
	}
}

// TestZeroCopyAllGather: under rendezvous no CPU moves a byte of an all-gather
// in place; out of place only the own chunk.
func TestZeroCopyAllGather(t *testing.T) {
	const n, count = 4, 1 << 18
	w := newWorld(t, n, ring.Options{}, nil)
	k := newKit(w, count, reduce.Float32, reduce.Sum)
	k.expect(count)
	for _, protocol := range rendezvous {
		k.check(OpAllGather, count, CallOptions{Protocol: protocol}, true)
	}
	for r, c := range w.comms {
		if s := c.Stats(); s.CopiedAllGather+s.CopiedOwn != 0 || s.Received != 2*(n-1)*count*4/n {
			t.Errorf("rank %d, in place: %+v", r, s)
		}
	}
	k.check(OpAllGather, count, CallOptions{Protocol: RendezvousWrite}, false)
	for r, c := range w.comms {
		if s := c.Stats(); s.CopiedAllGather != 0 || s.CopiedOwn != count*4/n {
			t.Errorf("rank %d, out of place: %+v", r, s)
		}
	}
}

// TestAllocations: nothing is allocated per operation or per segment, with
// addresses under each protocol.
func TestAllocations(t *testing.T) {
	if verbstest.Race {
		t.Skip("the race detector allocates")
	}
	// What an operation allocates, it allocates in every try; what the control ring
	// allocates, for signs of life and clocks, comes once a second, and counts in few
	// tries even where operations take long, on a busy machine.
	const n, count, runs, tries = 2, 1 << 16, 100, 30
	w := newWorld(t, n, ring.Options{}, nil)
	k := newKit(w, count, reduce.Float32, reduce.Sum)
	for _, o := range append(verified(allWays()), append(allWays(), CallOptions{})...) {
		o.Segment = 16 << 10
		once := func(rank int) error {
			return w.comms[rank].AllReduce(context.Background(), k.send[rank].Addr(), k.recv[rank].Addr(), count, k.typ, k.red, o)
		}
		allocs := 1.0
		for try := 0; try < tries && allocs >= 1; try++ {
			peer := make(chan error, 1)
			go func() {
				var errs error
				for range runs + 1 { // AllocsPerRun runs once more to warm up
					errs = errors.Join(errs, once(1))
				}
				peer <- errs
			}()
			var failed error
			// The average counts both ranks: they are goroutines of one process.
			allocs = testing.AllocsPerRun(runs, func() { failed = errors.Join(failed, once(0)) })
			if err := errors.Join(failed, <-peer); err != nil {
				t.Fatal(err)
			}
		}
		if allocs >= 1 {
			t.Errorf("%s: %v allocations per operation, want 0 (segments verified: %v)", wayName(o), allocs, o.Verify)
		}
	}
}
