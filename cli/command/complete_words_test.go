package command

import (
	"slices"
	"testing"
)

func TestNamesOfHosts(t *testing.T) {
	got := namesOfHosts("127.0.0.1 localhost\n::1 ip6-localhost\nff02::1 ip6-allnodes\n10.0.0.1\tnode0 n0 # the first\n# 10.0.0.9 gone\nbad line\nfd00::2 node1 node0\n")
	if want := []string{"node0", "n0", "node1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
