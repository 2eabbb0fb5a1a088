package collective

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"ringcli/collective/reduce"
	"ringcli/ring"
	"ringcli/verbs/memory"
	"ringcli/verbs/verbstest"
)

// TestSharedReuse: between operations ranks free and take buffers in orders of their
// own, so that new ones lie where old ones did and have their keys again. Nobody sees
// an old one: every element has a value of its operation.
func TestSharedReuse(t *testing.T) {
	const n, most = 3, 70000
	rounds := 100
	if testing.Short() || verbstest.Race {
		rounds = 30
	}
	w := newWorld(t, n, ring.Options{Device: shared0}, nil)
	again := make([]int, n)
	w.must(func(rank int, c *Comm) error {
		all, own := rand.New(rand.NewPCG(1, 0)), rand.New(rand.NewPCG(2, uint64(rank)))
		private, err := memory.Alloc(4 * most)
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = private.Free() }) // after the Comm's Close, or before: it is deregistered below
		had := map[uint64]bool{}
		var kept []*Buffer // send and receive, next to each other
		take := func() (b *Buffer, err error) {
			if own.IntN(5) > 0 {
				b, err = c.Alloc(4 * most)
			} else {
				b, err = c.Register(private.Addr(), 4*most)
			}
			if err == nil && had[b.Addr()] {
				again[rank]++
			}
			return b, err
		}
		for i := range rounds {
			for len(kept) > 0 && (own.IntN(2) == 0 || len(kept) > 3) {
				at := own.IntN(len(kept))
				had[kept[at].Addr()] = true
				if err := kept[at].Free(); err != nil {
					return err
				}
				kept = append(kept[:at], kept[at+1:]...)
			}
			b, err := take()
			if err != nil {
				return err
			}
			kept = append(kept, b)
			count := 1 + all.IntN(most)
			if i%3 == 0 {
				count = 1 + all.IntN(most/20)
			}
			at := uint64(own.IntN(most-count+1)) * 4 // in the middle of a region
			data := memory.Slice[int32](b.Addr()+at, count)
			for j := range data {
				data[j] = int32(rank + i + j)
			}
			way := directWays[0]
			if i%4 > 0 {
				way = directWays[1]
			}
			if err := c.AllReduce(context.Background(), b.Addr()+at, b.Addr()+at, count, reduce.Int32, reduce.Sum, way); err != nil {
				return err
			}
			for j, got := range data {
				if want := int32(n*(i+j) + n*(n-1)/2); got != want {
					return fmt.Errorf("operation %d of %d elements: element %d is %d, want %d", i, count, j, got, want)
				}
			}
		}
		for _, b := range kept {
			err = errors.Join(err, b.Free())
		}
		return err
	})
	for rank, reused := range again {
		if reused == 0 {
			t.Errorf("rank %d: no address came again, so that nothing is shown", rank)
		}
	}
}

// TestSharedRegions: a region may be a part of memory that can be mapped, and several
// may overlap; what was taken back is refused, and harms nothing.
func TestSharedRegions(t *testing.T) {
	const n, count = 2, 50000
	w := newWorld(t, n, ring.Options{Device: shared0}, nil)
	w.must(func(rank int, c *Comm) error {
		m, err := w.rings[rank].Memory().Alloc(12 * count)
		if err != nil {
			return err
		}
		part, err := c.Register(m.Addr()+4096, 4*count)
		if err != nil {
			return err
		}
		whole, err := c.Register(m.Addr(), 12*count)
		if err != nil {
			return err
		}
		reduceAt := func(addr uint64) error {
			data := memory.Slice[int32](addr, count)
			for i := range data {
				data[i] = int32(i + rank)
			}
			if err := c.AllReduce(context.Background(), addr, addr, count, reduce.Int32, reduce.Sum, directWays[1]); err != nil {
				return err
			}
			for i, got := range data {
				if want := int32(2*i + 1); got != want {
					return fmt.Errorf("element %d is %d, want %d", i, got, want)
				}
			}
			return nil
		}
		err = errors.Join(reduceAt(part.Addr()), reduceAt(whole.Addr()+8*count), part.Free(), reduceAt(m.Addr()+4096), whole.Free())
		if e := reduceAt(m.Addr() + 4096); !errors.Is(e, ErrUsage) {
			t.Errorf("rank %d: after Free: %v, want an error of usage", rank, e)
		}
		return errors.Join(err, c.Barrier(context.Background()), m.Free(), c.Barrier(context.Background()))
	})
}
