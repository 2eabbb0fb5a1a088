package cli

import (
	"strings"
	"testing"

	"ringcli/verbs"
)

func TestP2PVerbs(t *testing.T) {
	var v p2pVerbs
	if err := v.Set("send, WRITE"); err != nil || v.String() != "send,write" || v[0] != verbs.OpSend || v[1] != verbs.OpWrite {
		t.Errorf("%v, %v", v, err)
	}
	for text, says := range map[string]string{"": "expected write, read, send", "wrte": "expected write, read, send", "read,read": "read is there twice"} {
		if err := v.Set(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
	if v.String() != "send,write" {
		t.Errorf("a refused value has changed it to %v", v)
	}
}

func TestP2PMeasuresTheVerbsAskedFor(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := finish(t, "bench", "p2p", "-n", "2", "-b", "64", "-e", "64", "--iters", "10", "--verbs", "send", "--output", "json")
	all := objects(t, stdout)
	if code != ExitOK || len(all) != 1 || all[0]["op"] != "SEND" {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}
