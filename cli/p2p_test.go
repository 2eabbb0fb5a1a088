package cli

import (
	"testing"

	"ringcli/cli/bench/p2p"
	"ringcli/cli/exit"
	"ringcli/cli/render"
)

// A size may take longer than the timeout: whoever only watches takes part in a
// turn for each batch. Long messages take a busy machine a few times as long; short
// ones, which change hands each time, hundreds of times.
func TestP2PBystandersWait(t *testing.T) {
	if testing.Short() {
		t.Skip("takes several seconds")
	}
	code, stdout, stderr := finish(t, "bench", "p2p", "-n", "3", "--verbs", "write", "--timeout", "5s", "-b", "1M", "-e", "1M", "--iters", "3000", "--output", "json")
	all := objects(t, stdout)
	if code != exit.OK || len(all) != 1 || all[0]["wrong"] != 0.0 || all[0]["iters"] != 3000.0 {
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
}

func TestP2PColumnsFit(t *testing.T) {
	head, row := render.Row(p2p.P2PResult{})
	width := len(head) - 1
	for _, c := range head {
		width += max(c.Width, len(c.Name))
	}
	if width > 80 || len(row) != len(head) {
		t.Errorf("%d columns wide, %d cells", width, len(row))
	}
}
