package cli

import (
	"bufio"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"ringcli/cli/exit"
	"ringcli/verbs/verbstest"
)

// Whoever reads the results may stop to: the ring ends, and nothing is said or kept.
func TestNobodyReadsTheResults(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	const endless = "ping; all-reduce --size 4K --iters 3; sleep 2s; all-reduce --size 4K; status; all-reduce --size 4K --duration 1h"
	for name, args := range map[string][]string{
		"table":      {"local", "-n", "2", "-c", endless},
		"json":       {"local", "-n", "2", "--output", "json", "-c", endless},
		"keep going": {"local", "-n", "2", "--keep-going", "-c", endless},
		"of one":     {"connect", "--index", "0", "--list", freshList(t, 1)[0], "-c", endless},
		"at once":    {"local", "-n", "2", "-c", "ping; all-reduce --size 4K"},
		"bench":      {"bench", "all-reduce", "-n", "2", "-b", "8", "-e", "256M"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			p := program(t, args...)
			p.Env = append(p.Env, "RINGCLI_TRACE_DIR="+dir)
			p.Stdout = write
			if name == "at once" {
				_ = read.Close()
			}
			if err := errors.Join(p.Start(), write.Close()); err != nil {
				t.Fatal(err)
			}
			if name != "at once" {
				if _, err := bufio.NewReader(read).ReadString('\n'); err != nil {
					t.Error(err)
				}
				_ = read.Close()
			}
			if code := p.end(t, hung); code != exit.Pipe || p.stderr.Len() > 0 {
				t.Errorf("exit code %d, stderr %q", code, p.stderr.String())
			}
			if left := namesIn(t, dir); left != "" {
				t.Errorf("left are %s", left)
			}
		})
	}
}

// What is not what it looks like is said: from when a setting holds, and of a size what
// of it is measured.
func TestNotesOfSettingsAndSizes(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := finish(t, "connect", "--index", "0", "--list", freshList(t, 1)[0], "-c", `set protocol eager; set device shm:0
set timeout 7s; set trace off; all-reduce --size 0; all-reduce --size 7; all-reduce --count 0; all-reduce --count 3; all-reduce --size 8
bench all-reduce -b 9 -e 9; set output json; set depth 2; set output csv`)
	var notes []string
	for line := range strings.Lines(stdout) {
		if note, is := strings.CutPrefix(line, "# "); is && !strings.HasPrefix(note, "all-reduce") && !strings.HasPrefix(note, " ") && !strings.Contains(note, "a row: ") {
			notes = append(notes, note)
		}
	}
	const want = `protocol is eager from the next operation on
device is shm:0 from the next connect or open on
timeout is 7s from now on
trace is off from now on
no element is moved: the time is that of a call
--size 7 is no multiple of float32's 4 bytes: what is left over is left out
no element is moved: the time is that of a call
-b 9 is no multiple of float32's 4 bytes: what is left over is left out
Out of bounds values : 0 OK
Avg bus bandwidth    : 0.000
auto: ring/eager is taken at every size
`
	if got := strings.Join(notes, ""); code != exit.OK || stderr != "" || got != want {
		t.Errorf("exit code %d, stderr %q, notes\n%s", code, stderr, got)
	}
}

// A timeout that is set holds for the ring that is up.
func TestSetTimeoutHoldsNow(t *testing.T) {
	t.Parallel()
	for _, device := range []string{"soft", "shm"} {
		list := strings.Join(freshList(t, 2), ",")
		launch(t, "connect", "--index", "1", "--list", list, "--device", device, "-c", "all-reduce --size 4K; sleep 1h")
		begun := time.Now()
		code, _, stderr := finish(t, "connect", "--index", "0", "--list", list, "--device", device, "--timeout", "10m",
			"-c", "all-reduce --size 4K; set timeout 400ms; all-reduce --size 4K")
		if code != exit.Critical || !strings.Contains(stderr, "400ms") || time.Since(begun) > time.Minute {
			t.Errorf("%s: exit code %d after %s\n%s", device, code, time.Since(begun), stderr)
		}
	}
}
