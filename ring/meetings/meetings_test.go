package meetings

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ringcli/ring"
	"ringcli/verbs"
	_ "ringcli/verbs/shm"
	_ "ringcli/verbs/soft"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Each rank meets each other twice with the same two queue pairs, and hears what the other one
// says and nobody else.
func TestMeetings(t *testing.T) {
	const n = 4
	meets := [][n]int{{1, 0, 3, 2}, {2, 3, 0, 1}, {3, 2, 1, 0}, {1, 0, -1, -1}, {2, -1, 0, -1}}
	onRings(t, n, func(ctx context.Context, r *ring.Ring) (err error) {
		m, err := Open(ctx, r, 1000, 4, share(r))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, m.Close()) }()
		for number, all := range meets {
			peer := all[r.Rank()]
			var x *Meeting
			if peer >= 0 {
				if x, err = m.Meet(peer, uint64(number), number%QPs, number%QPs); err != nil {
					return err
				}
			}
			if err := r.Barrier(ctx); err != nil {
				return err
			}
			if x != nil {
				if err := talk(ctx, m, x, uint32(number*100+r.Rank()), uint32(number*100+peer)); err != nil {
					return fmt.Errorf("meeting %d of %d and %d: %w", number, r.Rank(), peer, err)
				}
			}
		}
		return r.Barrier(ctx)
	})
}

// What a rank cannot do, none begins.
func TestProblem(t *testing.T) {
	onRings(t, 2, func(ctx context.Context, r *ring.Ring) error {
		bytes := 1000
		if r.Rank() == 1 {
			bytes = 1 << 50
		}
		m, err := Open(ctx, r, bytes, 4, share(r))
		if err == nil {
			return errors.Join(errors.New("no error"), m.Close())
		}
		return nil
	})
}

// onRings runs a test on n ranks that are goroutines of this process.
func onRings(t *testing.T, n int, test func(context.Context, *ring.Ring) error) {
	for _, device := range []string{"soft:lo", "shm"} {
		t.Run(device, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			servers, errs := freshServers(t, n), make([]error, n)
			var wg sync.WaitGroup
			for rank := range n {
				wg.Go(func() {
					r, err := ring.Connect(ctx, servers, rank, ring.Options{Device: device, Wait: verbs.WaitGosched})
					if err == nil {
						err = errors.Join(test(ctx, r), r.Close())
					}
					errs[rank] = err
				})
			}
			wg.Wait()
			if err := errors.Join(errs...); err != nil {
				t.Error(err)
			}
		})
	}
}

// freshServers returns n addresses of a 127.x.y.0/24 that nobody uses. The address
// .254 stays bound to hold it.
func freshServers(t *testing.T, n int) []string {
	t.Helper()
	for range 100 {
		subnet := fmt.Sprintf("127.%d.%d.", 1+rand.IntN(254), 1+rand.IntN(254))
		claim, err := net.Listen("tcp", subnet+"254:18600")
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = claim.Close() })
		servers := make([]string, n)
		for i := range servers {
			servers[i] = fmt.Sprint(subnet, i+1)
		}
		return servers
	}
	t.Fatal("no free 127.x.y.0/24")
	return nil
}

func share(r *ring.Ring) Share {
	type told struct {
		Report
		Problem string
	}
	return func(ctx context.Context, own Report, problem error) ([]Report, error) {
		mine := told{Report: own}
		if problem != nil {
			mine.Problem = problem.Error()
		}
		data, err := json.Marshal(mine)
		if err != nil {
			return nil, err
		}
		parts, err := r.Gather(ctx, ring.Purpose{What: "meetings", Do: "meet"}, data)
		if err != nil {
			return nil, err
		}
		all := make([]Report, len(parts))
		for i, part := range parts {
			var its told
			if err := json.Unmarshal(part, &its); err != nil || its.Problem != "" {
				return nil, errors.Join(err, errors.New(its.Problem))
			}
			all[i] = its.Report
		}
		return all, nil
	}
}

// talk says a word with WRITEs before it, and waits for the peer's and for all completions.
func talk(ctx context.Context, m *Meetings, x *Meeting, say, want uint32) error {
	if err := x.Write(1000, 3); err != nil {
		return err
	}
	if err := x.Say(8, say); err != nil {
		return err
	}
	waiter := m.Waiter()
	var wc [8]verbs.Completion
	for missing := 5; missing > 0; {
		n, err := m.Poll(wc[:])
		if err != nil {
			return err
		}
		for i := range wc[:n] {
			c := &wc[i]
			kind, ok := x.Is(c)
			if !ok {
				return fmt.Errorf("a completion %#x of another meeting", c.ID)
			}
			if err := c.Status.Err(); err != nil {
				return err
			}
			if kind == Received {
				if c.Imm != want {
					return fmt.Errorf("heard %d, want %d", c.Imm, want)
				}
				if err := x.Repost(); err != nil {
					return err
				}
			}
			missing--
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%d completions are missing: %w", missing, ctx.Err())
		}
		if err := waiter.Wait(); err != nil {
			return err
		}
	}
	return nil
}
