package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

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
			if !strings.Contains(string(text), "<h2>latency (p50) by sender (rows)") {
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

// Of three ranks one rests while two are measured: that it waits for them is told when it lasts
// for longer than they take.
func TestLinksRests(t *testing.T) {
	t.Parallel()
	const span = 500 * time.Millisecond
	p := program(t, "links", "-n", "3", "--ring", "--passes", "1", "--time", span.String())
	p.Env = append(p.Env, speakAfter+"=250ms")
	p.start(t)
	code := p.end(t, hung)
	if code != exit.OK && code != exit.Warning {
		t.Errorf("exit code %d\n%s%s", code, p.stdout.String(), p.stderr.String())
	}
	for _, told := range regexp.MustCompile(`waiting (\S+) for .* to run links`).FindAllStringSubmatch(p.stderr.String(), -1) {
		if waited, err := time.ParseDuration(told[1]); err != nil || waited < span {
			t.Errorf("%q, %v: expected nothing below %s", told[0], err, span)
		}
	}
}

// A rank that no packet reaches is named, and costs a few rounds, not each.
func TestLinksNameADeadRank(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for what does not come; `make test-long` runs it")
	}
	for _, mode := range []string{"mesh", "shift"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			names := newIsland(t, 6)
			ranks := make([]*piped, len(names))
			for i := range ranks {
				p := program(t, "shell", "--index", fmt.Sprint(i), "--list", names.list(), "--output", "json", "--timeout", "100s")
				ranks[i] = piping(t, p.in(names[i]))
				ranks[i].line("connect; ping")
			}
			for _, p := range ranks {
				p.await(p.out, `"command":"ping"`, 2) // to both sides
			}
			names.drop(t, 2, "ipproto", "udp")
			for _, p := range ranks {
				p.line("links --time 40ms --passes 1 --" + mode)
			}
			for i, p := range ranks {
				if code := p.over(); code != exit.Critical {
					t.Errorf("rank %d: exit code %d\n%s%s", i, code, p.out, p.err)
				}
			}
			found := 0
			for _, o := range objects(t, ranks[0].out.String()) {
				if o["finding"] != "dead" { // on a busy machine others may be slow
					continue
				}
				if found++; o["culprit"] != "receiver" || fmt.Sprint(o["to"]) != "[2]" {
					t.Errorf("%v: expected rank 2 as receiver, since what it sends arrives", o)
				}
			}
			if found != 1 {
				t.Errorf("%d ranks have no connection: expected rank 2\n%s", found, ranks[0].out)
			}
		})
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
		{[]string{"--mesh=false"}, "--mesh=false leaves nothing to measure: expected --ring or --shift"},
		{[]string{"--time", "1ms"}, "expected 4ms or more"},
		{[]string{"--time", "4s", "--timeout", "9s"}, "expected 3s at most, a third of --timeout, or --timeout 12s"},
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
