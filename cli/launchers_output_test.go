package cli

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// Rank 0 alone prints, once, and without escape sequences; --print all is for each rank; a rank
// that fails says so with its number and its exit code.
func TestLaunchersPrintOnce(t *testing.T) {
	eachOf(t, launchers[:3], func(t *testing.T, l launcher) {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		run := func(code bool, args string) (string, string) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), 2*hung)
			defer cancel()
			words := append(append(l.starts(t, 3), self), strings.Fields(args)...)
			c := exec.CommandContext(ctx, words[0], words[1:]...)
			c.Env = append(os.Environ(), "RINGCLI_DEVICE=", "RINGCLI_TIMEOUT=60s", "TERM=xterm", "NO_COLOR=", "TMPDIR="+shortDir(t))
			c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
			c.WaitDelay = 10 * time.Second
			var out, errs strings.Builder
			c.Stdout, c.Stderr = &out, &errs
			if err := c.Run(); (err == nil) != code || strings.Contains(out.String()+errs.String(), "\x1b") {
				t.Errorf("%s: %v, expected success %t and no escape sequence:\n%q\n%s", args, err, code, out.String(), errs.String())
			}
			return strings.ReplaceAll(out.String(), "\r", ""), errs.String()
		}
		for _, args := range []string{"bench all-reduce -b 8 -e 64 -f 2", "bench barrier", "links", "tune -e 1K", "connect --check"} {
			out, _ := run(true, args)
			lines := strings.Split(strings.TrimSpace(out), "\n")
			slices.Sort(lines)
			if unique := slices.Compact(slices.Clone(lines)); len(lines) < 2 || len(unique) != len(lines) {
				t.Errorf("%s: expected each line once:\n%s", args, out)
			}
		}
		for args, most := range map[string]int{"bench all-reduce --size 8 --output json": 1, "bench all-reduce --size 8 --output json --print all": 3} {
			out, _ := run(true, args)
			if lines := strings.Split(strings.TrimSpace(out), "\n"); len(lines) != most || !json.Valid([]byte(lines[0])) {
				t.Errorf("%s: expected %d documents:\n%s", args, most, out)
			}
		}
		_, errs := run(false, "connect -c 'expect'")
		for _, want := range []string{"ringcli: rank 0: exit 3: ", "ringcli: rank 2: exit 3: "} {
			if strings.Count(errs, want) != 1 {
				t.Errorf("expected %q once:\n%s", want, errs)
			}
		}
	})
}
