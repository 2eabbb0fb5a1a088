package collective

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"ringcli/collective/plan"
	"ringcli/collective/reduce"
	"ringcli/ring"
	"ringcli/verbs"
	"ringcli/verbs/verbstest"
)

// TestChannels: over several queue pairs to each neighbour all operations give the same bits, by
// all protocols and segments, verified and not, while ranks are ahead of each other; and each
// queue pair that data flows over carries some.
func TestChannels(t *testing.T) {
	rounds := 60
	if testing.Short() || verbstest.Race {
		rounds = 12
	}
	for _, device := range []string{"soft:lo", shared0, "soft:lo,soft:lo"} {
		for _, n := range []int{2, 3, 5} {
			for _, channels := range []int{2, 4, 5} {
				if testing.Short() && (n+channels)%2 == 0 || verbstest.Race && channels != 4 {
					continue
				}
				t.Run(fmt.Sprintf("%s, %d ranks, %d channels", device, n, channels), func(t *testing.T) {
					const longest = 20_000
					w := newWorld(t, n, ring.Options{Device: device, Channels: channels, SlotSize: 4096, Slots: 8}, nil)
					k := newKit(w, longest, reduce.Float32, reduce.Sum)
					rng := rand.New(rand.NewPCG(uint64(n*channels), matrixSeed))
					for round := range rounds {
						count := []int{rng.IntN(longest + 1), longest, 0, 1}[round%4]
						k.expect(count)
						for op := range OpBarrier {
							o := ringWays[rng.IntN(len(ringWays))]
							o.Segment, o.Depth, o.Sync, o.Verify = 4+rng.IntN(6000), rng.IntN(plan.MaxDepth+1), rng.IntN(4) == 0, rng.IntN(3) == 0
							k.check(op, count, w.comms[0].elseEager(op, o), rng.IntN(2) == 0)
						}
					}
					for _, r := range w.rings {
						for channel := range channels {
							end, err := r.Ends().Own(ring.Right.Edge().On(channel))
							if err != nil {
								t.Fatal(err)
							}
							if end.Traffic.SentBytes < 10_000 {
								t.Errorf("rank %d, channel %d: it has sent %+v", r.Rank(), channel, end.Traffic)
							}
						}
					}
				})
			}
		}
	}
}

// TestChannelsCarryAlike: a long vector is spread over the queue pairs in equal parts.
func TestChannelsCarryAlike(t *testing.T) {
	const n, channels, count = 2, 4, 1 << 20
	for _, p := range []Protocol{Eager, RendezvousWrite, RendezvousRead, ReceiverInitiated} {
		w := newWorld(t, n, ring.Options{Channels: channels}, nil)
		w.must(func(_ int, c *Comm) error {
			b, err := c.Alloc(count * 4)
			if err != nil {
				return err
			}
			return c.AllReduce(context.Background(), b.Addr(), b.Addr(), count, reduce.Float32, reduce.Sum, CallOptions{Algorithm: AlgorithmRing, Protocol: p, Segment: 64 << 10, Depth: 4})
		})
		for _, r := range w.rings {
			var carried [channels]uint64
			for channel := range channels {
				for _, side := range []ring.Side{ring.Left, ring.Right} {
					end, err := r.Ends().Own(side.Edge().On(channel))
					if err != nil {
						t.Fatal(err)
					}
					carried[channel] += end.Traffic.SentBytes
				}
			}
			for channel, bytes := range carried {
				if bytes < count || bytes > count*5/4 {
					t.Errorf("%s: rank %d, channel %d: %d of %v bytes: expected about %d", p, r.Rank(), channel, bytes, carried, count)
				}
			}
		}
	}
}

// TestChannelsImpaired: packets are lost, doubled and reordered, so that channels get on at
// different speeds; the bits are the same.
func TestChannelsImpaired(t *testing.T) {
	const n, longest = 3, 30_000
	w := newWorld(t, n, ring.Options{Channels: 3, SlotSize: 4096, Slots: 8, Inject: "soft: loss 2%, duplicate 2%, reorder 5%, seed 7"}, nil)
	k := newKit(w, longest, reduce.Float32, reduce.Sum)
	k.expect(longest)
	for _, way := range ringWays {
		for op := range OpBarrier {
			way.Segment, way.Depth = 3000, 6
			k.check(op, longest, w.comms[0].elseEager(op, way), true)
		}
	}
}

// TestChannelLost: a queue pair that fails during operations is named with its channel on all
// ranks.
func TestChannelLost(t *testing.T) {
	const n, victim, channel = 3, 1, 2
	w := newWorld(t, n, ring.Options{Channels: 3, QPTimeout: new(17), RetryCnt: new(1)}, nil)
	w.timeout(8 * time.Second)
	if err := w.rings[victim].Left().Channels()[channel].QP.Modify(verbs.QPAttr{State: verbs.StateErr}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	errs := w.each(func(rank int, c *Comm) error {
		b, err := c.Alloc(400_000)
		if err != nil {
			return err
		}
		return c.AllReduce(context.Background(), b.Addr(), b.Addr(), 100_000, reduce.Float32, reduce.Sum, CallOptions{Algorithm: AlgorithmRing, Protocol: Eager, Segment: 4096})
	})
	for rank, err := range errs {
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("channel %d", channel)) {
			t.Errorf("rank %d: %v: expected channel %d", rank, err, channel)
		}
	}
}
