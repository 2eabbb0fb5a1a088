package cli

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"ringcli/cli/exit"
	"ringcli/verbs/verbstest"
)

// A rank that is started again in the instant of its predecessor's death, before that has
// given its port back and its neighbour has noticed, is not refused, however often.
func TestARankStartedAgainAtOnce(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	many := 50
	if testing.Short() {
		many = 10 // a sample
	}
	list := freshList(t, 3)
	start := func(rank int) *piped {
		return pipe(t, "connect", "--index", fmt.Sprint(rank), "--list", strings.Join(list, ","), "--timeout", "5m", "--trace", "bootstrap=debug", "-c", "all-reduce --size 4K --check")
	}
	ranks := []*piped{1: start(1), 2: start(2)} // which wait for rank 0
	for n := range many {
		ranks[1].await(ranks[1].err, "connected to neighbour 2", 1)
		old := ranks[1]
		old.signal(syscall.SIGKILL)
		ranks[1] = start(1)
		_ = old.Wait() // killed
		if code := old.ProcessState.ExitCode(); code >= 0 {
			t.Fatalf("process %d: exit code %d: expected it to wait for rank 0\n%s", n, code, old.err)
		}
	}
	ranks[0] = start(0)
	for rank, p := range ranks {
		if code := p.over(); code != exit.OK {
			t.Errorf("rank %d: exit code %d\n%s%s", rank, code, p.out, p.err)
		}
	}
}
