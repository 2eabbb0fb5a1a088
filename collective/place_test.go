package collective

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"ringcli/collective/reduce"
	"ringcli/ring"
	"ringcli/ring/bootstrap"
	"ringcli/verbs/verbstest"
)

// TestIdleRankIsNamed: of ranks that wait for each other in any algorithm, and one that
// never calls, all errors name that one, and what it has done instead.
func TestIdleRankIsNamed(t *testing.T) {
	verbstest.Long(t)
	const n, idle = 3, 2
	for _, device := range []string{"soft:lo", shared0} {
		for i, way := range append(allWays(), CallOptions{}) {
			if testing.Short() && i%3 > 0 {
				continue // a sample
			}
			t.Run(device+", "+wayName(way), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, n, ring.Options{Device: device}, nil)
				k := newKit(w, 900, reduce.Int32, reduce.Sum)
				k.runs(1, 900, way)
				w.rings[idle].Control().SetActivity("idle at its prompt")
				w.timeout(4 * time.Second)
				errs := w.each(func(rank int, c *Comm) error {
					if rank == idle {
						return nil
					}
					return c.AllReduce(context.Background(), k.send[rank].Addr(), k.recv[rank].Addr(), 900, k.typ, k.red, way)
				})
				number := w.comms[0].watch.Seq
				for rank, err := range errs {
					var v *ring.Verdict
					switch want := fmt.Sprintf("rank 2 (%s) has not begun operation %d: it ended operation %d: idle at its prompt for ", w.rings[0].Nodes()[idle], number, number-1); {
					case rank == idle:
					case err == nil:
						t.Errorf("rank %d went on", rank)
					case !strings.Contains(err.Error(), want):
						t.Errorf("rank %d: %v\nexpected %q", rank, err, want)
					case errors.As(err, &v) && (v.Kind != bootstrap.KindTimeout || v.Rank != idle || v.Confidence != bootstrap.Certain || v.Doing.Operation != number || v.Doing.Awaited == ""):
						t.Errorf("rank %d: %+v", rank, v)
					}
				}
			})
		}
	}
}

// TestStoppedRankIsNamed: a rank whose process is stopped is named by all others before
// their deadline, whatever they reach it by.
func TestStoppedRankIsNamed(t *testing.T) {
	verbstest.Long(t)
	const victim = 1
	for _, device := range []string{shared0, "soft:lo"} {
		for _, n := range []int{2, 4} {
			t.Run(fmt.Sprintf("%s, %d ranks", device, n), func(t *testing.T) {
				t.Parallel()
				ranks := startRanks(t, n, rankJob{Device: device, Timeout: 4 * time.Second, Steady: true}, t.TempDir())
				for _, what := range []string{"connected", "working"} {
					for rank, p := range ranks {
						if _, err := p.awaits(what, 2*rankTimeout); err != nil {
							t.Fatalf("rank %d: %v", rank, err)
						}
					}
				}
				process := ranks[victim].cmd.Process
				if err := process.Signal(syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
				defer func() { _ = process.Signal(syscall.SIGCONT) }()
				for rank, p := range ranks {
					if rank == victim {
						continue
					}
					s, err := p.awaits("failed", 3*rankTimeout) // each second without a CPU makes it later
					if err != nil {
						t.Fatalf("rank %d: %v", rank, err)
					}
					for _, words := range []string{fmt.Sprintf("rank %d (", victim), "is stopped: ", fmt.Sprintf("process %d", process.Pid), "kill -CONT"} {
						if !strings.Contains(s.Error, words) {
							t.Errorf("rank %d: %q does not say %q", rank, s.Error, words)
						}
					}
				}
			})
		}
	}
}
