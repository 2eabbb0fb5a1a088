package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ringcli/verbs/verbstest"
)

// Four terminals, each with a rank, as an operator has them.
func TestFourTerminals(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	tmux, err := exec.LookPath("tmux")
	if err != nil {
		t.Skip("tmux is not installed; it gives each rank a terminal of its own")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const proves, works = "--check", "-c 'all-reduce --check'"
	for _, c := range []struct {
		name  string
		order []int
		runs  string
	}{{"0 first", []int{0, 1, 2, 3}, works}, {"0 last", []int{1, 2, 3, 0}, proves}, {"3 last", []int{2, 0, 1, 3}, works}} {
		if testing.Short() && c.name != "0 last" {
			continue // a sample
		}
		t.Run(c.name, func(t *testing.T) {
			list, dir := freshList(t, 4), t.TempDir()
			server := filepath.Join(dir, "tmux")
			// The flag -f keeps the user's configuration out.
			command := func(args ...string) {
				t.Helper()
				cmd := exec.Command(tmux, append([]string{"-S", server, "-f", "/dev/null"}, args...)...)
				cmd.Env = append(os.Environ(), "TERM=xterm-256color", "NO_COLOR=", "GORACE=atexit_sleep_ms=0")
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("tmux %q: %v: %s", args, err, out)
				}
			}
			for i, rank := range c.order {
				if i > 0 {
					time.Sleep(500 * time.Millisecond)
				}
				out := filepath.Join(dir, fmt.Sprint(rank))
				// The ranks and what else runs share the CPUs: queue pairs try for longer.
				line := fmt.Sprintf("%s connect --index %d --list %s --qp-timeout 17 %s; echo exit $? > %s", self, rank, strings.Join(list, ","), c.runs, out)
				if i == 0 {
					command("new-session", "-d", "-x", "80", "-y", "40", "-s", "ring", line)
					defer command("kill-server")
					command("set-option", "-g", "remain-on-exit", "on")
					continue
				}
				command("new-window", "-d", "-t", "ring:", line)
			}
			for i, rank := range c.order {
				path := filepath.Join(dir, fmt.Sprint(rank))
				var got string
				for begun := time.Now(); time.Since(begun) < hung; {
					text, _ := os.ReadFile(path) // not there until it has ended
					if got = string(text); strings.HasSuffix(got, "\n") {
						break
					}
					time.Sleep(100 * time.Millisecond)
				}
				if got != "exit 0\n" {
					said, err := exec.Command(tmux, "-S", server, "capture-pane", "-p", "-S", "-", "-t", fmt.Sprintf("ring:%d", i)).CombinedOutput()
					t.Errorf("rank %d: %q, %v\n%s", rank, got, err, said)
				}
			}
		})
	}
}
