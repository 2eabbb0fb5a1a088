package configs

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestSelfCheckRunsEveryCollectiveUnderEveryProtocol(t *testing.T) {
	text, err := Script("self-check")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(text, "\n")
	if !slices.Contains(lines, "ping") {
		t.Error("no ping")
	}
	for _, op := range []string{"reduce-scatter", "all-gather", "all-reduce"} {
		for _, protocol := range []string{"eager", "rendezvous-write", "rendezvous-read"} {
			if !slices.ContainsFunc(lines, func(line string) bool {
				words := strings.Fields(line)
				return len(words) > 0 && words[0] == op && slices.Contains(words, protocol) && slices.Contains(words, "--check")
			}) {
				t.Errorf("no checked %s under %s", op, protocol)
			}
		}
	}
}

func TestUnknownScriptNamesTheKnown(t *testing.T) {
	_, err := Script("../scripts.go")
	if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "self-check") {
		t.Errorf("got %v", err)
	}
}
