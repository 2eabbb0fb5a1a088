package local

import (
	"io"
	"os"
	"strings"
	"testing"

	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/configs"
)

// TestMain ends as well, and at once, where it runs as a rank: run starts /proc/self/exe.
func TestMain(m *testing.M) {
	if os.Args[0] == "ringcli" {
		os.Exit(exit.OK)
	}
	os.Exit(m.Run())
}

// Ranks that all end well, of which rank 0 says nothing of what it found, were not checked.
func TestSelfCheckWithoutAVerdictIsNoSuccess(t *testing.T) {
	var stdout strings.Builder
	s := session.New(nil, &stdout, io.Discard, nil, nil)
	var err error
	if s.Config, err = configs.Load(nil, ""); err != nil {
		t.Fatal(err)
	}
	s.Out = render.New(&stdout, render.Table)
	err = selfCheck(t.Context(), s, 2, []string{"connect"})
	if exit.Code(err) != exit.Critical || !strings.Contains(err.Error(), "self-check over soft:lo: rank 0 ended without a verdict") {
		t.Errorf("%v, exit code %d: expected that a verdict is missing", err, exit.Code(err))
	}
	if stdout.Len() > 0 {
		t.Errorf("it says\n%s", &stdout)
	}
}
