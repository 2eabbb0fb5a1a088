package session

import (
	"strings"
	"testing"
)

func TestVersions(t *testing.T) {
	alike := []introduction{{Version: "1.3"}, {Version: "1.3"}}
	if got := versions(alike); got != "" {
		t.Errorf("of one version: %q", got)
	}
	got := versions([]introduction{{Version: "1.3"}, {}, {Version: "1.2"}, {Version: "1.3"}})
	for _, want := range []string{`"1.2" at rank 2, "1.3" at ranks 0, 3, "unknown" at rank 1`, "bootstrap protocol, ", "which is what must match"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q: expected %q", got, want)
		}
	}
}
