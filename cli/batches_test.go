package cli

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"ringcli/cli/bench/batch"
	"ringcli/cli/connect"
	"ringcli/cli/exit"
	"ringcli/cli/lines"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/configs"
)

// inProcess runs the ranks of a ring in this process: each does something in it.
func inProcess(t *testing.T, n int, do func(ctx context.Context, s *session.Session, rank int, out *bytes.Buffer) error) {
	t.Helper()
	list := strings.Join(freshList(t, n), ",")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var ranks sync.WaitGroup
	for rank := range n {
		ranks.Go(func() {
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			configs.AddFlags(flags, "list", "index")
			cfg := error(nil)
			var out, errs bytes.Buffer
			s := newInvocation(strings.NewReader(""), &out, &errs, nil, nil).Session
			s.Options = testOptions()
			if cfg = flags.Parse([]string{"--list=" + list, fmt.Sprintf("--index=%d", rank)}); cfg == nil {
				s.Config, cfg = configs.Load(flags, "")
			}
			if cfg != nil {
				t.Error(cfg)
				return
			}
			s.Out, s.Stop = render.New(&out, render.JSON), new(atomic.Bool)
			if err := connect.InRing(ctx, s, func(ctx context.Context) error { return do(ctx, s, rank, &out) }); err != nil {
				t.Errorf("rank %d: %v", rank, err)
			}
		})
	}
	ranks.Wait()
}

// What is stopped on one rank stops on all, at the same place, and the ring goes
// on.
func TestStopping(t *testing.T) {
	for _, c := range []struct{ command, want string }{
		{"all-reduce --size 64K --duration 1h --check", `after \d+ iterations`},
		{"all-reduce --size 64K --iters 100000000", `after \d+ of 100000000 iterations`},
		{"all-gather --size 64K --warmup 100000000", `after 0 of 20 iterations`},
		{"bench all-reduce -b 4K -e 4K --duration 1h", `after 0 of 1 sizes`},
		{"bench all-reduce -b 4K -e 4M --iters 1000000", `after 0 of 11 sizes`},
		{"bench all-gather -b 4K -e 4M --duration 1h --protocol eager,rendezvous-read", `after 0 of 11 sizes`},
		{"tune --budget 1h --save none", `after \d+ of 56 sizes; nothing is kept`},
		{"bench p2p --iters 100000000 -b 64 -e 64K", `after 0 of 18 measurements`},
	} {
		const asked = 1 // not the leader
		inProcess(t, 2, func(ctx context.Context, s *session.Session, rank int, out *bytes.Buffer) error {
			if rank == asked {
				over := make(chan struct{})
				defer close(over)
				m := s.Member
				begun := m.Comm.Stats().Operations
				go func() {
					// More than the warm-up is through by then: a batch that measures runs, or has.
					for enough := begun + 10; strings.HasPrefix(c.command, "all-reduce") && m.Comm.Stats().Operations < enough; {
						select {
						case <-over:
							return
						case <-time.After(time.Millisecond):
						}
					}
					select {
					case <-over:
					case <-time.After(200 * time.Millisecond):
						s.Stop.Store(true)
					}
				}()
			}
			err := lines.Run(ctx, s, testTable, c.command)
			if !batch.IsStopped(err) || exit.Code(err) != exit.Interrupted || !regexp.MustCompile(`^interrupted `+c.want+`; the ring is usable$`).MatchString(err.Error()) {
				return fmt.Errorf("%s: %w, want %s", c.command, err, c.want)
			}
			measured := strings.Contains(out.String(), `"iters":`)
			if strings.HasPrefix(c.command, "all-reduce") && !measured {
				return fmt.Errorf("%s: what was measured is not printed", c.command)
			}
			s.Stop.Store(false)
			return lines.Run(ctx, s, testTable, "all-reduce --size 64K --check; bench p2p -b 64 -e 64 --iters 3")
		})
	}
}
