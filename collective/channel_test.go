package collective

import (
	"context"
	"fmt"
	"testing"
	"time"

	"ringcli/collective/plan"
	"ringcli/collective/reduce"
	"ringcli/ring"
	"ringcli/verbs/memory"
	"ringcli/verbs/verbstest"
)

// TestDetached: an operation that did not wait for its last message has sent what
// its buffer had then, although that is overwritten at once and the message is lost
// now and then; and Close waits until it has come, so that another Comm can follow.
func TestDetached(t *testing.T) {
	const n, count, comms = 3, 300, 3
	calls := 40
	if testing.Short() {
		calls = 12
	}
	w := newWorld(t, n, ring.Options{Hosts: "2,1", Inject: "soft: loss 5%, duplicate 2%, reorder 2%, seed 3"}, nil)
	for generation := range comms {
		w.must(func(rank int, c *Comm) error {
			if generation > 0 {
				next, err := New(w.rings[rank], Options{})
				if err != nil {
					return err
				}
				w.comms[rank], c = next, next
			}
			b, err := c.Alloc(count * 8)
			if err != nil {
				return err
			}
			in, out := memory.Slice[int32](b.Addr(), count), memory.Slice[int32](b.Addr()+count*4, count)
			for call := range calls {
				for i := range in {
					in[i] = int32(call*count + i + rank)
				}
				o := CallOptions{Algorithm: plan.Algorithms()[1+call%(len(plan.Algorithms())-1)]}
				if err := c.AllReduce(context.Background(), b.Addr(), b.Addr()+count*4, count, reduce.Int32, reduce.Sum, o); err != nil {
					return err
				}
				for i, got := range out {
					if want := int32(n*(call*count+i) + n*(n-1)/2); got != want {
						return fmt.Errorf("call %d by %s: element %d is %d: want %d", call, o.Algorithm, i, got, want)
					}
				}
			}
			if err := c.Close(); err != nil {
				return err
			}
			if n := c.exec.Detached(); n != 0 {
				return fmt.Errorf("%d WRITEs are under way after Close", n)
			}
			return nil
		})
	}
}

// TestLateDuplicates: a third of all packets come twice, the second time up to 20 ms
// late: after the operation, and often after its buffers were freed. Nothing is wrong,
// and the ring lives.
func TestLateDuplicates(t *testing.T) {
	const n = 3
	calls := 1000
	if testing.Short() || verbstest.Race {
		calls = 200
	}
	w := newWorld(t, n, ring.Options{Inject: "soft: duplicate 30%, late 20ms, seed 5"}, nil)
	w.must(func(rank int, c *Comm) error {
		for call := range calls {
			count := uint64(1 + call*37%5000)
			b, err := c.Alloc(count * 8)
			if err != nil {
				return err
			}
			in, out := memory.Slice[int32](b.Addr(), int(count)), memory.Slice[int32](b.Addr()+count*4, int(count))
			for i := range in {
				in[i] = int32(call + i + rank)
			}
			o := CallOptions{Algorithm: AlgorithmRing, Protocol: []Protocol{RendezvousRead, Eager, ReceiverInitiated}[call%3]}
			if err := c.AllReduce(context.Background(), b.Addr(), b.Addr()+count*4, int(count), reduce.Int32, reduce.Sum, o); err != nil {
				return fmt.Errorf("call %d by %s: %w", call, o.Protocol, err)
			}
			for i, got := range out {
				if want := int32(n*(call+i) + n*(n-1)/2); got != want {
					return fmt.Errorf("call %d by %s: element %d is %d: want %d", call, o.Protocol, i, got, want)
				}
			}
			if err := b.Free(); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestBadWires: an all-reduce of 1 MiB ends in time, and right, over wires that lose a
// tenth of all packets or deliver them in any order.
func TestBadWires(t *testing.T) {
	for _, inject := range []string{"soft: loss 10%, seed 1", "soft: jitter 20ms, seed 2", "soft: reorder 10%, jitter 1ms, seed 3"} {
		w := newWorld(t, 3, ring.Options{Inject: inject}, nil)
		const count = 1 << 18
		k := newKit(w, count, reduce.Float32, reduce.Sum)
		k.expect(count)
		for _, p := range []Protocol{Eager, RendezvousWrite, RendezvousRead, ReceiverInitiated} {
			start := time.Now()
			k.check(OpAllReduce, count, CallOptions{Algorithm: AlgorithmRing, Protocol: p}, false)
			t.Logf("%s, %s: %v", inject, p, time.Since(start).Round(time.Millisecond))
		}
	}
}
