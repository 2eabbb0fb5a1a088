package cli

import (
	"testing"

	"ringcli/cli/exit"
)

func TestP2PMeasuresTheVerbsAskedFor(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := finish(t, "bench", "p2p", "-n", "2", "-b", "64", "-e", "64", "--iters", "10", "--verbs", "send", "--output", "json")
	all := objects(t, stdout)
	if code != exit.OK || len(all) != 1 || all[0]["op"] != "SEND" {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}
