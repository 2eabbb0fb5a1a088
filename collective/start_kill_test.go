package collective

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A rank is killed while eight operations are in flight on each, or during barriers: every
// handle of every other rank resolves, and names it.
func TestKilledRankInFlight(t *testing.T) {
	for _, job := range []rankJob{
		{Device: "soft:lo", Flights: true}, {Device: shared0, Flights: true}, {Device: "soft:lo", Barrier: true}, {Device: shared0, Barrier: true},
	} {
		t.Run(fmt.Sprintf("%s, barriers %t", job.Device, job.Barrier), func(t *testing.T) {
			const n = 3
			victim := rand.IntN(n)
			ranks := startRanks(t, n, job, t.TempDir())
			for _, what := range []string{"connected", "working"} {
				for r, p := range ranks {
					if _, err := p.awaits(what, 2*rankTimeout); err != nil {
						t.Fatalf("rank %d: %v", r, err)
					}
				}
			}
			time.Sleep(time.Duration(rand.IntN(20_000)) * time.Microsecond)
			if err := ranks[victim].cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			for r, p := range ranks {
				if r == victim {
					continue
				}
				s, err := p.awaits("failed", rankTimeout)
				if err != nil {
					t.Fatalf("rank %d, after rank %d was killed: %v", r, victim, err)
				}
				for line := range strings.Lines(s.Error) {
					if !strings.Contains(line, "rank "+strconv.Itoa(victim)) {
						t.Errorf("rank %d: %q does not name rank %d", r, line, victim)
					}
				}
			}
		})
	}
}
