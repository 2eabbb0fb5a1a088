package collective

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"ringcli/collective/script"
	"ringcli/ring"
	"ringcli/verbs/verbstest"
)

// barrierWays are all that a barrier has on such a device, the usual one first.
func barrierWays(device string) []CallOptions {
	ways := []CallOptions{{}, {Algorithm: AlgorithmRing}, {Algorithm: AlgorithmRecursiveDoubling}, {Algorithm: AlgorithmTree}, {Algorithm: AlgorithmInbox, Protocol: Eager}}
	if device == shared0 {
		ways = append(ways, CallOptions{Algorithm: AlgorithmInbox, Protocol: Direct})
	}
	return ways
}

// TestBarrier: no rank leaves a barrier before the last has entered it. Each rank is the
// last in turn, which it is for certain: it enters once all others are about to, and a
// little later, so that they would be through if nothing held them.
func TestBarrier(t *testing.T) {
	sizes := []int{1, 2, 3, 4, 5, 6, 7, 8, 9}
	if testing.Short() || verbstest.Race {
		sizes = []int{1, 2, 3, 5}
	}
	for _, device := range []string{"soft:lo", shared0} {
		for _, n := range sizes {
			t.Run(fmt.Sprintf("%s, %d ranks", device, n), func(t *testing.T) {
				w := newWorld(t, n, ring.Options{Device: device}, nil)
				for _, way := range barrierWays(device) {
					if n > way.Algorithm.MaxRanks(way.Protocol, true) || way.Protocol == Direct && w.comms[0].agreement.Load().NotShared != "" {
						continue
					}
					if p, err := w.comms[0].Plan(Call{Op: OpBarrier, CallOptions: way}); err != nil || n > 1 && way.Algorithm != AlgorithmAuto && p.Algorithm != way.Algorithm {
						t.Fatalf("%+v is %s, %v", way, p, err)
					}
					var about, entered atomic.Int64
					w.must(func(rank int, c *Comm) error {
						for last := range n {
							if rank != last {
								about.Add(1)
							} else {
								for about.Load() < int64((last+1)*(n-1)) && c.Err() == nil {
									time.Sleep(10 * time.Microsecond)
								}
								time.Sleep(time.Millisecond)
							}
							entered.Add(1)
							if err := c.Run(context.Background(), Call{Op: OpBarrier, CallOptions: way}); err != nil {
								return err
							}
							if got := entered.Load(); got < int64((last+1)*n) {
								t.Errorf("%s: rank %d left barrier %d when %d of %d ranks had entered it", wayName(way), rank, last, got-int64(last*n), n)
							}
						}
						return nil
					})
				}
			})
		}
	}
}

// TestBarrierScripts plays the scripts of a barrier with one slot on every edge: at the end
// every rank has heard of all, and by dissemination after as many messages as n has bits.
func TestBarrierScripts(t *testing.T) {
	for _, a := range scripted {
		for n := 2; n <= 40; n++ {
			actors, known := make([]script.Script, n), make([]map[int]bool, n)
			next := make([]int, n)
			for r := range actors {
				k := Call{Op: OpBarrier, CallOptions: CallOptions{Algorithm: a}}
				k.Script(&actors[r], r, n, nil)
				known[r] = map[int]bool{r: true}
			}
			wire := map[[2]int]map[int]bool{}
			for moved := true; moved; {
				moved = false
				for r := range actors {
					if next[r] == len(actors[r].Moves) {
						continue
					}
					m := actors[r].Moves[next[r]]
					out, in := [2]int{r, m.Peer}, [2]int{m.Peer, r}
					switch {
					case !takesMessage(m) && wire[out] == nil:
						wire[out] = map[int]bool{}
						for k := range known[r] {
							wire[out][k] = true
						}
					case takesMessage(m) && wire[in] != nil:
						for k := range wire[in] {
							known[r][k] = true
						}
						wire[in] = nil
					default:
						continue
					}
					next[r]++
					moved = true
				}
			}
			for r := range actors {
				if len(known[r]) != n || next[r] != len(actors[r].Moves) {
					t.Errorf("%s, %d ranks: rank %d has heard of %d, after %d of %d moves", a, n, r, len(known[r]), next[r], len(actors[r].Moves))
				}
				if sends := slices.DeleteFunc(slices.Clone(actors[r].Moves), takesMessage); a == AlgorithmRecursiveDoubling && 1<<len(sends) >= 2*n {
					t.Errorf("%d ranks: rank %d sends %d messages", n, r, len(sends))
				}
			}
		}
	}
}
