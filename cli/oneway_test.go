package cli

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"ringcli/cli/clitest"
)

// Where connections arrive in one direction alone, ranks name it and the cause instead of
// saying that the other waits. The rank that hears more comes first, and waits for long
// enough that the other comes and calls it on a busy machine.
func TestGoldenOneWaySilence(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for deadlines; `make test-long` runs it")
	}
	counts, times := regexp.MustCompile(`\d+ attempts?\b`), regexp.MustCompile(`\b[0-9.]+m?s\b`)
	for name, c := range map[string]struct {
		nodes int
		first int // to start: its deadline passes first
		at    int // which node drops
		rule  []string
	}{
		"port":       {2, 1, 1, []string{"ipproto", "tcp", "dport", "18600"}},
		"all":        {2, 0, 1, []string{"from", "10.77.0.1"}},
		"three-all":  {3, 1, 2, []string{"from", "10.77.0.1"}},
		"three-port": {3, 0, 0, []string{"from", "10.77.0.3", "ipproto", "tcp", "dport", "18600"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			names := newIsland(t, c.nodes)
			names.drop(t, c.at, c.rule...)
			ranks := make([]*process, c.nodes)
			for turn := range ranks {
				i := (c.first + turn) % c.nodes
				timeout := "30s"
				if turn == 0 {
					timeout = "15s"
				}
				ranks[i] = program(t, "connect", "--index", fmt.Sprint(i), "--list", names.list(), "--timeout", timeout, "-c", "ping")
				ranks[i].in(names[i]).start(t)
				if turn == 0 {
					time.Sleep(time.Second)
				}
			}
			var b strings.Builder
			for i, p := range ranks {
				if code := p.end(t, hung); code != 2 {
					t.Errorf("rank %d: exit code %d", i, code)
				}
				fmt.Fprintf(&b, "rank %d at 10.77.0.%d:\n%s", i, i+1, times.ReplaceAllString(counts.ReplaceAllString(reported(p), "N attempts"), "T"))
			}
			clitest.Golden(t, filepath.Join("testdata", "oneway", name+".txt"), b.String())
		})
	}
}
