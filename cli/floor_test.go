package cli

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"ringcli/cli/exit"
	"ringcli/configs"
	"ringcli/verbs/verbstest"
)

// bounds are the lines of rack-bring-up that expect a share of what is possible.
func bounds(t *testing.T) string {
	t.Helper()
	text, err := configs.Script("rack-bring-up")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); strings.Contains(line, "--iters 200") || strings.Contains(line, "*possible") {
			lines = append(lines, line)
		}
	}
	if len(lines) != 2 {
		t.Fatalf("%q: expected a measurement and a bound", lines)
	}
	return strings.Join(lines, "; ")
}

// The bound of rack-bring-up for software bears other work on the host:
// four processes that do nothing else than to compute.
func TestFloorBearsOtherWork(t *testing.T) {
	verbstest.Longest(t)
	other := exec.Command("sh", "-c", `for i in 1 2 3 4; do (while :; do :; done) & done; read end; kill 0`)
	other.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // which kill 0 is of
	end, err := other.StdinPipe()
	if err == nil {
		err = other.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = end.Close(); _ = other.Wait() }() // which ends itself
	for _, device := range []string{"soft:lo", "shm"} {
		for i := range 5 {
			if code, stdout, stderr := finish(t, "local", "-n", "2", "--device", device, "-c", bounds(t)); code != exit.OK || !strings.Contains(stdout, "# best >= 0.0035*possible holds") {
				t.Errorf("%s, run %d: exit code %d\n%s%s", device, i, code, stdout, stderr)
			}
		}
	}
}

// A link that carries a three-hundredth of what its port says is below it.
func TestFloorFindsAThrottledLink(t *testing.T) {
	if testing.Short() {
		t.Skip("a slow link takes its time; `make test-long` runs it")
	}
	names := newIsland(t, 2)
	ip(t, "netns", "exec", names[0], "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "30mbit", "burst", "64kb", "limit", "64mb")
	var ranks []*process
	for i, name := range names {
		p := program(t, "connect", "--index", fmt.Sprint(i), "--list", names.list(), "-c", strings.Replace(bounds(t), "--iters 200", "--iters 10", 1))
		p.in(name).start(t)
		ranks = append(ranks, p)
	}
	for i, p := range ranks {
		if code := p.end(t, hung); code != exit.Warning || !strings.Contains(ranks[0].stderr.String(), "expected best_GBps >= 0.0035*possible") {
			t.Errorf("rank %d: exit code %d\n%s%s", i, code, p.stdout.String(), p.stderr.String())
		}
	}
}
