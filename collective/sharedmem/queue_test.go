package sharedmem

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"ringcli/collective/reduce"
	"ringcli/collective/reduce/reference"
	"ringcli/verbs/memory"
	"ringcli/verbs/verbstest"
)

// rootedCall returns a call with a root over a rank's own memory.
func rootedCall(rank, root int, phases Phases, typ reduce.Type, count int, send, recv []byte) Call {
	c := callOf(rank, count, send)
	kept.Store(&recv[0], recv)
	c.Name, c.Phases, c.Rooted, c.Type, c.Root = "rooted", phases, true, typ, uint64(root)
	c.Digest = uint64(phases)<<8 | uint64(typ)
	c.Recv.Addr = memory.Addr(recv)
	return c
}

// Calls with a root, of every length by chance, that no call in which all wait for all comes
// between: some ranks are far ahead, and what is posted is written over again and again.
func TestQueue(t *testing.T) {
	for _, n := range []int{2, 3, inboxRanks, inboxRanks + 1} {
		if testing.Short() && n > 3 && verbstest.Race {
			continue
		}
		for _, crowded := range []bool{false, true} {
			w := newWorld(t, n, func(c *Config) { c.Crowded = crowded })
			w.must(func(rank int, team *Team) error { return queueOf(rank, n, team) })
		}
	}
}

func queueOf(rank, n int, team *Team) error {
	same := rand.New(rand.NewPCG(uint64(n), 7)) // as on all ranks
	pause := rand.New(rand.NewPCG(uint64(rank), 8))
	for i := range 4 * queueDepth {
		typ := []reduce.Type{reduce.Int8, reduce.Float32, reduce.Float64}[same.IntN(3)]
		root, most := same.IntN(n), []int{linePayload + 1, 300, QueueMost + 1, QueueMost + 100}[same.IntN(4)]
		count, phases, inPlace, seed := same.IntN(most)/typ.Size(), []Phases{Reduce, Gather}[same.IntN(2)], same.IntN(2) == 0, same.Uint64()
		if i%(2*queueDepth) < queueDepth { // a rank that is ahead of all others
			root, phases = 0, Gather
		}
		bytes := count * typ.Size()
		send, recv := make([]byte, bytes+1), make([]byte, bytes+1)
		reference.Fill(send[:bytes], typ, reduce.Sum, rank, 0, seed)
		if inPlace {
			recv = send
		}
		want := make([]byte, bytes)
		if phases == Gather {
			reference.Fill(want, typ, reduce.Sum, root, 0, seed)
		} else if rank == root {
			reference.NewChecker(reference.RankOrder, typ, reduce.Sum, n, count, seed).Expect(0, count, want)
		} else {
			copy(want, recv)
		}
		c := rootedCall(rank, root, phases, typ, count, send, recv)
		if err := team.Inbox(&c); err != nil {
			return err
		}
		if wrong, first := reference.Compare(recv[:bytes], want, typ); wrong > 0 || recv[bytes] != 0 {
			return fmt.Errorf("rank %d of %d, call %d, root %d, phases %d, %d %s: %d wrong from %d", rank, n, i, root, phases, count, typ, wrong, first)
		}
		if pause.IntN(64) == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

// Who contributes does not wait for who takes, as far as there is room; then it does, and says
// for whom.
func TestQueueAhead(t *testing.T) {
	for name, phases := range map[string]Phases{"broadcast": Gather, "reduce": Reduce} {
		for bytes, most := range map[int]int{8: queueDepth, 4 << 10: queueBytes >> 12} {
			w := newWorld(t, 3, func(c *Config) { c.Timeout = after(200 * time.Millisecond) })
			rank := 0
			if phases == Reduce {
				rank = 1
			}
			c := rootedCall(rank, 0, phases, reduce.Float32, bytes/4, make([]byte, bytes), make([]byte, bytes))
			calls := 0
			var err error
			for ; err == nil && calls <= most; calls++ {
				err = w.teams[rank].Inbox(&c)
			}
			if calls != most+1 || !errors.Is(err, ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) ||
				!strings.Contains(err.Error(), "rank 2 is past 0") {
				t.Errorf("%s of %d: call %d: %v", name, bytes, calls, err)
			}
			if !w.teams[rank].Ahead() {
				t.Errorf("%s of %d: it is not ahead", name, bytes)
			}
		}
	}
}

// Who takes names who has not posted.
func TestQueueAwaits(t *testing.T) {
	for name, phases := range map[string]Phases{"broadcast": Gather, "reduce": Reduce} {
		for _, n := range []int{3, inboxRanks + 2} {
			w := newWorld(t, n, func(c *Config) { c.Timeout = after(200 * time.Millisecond) })
			for r, err := range w.each(func(rank int, t *Team) error {
				if rank == 1 {
					return nil
				}
				root := 1
				if phases == Reduce {
					root = 0
				}
				c := rootedCall(rank, root, phases, reduce.Float32, 100, make([]byte, 400), make([]byte, 400))
				return t.Inbox(&c)
			}) {
				switch {
				case r == 1 || phases == Reduce && r != 0:
					if err != nil {
						t.Errorf("%s of %d ranks: rank %d: %v", name, n, r, err)
					}
				case !errors.Is(err, ErrTimeout) || !strings.Contains(err.Error(), "awaited from rank 1"):
					t.Errorf("%s of %d ranks: rank %d: %v", name, n, r, err)
				}
			}
		}
	}
}

// Who takes sees that another rank has called something else, though that has gone on.
func TestQueueDisagreement(t *testing.T) {
	w := newWorld(t, 2, nil)
	for r, err := range w.each(func(rank int, t *Team) (err error) {
		c := rootedCall(rank, 0, Gather, reduce.Float32, 100-rank, make([]byte, 400), make([]byte, 400))
		if rank == 0 {
			for range 3 {
				err = errors.Join(err, t.Inbox(&c))
			}
			return err
		}
		return t.Inbox(&c)
	}) {
		var e *DisagreementError
		if r == 1 && (!errors.As(err, &e) || e.Theirs.Count != 100 || e.Peer != 0) || r == 0 && err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// Who has nothing to take sees, when it has filled its lines, that another rank has posted what
// nobody looks for, though that is some calls ago and they agree again.
func TestQueueOfAnotherRoot(t *testing.T) {
	for _, odd := range []int{0, 5, queueDepth - 1, queueDepth + 7} {
		t.Run(fmt.Sprint(odd), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 2, func(c *Config) { c.Timeout = after(2 * time.Second) })
			for r, err := range w.each(func(rank int, t *Team) (err error) {
				for call := 0; err == nil && call < 3*queueDepth; call++ {
					root := 0
					if call == odd {
						root = rank
					}
					c := rootedCall(rank, root, Gather, reduce.Float32, 2, make([]byte, 8), make([]byte, 8))
					err = t.Inbox(&c)
				}
				return err
			}) {
				var e *DisagreementError
				if r == 0 && (!errors.As(err, &e) || e.Theirs.Root != 1 || e.Peer != 1 || e.Epoch) || r == 1 && !errors.Is(err, ErrTimeout) {
					t.Errorf("rank %d: %v", r, err)
				}
			}
		})
	}
}
