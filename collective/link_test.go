package collective

import (
	"context"
	"fmt"
	"testing"

	"ringcli/collective/reduce"
	"ringcli/ring"
	"ringcli/verbs"
	"ringcli/verbs/memory"
)

// TestDetached: an operation that did not wait for its last message has sent what
// its buffer had then, although that is overwritten at once and the message is lost
// now and then; and Close waits until it has come, so that another Comm can follow.
func TestDetached(t *testing.T) {
	const n, count, calls, comms = 3, 300, 40, 3
	w := newWorld(t, n, ring.Options{
		QPTimeout: new(9), Impair: &verbs.Impairment{Seed: 3, Loss: 0.05, Duplicate: 0.02, Reorder: 0.02},
	}, nil)
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
				o := CallOptions{Algorithm: Algorithms()[1+call%(len(Algorithms())-1)]}
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
			for _, l := range c.links {
				if l != nil && l.outstanding != 0 {
					return fmt.Errorf("%d requests to %s are under way after Close, %d of them detached", l.outstanding, l, l.detached)
				}
			}
			return nil
		})
	}
}
