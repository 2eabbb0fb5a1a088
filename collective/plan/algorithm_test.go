package plan

import (
	"strings"
	"testing"
)

func TestParseAlgorithm(t *testing.T) {
	for name, want := range map[string]Algorithm{
		"": AlgorithmAuto, "auto": AlgorithmAuto, "Ring": AlgorithmRing, "rd": AlgorithmRecursiveDoubling, "doubling": AlgorithmRecursiveDoubling,
		" recursive-doubling ": AlgorithmRecursiveDoubling, "TREE": AlgorithmTree, "inbox": AlgorithmInbox,
	} {
		if got, err := ParseAlgorithm(name); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", name, got, err, want)
		}
	}
	for _, a := range Algorithms() {
		if got, err := ParseAlgorithm(a.String()); err != nil || got != a {
			t.Errorf("%v: %v, %v", a, got, err)
		}
	}
	_, err := ParseAlgorithm("star")
	if err == nil || !strings.Contains(err.Error(), "star") || !strings.Contains(err.Error(), "recursive-doubling (rd, doubling)") {
		t.Errorf("an unknown algorithm: %v", err)
	}
}
