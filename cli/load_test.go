package cli

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"ringcli/verbs/verbstest"
)

// busy keeps CPUs busy with so many other programs until the test ends.
func busy(t *testing.T, n int) {
	t.Helper()
	for range n {
		c := exec.Command("sh", "-c", "while :; do :; done")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = c.Process.Kill()
			_ = c.Wait() // killed
		})
	}
}

// Ranks that get little of the CPUs, and one that stands still for less than its bound, are
// slow, and nobody is declared lost or silent.
func TestLoadIsNoFailure(t *testing.T) {
	verbstest.Longest(t)
	for _, c := range []struct {
		n           int
		device, cpu string
		stop        time.Duration // of one rank
	}{
		{4, "soft", "", 0}, {8, "shm", "", 0}, {8, "soft", "", 0}, {4, "shm", "0", 0}, {4, "soft", "0", 0}, {4, "shm", "", 3 * time.Second},
	} {
		t.Run(fmt.Sprintf("%d %s on CPUs %s, stopped %s", c.n, c.device, c.cpu, c.stop), func(t *testing.T) {
			busy(t, 8)
			list := freshList(t, c.n)
			ranks := make([]*process, c.n)
			for i := range ranks {
				// Retries outlast a machine that others load as well: by design queue pairs of soft bear 1.5 s.
				p := program(t, "connect", "--index", fmt.Sprint(i), "--list", strings.Join(list, ","), "--device", c.device, "--timeout", "2m", "--qp-timeout", "17",
					"-c", fmt.Sprintf("all-reduce --size 64K --check --duration %s; sleep 3s; all-reduce --size 64K", 4*time.Second+2*c.stop))
				if c.cpu != "" {
					taskset, err := exec.LookPath("taskset")
					if err != nil {
						t.Skipf("needs taskset: %v", err)
					}
					p.Args, p.Path = append([]string{"taskset", "-c", c.cpu}, p.Args...), taskset
				}
				p.start(t)
				ranks[i] = p
			}
			if c.stop > 0 {
				time.Sleep(4 * time.Second)
				_ = ranks[1].Process.Signal(syscall.SIGSTOP)
				time.Sleep(c.stop)
				_ = ranks[1].Process.Signal(syscall.SIGCONT)
			}
			for i, p := range ranks {
				if code := p.end(t, hung); code != 0 {
					t.Errorf("rank %d: exit code %d\n%s", i, code, p.stderr.String())
				}
			}
		})
	}
}
