package cli

import (
	"strings"
	"testing"

	"ringcli/cli/exit"
)

// A rank whose own network comes up after its start waits for it, and says so.
func TestANetworkThatComesUpLater(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, then []string // arguments of ip, in the namespace of node 0
		waits        string   // what node 0 says meanwhile
	}{
		"the address": {[]string{"address", "delete", "10.77.0.1/24", "dev", "eth0"}, []string{"address", "add", "10.77.0.1/24", "dev", "eth0"}, "no interface here has that address"},
		"the link":    {[]string{"link", "set", "eth0", "down"}, []string{"link", "set", "eth0", "up"}, "eth0"},
		"the route":   {[]string{"route", "delete", "10.77.0.0/24", "dev", "eth0"}, []string{"route", "add", "10.77.0.0/24", "dev", "eth0"}, `step done.*open`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := newIsland(t, 2)
			ip(t, append([]string{"-n", nodes[0]}, c.before...)...)
			var ranks []*piped
			for i, rank := range []string{"0", "1"} {
				ranks = append(ranks, piping(t, program(t, "connect", "--index", rank, "--list", nodes.list(), "--trace", "ring=debug", "-c", "all-reduce --size 4K --check").in(nodes[i])))
			}
			ranks[0].await(ranks[0].err, c.waits, 1)
			ip(t, append([]string{"-n", nodes[0]}, c.then...)...)
			for rank, p := range ranks {
				if code := p.over(); code != exit.OK {
					t.Errorf("rank %d: exit code %d\n%s%s", rank, code, p.out, p.err)
				}
			}
		})
	}
}

// Who was given a wrong address hears of it at once, and ends with that at its deadline.
func TestAnAddressThatNeverComes(t *testing.T) {
	t.Parallel()
	p := pipe(t, "connect", "--index", "0", "--list", "198.51.100.1,198.51.100.2", "--timeout", "3s", "-c", "ping")
	p.await(p.err, "waiting for this host's network, at most 3s: entry 0 of the list, 198.51.100.1", 1)
	if strings.Contains(p.err.String(), "ringcli: ") {
		t.Errorf("it has ended before its deadline:\n%s", p.err)
	}
	if code, said := p.over(), reportedIn(p.err.String()); code != exit.Usage || !strings.Contains(said, "no interface here has that address") || !strings.Contains(said, "this was waited for 3") {
		t.Errorf("exit code %d: expected %d, and what was waited for in\n%s", code, exit.Usage, p.err)
	}
}
