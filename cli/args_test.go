package cli

import (
	"slices"
	"strings"
	"testing"

	"ringcli/cli/lines"
)

func TestRewriteArgs(t *testing.T) {
	for _, c := range []struct{ given, want string }{
		{"connect -myindex 0 -list a,b", "connect --index 0 --list a,b"},
		{"-myindex 0 -list a,b", "connect --index 0 --list a,b"},
		{"-list=a,b -myindex=1 --check", "connect --list=a,b --index=1 --check"},
		{"--myindex 2 --list a", "connect --index 2 --list a"},
		{"connect --index 1 -list a,b -c ping", "connect --index 1 --list a,b -c ping"},
		{"-myindex 0 -list a,b c -c ping", `connect --index 0 --list a,b,c -c ping`},
		{"-list a b c -myindex 0", `connect --list a,b,c --index 0`},
		{"-list a, b, c", "connect --list a,b,c"},
		{"connect -list", "connect --list"},
		{"connect -list -myindex 0", "connect --list --index 0"},
		{"bench -list a,b all-reduce", "bench --list a,b all-reduce"},
		{"shell -list a b -index 1", "shell --list a,b --index 1"},
		{"local -n 4", "local -n 4"},
		{"bench all-reduce -n 2 -b 8", "bench all-reduce -n 2 -b 8"},
		{"connect -- -list", "connect -- -list"},
		{"version", "version"},
		{"", ""},
	} {
		got := rewriteArgs(strings.Fields(c.given))
		want, err := lines.Split(c.want)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, command := range want {
			all = append(all, command.Words...)
		}
		if !slices.Equal(got, all) {
			t.Errorf("%q became %q, want %q", c.given, got, c.want)
		}
	}
}

func TestGivenValue(t *testing.T) {
	for _, c := range []struct{ given, want string }{
		{"config --output json --mtu 7", "json"},
		{"--output=csv", "csv"},
		{"--output", ""},
		{"-- --output json", ""},
		{"", ""},
	} {
		if got := givenValue(strings.Fields(c.given), "--output"); got != c.want {
			t.Errorf("%q: got %q, want %q", c.given, got, c.want)
		}
	}
}
