package collective

import (
	"context"
	"fmt"
	"testing"

	"ringcli/collective/journal"
	"ringcli/collective/reduce"
	"ringcli/ring"
)

// TestJournals: where data changed between two ranks, what all ranks have noted of a run
// says which edge it was and which elements; and of an undisturbed run nothing.
func TestJournals(t *testing.T) {
	const n, odd = 4, 2
	for _, count := range []int{4000, 300_000} {
		for _, way := range append(allWays(), CallOptions{Algorithm: AlgorithmRing, Protocol: Eager, Segment: 256}) {
			for op := range OpBarrier {
				if way.Protocol == ReceiverInitiated && op != OpAllReduce || count > 4000 && op != OpAllReduce || op == OpReduceScatter && testing.Short() {
					continue
				}
				t.Run(fmt.Sprintf("%s of %d, %s", op, count, wayName(way)), func(t *testing.T) {
					t.Parallel()
					damages := false
					w := newWorld(t, n, ring.Options{}, func(rank int) Options {
						return Options{Corrupt: func(_ Operation, segment int, payload []byte) {
							if damages && rank == odd && segment == 0 {
								payload[len(payload)/2] ^= 4
							}
						}}
					})
					k := newKit(w, count, reduce.Int32, reduce.Sum)
					for _, damages = range []bool{false, true, false} {
						journals := make([]journal.Journal, n)
						w.must(func(rank int, c *Comm) error {
							j, err := c.RunRecorded(context.Background(), Call{Op: op, Count: count, Type: reduce.Int32, Reduction: reduce.Sum, Send: k.send[rank].Addr(), Recv: k.recv[rank].Addr(), CallOptions: way})
							journals[rank] = *j
							return err
						})
						found := journal.Compare(journals)
						if !damages && len(found) > 0 || damages && len(found) != 1 {
							t.Fatalf("damages %v: found %+v", damages, found)
						}
						for _, a := range found {
							if a.To != odd || way.Algorithm == AlgorithmRing && a.From != odd-1 || a.Hi <= a.Lo || a.Segment != 0 || op == OpAllGather && !a.Gathers {
								t.Errorf("found %+v", a)
							}
						}
						for rank, j := range journals {
							for _, l := range j.Legs {
								if len(l.Entries) > journal.Entries || l.Count == 0 {
									t.Errorf("rank %d: %d segments in %d entries", rank, l.Count, len(l.Entries))
								}
							}
						}
					}
				})
			}
		}
	}
}
