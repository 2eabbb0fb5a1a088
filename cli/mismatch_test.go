package cli

import (
	"fmt"
	"strings"
	"testing"

	"ringcli/cli/exit"
)

// TestEveryRankShowsWhoCallsWhat: ranks that are given different commands, or one command
// with different values, say on each rank who was given what, the minority first.
func TestEveryRankShowsWhoCallsWhat(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, most, odd, words string }{
		{"count", "all-reduce --count 1024", "all-reduce --count 1000", "rank 2 calls all-reduce of 1000 float32, sum"},
		{"root", "broadcast --root 0", "broadcast --root 2", "rank 2 calls broadcast of 262144 float32, root 2"},
		{"algorithm", "barrier", "barrier --algorithm tree", "rank 2 calls barrier, tree, eager"},
		{"command", "all-reduce", "all-gather", "rank 2 runs all-gather; ranks 0, 1 run all-reduce"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			list := freshList(t, 3)
			ranks := make([]*process, len(list))
			for rank := range list {
				line := c.most
				if rank == 2 {
					line = c.odd
				}
				ranks[rank] = launch(t, "connect", "--index", fmt.Sprint(rank), "--list", strings.Join(list, ","), "--output", "json", "-c", line)
			}
			for rank, p := range ranks {
				code := p.end(t, hung)
				all := objects(t, p.stdout.String())
				if code != exit.Usage || len(all) == 0 {
					t.Fatalf("rank %d: exit code %d\n%s%s", rank, code, p.stdout.String(), p.stderr.String())
				}
				last := all[len(all)-1]
				calls, _ := last["calls"].([]any)
				if text := fmt.Sprint(last["error"]); !strings.Contains(text, c.words) || len(calls) != 2 || last["code"] != "calls-differ" {
					t.Errorf("rank %d: %v", rank, last)
					continue
				}
				for i, want := range []string{"[2]", "[0 1]"} {
					if got := fmt.Sprint(calls[i].(map[string]any)["ranks"]); got != want {
						t.Errorf("rank %d: row %d is of ranks %s, expected %s", rank, i, got, want)
					}
				}
			}
		})
	}
}
