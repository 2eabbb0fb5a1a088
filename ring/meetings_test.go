package ring

import (
	"context"
	"fmt"
	"testing"
	"time"

	"ringcli/verbs"
)

// Each rank meets each other twice with the same two queue pairs, and hears what the other one
// says and nobody else.
func TestMeetings(t *testing.T) {
	for _, device := range []string{"soft:lo", "shm"} {
		t.Run(device, func(t *testing.T) {
			const n = 4
			world := connect(t, n, func(_ int, o *Options) { o.Device = device })
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			meets := [][]int{{1, 0, 3, 2}, {2, 3, 0, 1}, {3, 2, 1, 0}, {1, 0, -1, -1}, {2, -1, 0, -1}}
			noErrors(t, each(world, func(r *Ring) (err error) {
				m, err := r.OpenMeetings(ctx, 1000, 4)
				if err != nil {
					return err
				}
				defer func() {
					if closeErr := m.Close(); err == nil {
						err = closeErr
					}
				}()
				if len(r.MeshEdges()) != 0 {
					return fmt.Errorf("%d edges of a mesh: expected none", len(r.MeshEdges()))
				}
				for number, all := range meets {
					peer := all[r.Rank()]
					var x *Meeting
					if peer >= 0 {
						if x, err = m.Meet(peer, uint64(number), number%MeetingQPs, number%MeetingQPs); err != nil {
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
			}))
		})
	}
}

// talk says a word with a WRITE of each kind before it, and waits for the peer's and for all
// completions.
func talk(ctx context.Context, m *Meetings, x *Meeting, say, want uint32) error {
	if err := x.Write(verbs.OpWrite, 1000, 3, 0); err != nil {
		return err
	}
	if err := x.Write(verbs.OpWriteImm, 8, 1, say); err != nil {
		return err
	}
	waiter := m.Waiter(false)
	var wc [8]verbs.Completion
	for missing := 5; missing > 0; {
		n, err := m.Poll(wc[:])
		if err != nil {
			return err
		}
		for i := range wc[:n] {
			c := &wc[i]
			if !x.Is(c) {
				continue
			}
			if err := c.Status.Err(); err != nil {
				return err
			}
			if _, kind, value := ParseWRID(c.ID); kind == WRRecv {
				if c.Imm != want {
					return fmt.Errorf("heard %d, want %d", c.Imm, want)
				}
				if err := x.Repost(value); err != nil {
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
