package collective

import (
	"fmt"
	"testing"

	"ringcli/collective/reduce"
	"ringcli/ring"
	"ringcli/verbs/memory"
	"ringcli/verbs/path"
)

// TestMixedDevices: a ring whose edges are on shared memory and on soft devices
// computes what any other does, under every protocol and algorithm.
func TestMixedDevices(t *testing.T) {
	const n, count = 4, 10007
	w := newWorldOf(t, n, func(rank int) ring.Options {
		o := ring.Options{Device: path.Auto, Slots: 8, SlotSize: 16 << 10}
		if rank == 2 { // says that it is elsewhere
			h := path.ThisHost()
			h.BootID = "another"
			o.Host = &h
		}
		return o
	}, nil)
	used := map[string]bool{}
	for _, r := range w.rings {
		used[r.Left().Device().Provider()] = true
	}
	if len(used) != 2 {
		t.Fatalf("the edges are on %v: expected shared memory and soft devices", used)
	}
	for _, o := range []CallOptions{
		{Algorithm: AlgorithmRing, Protocol: Eager}, {Algorithm: AlgorithmRing, Protocol: RendezvousWrite}, {Algorithm: AlgorithmRing, Protocol: RendezvousRead},
		{Algorithm: AlgorithmRecursiveDoubling}, {Algorithm: AlgorithmTree}, {Algorithm: AlgorithmInbox}, {},
	} {
		t.Run(fmt.Sprintf("%v %v", o.Algorithm, o.Protocol), func(t *testing.T) {
			w.must(func(rank int, c *Comm) error {
				b, err := c.Alloc(8 * count)
				if err != nil {
					return err
				}
				defer func() { _ = b.Free() }()
				v := memory.Slice[int64](b.Addr(), count)
				for i := range v {
					v[i] = int64(i * (rank + 1))
				}
				if err := c.AllReduce(t.Context(), b.Addr(), b.Addr(), count, reduce.Int64, reduce.Sum, o); err != nil {
					return err
				}
				for i, got := range v {
					if want := int64(i * n * (n + 1) / 2); got != want {
						return fmt.Errorf("element %d is %d: expected %d", i, got, want)
					}
				}
				return nil
			})
		})
	}
}
