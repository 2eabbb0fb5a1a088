package collective

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"ringcli/collective/reduce"
	"ringcli/ring"
	"ringcli/verbs/memory"
)

// TestResultsInPlaceAmongOthers: all-reduces that write results into place, by turns with
// operations that use the same slots otherwise, and with pings, where a rank may be
// ahead of another by one.
func TestResultsInPlaceAmongOthers(t *testing.T) {
	const count, rounds = 20011, 60
	for _, test := range []struct{ n, slots int }{{2, 16}, {2, 4}, {3, 16}, {3, 9}, {3, 8}, {3, 5}} {
		n := test.n
		t.Run(fmt.Sprintf("%d ranks, %d slots", n, test.slots), func(t *testing.T) {
			w := newWorld(t, n, ring.Options{SlotSize: 8192, Slots: test.slots}, nil)
			w.must(func(rank int, c *Comm) error {
				b, err := c.Alloc(count * 8)
				if err != nil {
					return err
				}
				v := memory.Slice[int64](b.Addr(), count)
				sum := func(round int, o CallOptions) error {
					for i := range v {
						v[i] = int64(i + rank*round)
					}
					if err := c.AllReduce(context.Background(), b.Addr(), b.Addr(), count, reduce.Int64, reduce.Sum, o); err != nil {
						return err
					}
					for i := range v {
						if want := int64(n*i + round*n*(n-1)/2); v[i] != want {
							return fmt.Errorf("round %d: element %d is %d, want %d", round, i, v[i], want)
						}
					}
					return nil
				}
				for round := range rounds {
					switch round % 6 {
					case 1:
						_, err = w.rings[rank].Ping(context.Background(), 1)
					case 3:
						err = c.Barrier(context.Background())
					case 5:
						err = sum(round, CallOptions{Protocol: Eager, Sync: true})
					default:
						err = sum(round, c.elseEager(OpAllReduce, CallOptions{Protocol: ReceiverInitiated, Depth: 1 + round%5}))
					}
					if err != nil {
						return err
					}
				}
				if s := c.Stats(); s.Writes == 0 || s.Credits == 0 {
					return fmt.Errorf("%+v: expected writes into place and, of other operations, credits", s)
				}
				return nil
			})
		})
	}
}

// TestResultsInPlaceDisagreement: two ranks, one of which expects all data on one queue pair,
// and the other on both.
func TestResultsInPlaceDisagreement(t *testing.T) {
	for odd := range 2 {
		w := newWorld(t, 2, ring.Options{}, nil)
		for rank, err := range w.each(func(rank int, c *Comm) error {
			const count = 50000
			b, err := c.Alloc(count * 4)
			if err != nil {
				return err
			}
			o := CallOptions{Protocol: []Protocol{Eager, ReceiverInitiated}[(rank+odd)%2]}
			return c.AllReduce(context.Background(), b.Addr(), b.Addr(), count, reduce.Float32, reduce.Sum, o)
		}) {
			if !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), "sum, receiver-initiated") {
				t.Errorf("rank %d, with rank %d eager: %v: expected a disagreement that says so", rank, odd, err)
			}
		}
	}
}
