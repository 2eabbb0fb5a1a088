package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ringcli/cli/clitest"
	"ringcli/cli/exit"
)

// Every mode measures every directed pair that it is for, once for each direction, and ends with a verdict.
// On a machine that does other things besides somebody may be slow.
func TestLinks(t *testing.T) {
	for mode, pairs := range map[string]int{"--mesh": 12, "--ring": 8, "--shift": 12} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := finish(t, "links", mode, "-n", "4", "--time", "4ms", "--passes", "1", "--size", "4K", "--output", "json")
			if code != exit.OK && code != exit.Warning {
				t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
			}
			clitest.ValidateJSON(t, stdout)
			seen := map[[2]float64]bool{}
			verdicts := 0
			for _, o := range objects(t, stdout) {
				from, isPair := o["from"].(float64)
				switch {
				case isPair:
					to := o["to"].(float64)
					latency := o["latency_us"].(map[string]any)["p50"].(float64)
					if seen[[2]float64{from, to}] || from == to || o["ok"] != true || o["write_GBps"].(float64) <= 0 || (latency > 0) != (mode != "--shift") || o["device"] == "" {
						t.Errorf("%v", o)
					}
					seen[[2]float64{from, to}] = true
				case o["ruled_out"] != nil:
					verdicts++
				}
			}
			if len(seen) != pairs || verdicts != 1 {
				t.Errorf("%d pairs, %d verdicts: expected %d and 1\n%s", len(seen), verdicts, pairs, stdout)
			}
		})
	}
}

// The page and the lists of hosts are there at the end, and each host is in one list at most.
func TestLinksWritesFiles(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	code, stdout, stderr := finish(t, "links", "-n", "3", "--time", "4ms", "--passes", "1", "--html", at("page"), "--good", at("good"), "--bad", at("bad"))
	if code != exit.OK && code != exit.Warning || !strings.Contains(stdout, "bandwidth by sender (rows)") {
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
	lines := map[string]bool{}
	for _, name := range []string{"page", "good", "bad"} {
		text, err := os.ReadFile(at(name))
		if err != nil {
			t.Fatal(err)
		}
		if name == "page" {
			if !strings.Contains(string(text), "data:image/png;base64,") {
				t.Errorf("the page has no heat map:\n%s", text)
			}
			continue
		}
		for host := range strings.Lines(string(text)) {
			if lines[host] {
				t.Errorf("%q is in both lists", host)
			}
			lines[host] = true
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 3 {
		t.Errorf("%v, %v: expected three files", entries, err)
	}
}

// A file that cannot be written fails the command before anything is measured.
func TestLinksRefuses(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--good", "/nowhere/at/all"}, "expected a file in a folder that can be written"},
		{[]string{"--good", "/dev/null"}, "no regular file"},
		{[]string{"--good", "x", "--bad", "x"}, "both name x"},
		{[]string{"--good", "x", "--bad", "./x"}, "both name ./x"},
		{[]string{"--html", ""}, "is a variable not set?"},
		{[]string{"--groups", "0-9"}, "there is no rank 2: expected 0 to 1"},
		{[]string{"--ring", "--mesh"}, "expected one of"},
		{[]string{"--time", "1ms"}, "expected 4ms or more"},
		{[]string{"--small", "128K"}, "to --size"},
		{[]string{"--groups", "0-1,1"}, "in two groups: expected"},
		{[]string{"--groups", "0-1,x"}, "is no group"},
	} {
		code, stdout, stderr := finish(t, append([]string{"links", "-n", "2"}, c.args...)...)
		if code != exit.Usage || !strings.Contains(stderr, c.want) || strings.Contains(stdout, "median") {
			t.Errorf("%v: exit code %d, want %d and %q\n%s%s", c.args, code, exit.Usage, c.want, stdout, stderr)
		}
	}
}

// As a line of a script, twice over one ring, which is usable afterwards.
func TestLinksAsALine(t *testing.T) {
	code, stdout, stderr := finish(t, "local", "-n", "2", "--device", "soft:lo", "-c", "links --time 4ms --passes 1; links --ring --time 4ms --passes 1; all-reduce --size 1K --check")
	if code != exit.OK && code != exit.Warning || strings.Count(stdout, "pairs of 2 ranks in") != 2 || !strings.Contains(stdout, "all-reduce") {
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
}
