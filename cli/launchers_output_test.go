package cli

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"ringcli/cli/exit"
)

// Rank 0 alone prints, once, and without escape sequences; --print all is for each rank; a rank
// that fails says so with its number and its exit code.
func TestLaunchersPrintOnce(t *testing.T) {
	const ranks = 3
	eachOf(t, launchers[:3], func(t *testing.T, l launcher) {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		run := func(args string, codes ...int) (string, string) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), 2*hung)
			defer cancel()
			words := append(append(l.starts(t, ranks), self), strings.Fields(args)...)
			c := exec.CommandContext(ctx, words[0], words[1:]...)
			c.Env = append(os.Environ(), "RINGCLI_DEVICE=", "RINGCLI_TIMEOUT=60s", "TERM=xterm", "NO_COLOR=", "TMPDIR="+shortDir(t))
			c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
			c.WaitDelay = 10 * time.Second
			var out, errs strings.Builder
			c.Stdout, c.Stderr = &out, &errs
			_ = c.Run() // the code says it
			if code := c.ProcessState.ExitCode(); !slices.Contains(codes, code) || strings.Contains(out.String()+errs.String(), "\x1b") {
				t.Errorf("%s: exit code %d, expected one of %v and no escape sequence:\n%q\n%s", args, code, codes, out.String(), errs.String())
			}
			return strings.ReplaceAll(out.String(), "\r", ""), errs.String()
		}
		for _, args := range []string{"bench all-reduce -b 8 -e 64 -f 8 --iters 20", "bench barrier --iters 20", "links --time 5ms", "tune --budget 1s --save none", "connect -c ping"} {
			out, _ := run(args, exit.OK, exit.Warning) // of a busy machine
			lines := strings.Split(strings.TrimSpace(out), "\n")
			slices.Sort(lines)
			if unique := slices.Compact(slices.Clone(lines)); len(lines) < 2 || len(unique) != len(lines) {
				t.Errorf("%s: expected each line once:\n%s", args, out)
			}
		}
		for args, printed := range map[string]int{"": 1, " --print all": ranks} {
			out, _ := run("bench all-reduce -b 8 -e 8 --iters 20 --output json"+args, exit.OK)
			if got := strings.Count(out, `{"command":"bench all-reduce",`); got != printed || strings.Count(out, "\n") != 3*printed {
				t.Errorf("%s: expected 2 rows and a summary of %d ranks:\n%s", args, printed, out)
			}
		}
		_, errs := run("connect -c expect", exit.Usage)
		for _, want := range []string{"ringcli: rank 0: exit 3: ", "ringcli: rank 2: exit 3: "} {
			if strings.Count(errs, want) != 1 {
				t.Errorf("expected %q once:\n%s", want, errs)
			}
		}
	})
}
