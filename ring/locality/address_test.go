package locality

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"ringcli/configs/usage"
	"ringcli/ring/bootstrap/hosts"
)

func TestLocalAddress(t *testing.T) {
	// This machine is a, 10.0.0.1; its own name leads to 127.0.1.1.
	local := func(a netip.Addr) bool { return a.IsLoopback() || a == netip.MustParseAddr("10.0.0.1") }
	route := func(to netip.AddrPort) (netip.Addr, error) {
		switch {
		case to.Addr().IsLoopback():
			return netip.MustParseAddr("127.0.0.1"), nil
		case to.Addr().Is6():
			return netip.Addr{}, errors.New("network is unreachable")
		}
		return netip.MustParseAddr("10.0.0.1"), nil
	}
	resolved := map[string]string{"a": "127.0.1.1", "b": "10.0.0.2", "v6": "fd00::9"}
	for _, c := range []struct {
		list string
		rank int
		want string
		bind string
	}{
		{"a,b", 0, "10.0.0.1", "[::]:18600"}, // not what the own name leads to
		{"a,a,b,b", 0, "10.0.0.1", "[::]:18600"},
		{"a,a,b,b", 1, "10.0.0.1", "[::]:18601"},
		{"10.0.0.1,b", 0, "10.0.0.1", "10.0.0.1:18600"},
		{"b,127.5.5.5", 1, "127.5.5.5", "127.5.5.5:18600"}, // taken at its word
		{"a", 0, "127.0.0.1", "127.0.1.1:18600"},
		{"a,a", 1, "127.0.0.1", "127.0.1.1:18601"},
		{"v6", 0, "", ""},
		{"a,v6", 0, "", ""}, // its own name leads to loopback, which does not lead to the other
	} {
		nodes, err := hosts.Parse(c.list, 18600)
		if err != nil {
			t.Fatal(err)
		}
		addrs := make([]netip.AddrPort, len(nodes))
		for i, n := range nodes {
			host := n.Host
			if r, ok := resolved[host]; ok {
				host = r
			}
			addrs[i] = netip.AddrPortFrom(netip.MustParseAddr(host), uint16(n.Port))
		}
		got, err := Address(nodes, addrs, c.rank, local, route)
		if c.want == "" {
			if !strings.Contains(fmt.Sprint(err), "unreachable") {
				t.Errorf("%s: %v", c.list, err)
			}
			continue
		}
		if bind := Bind(nodes, addrs, c.rank, local); err != nil || got.String() != c.want || bind.String() != c.bind {
			t.Errorf("rank %d of %s: %s, %v, listens on %s: expected %s on %s", c.rank, c.list, got, err, bind, c.want, c.bind)
		}
	}
}

// An entry that is an address is to be one of this machine: whoever listens elsewhere is
// never reached.
func TestForeignAddress(t *testing.T) {
	local := func(a netip.Addr) bool { return a == netip.MustParseAddr("10.0.0.1") }
	for list, want := range map[string]string{
		"10.9.9.9,10.0.0.2": "entry 0 of the list, 10.9.9.9, is to be this node (--index 0), and no interface here has that address: correct --index or --list; `ip address` shows the addresses of this node",
		"10.9.9.8,10.0.0.1": "entry 0 of the list, 10.9.9.8, is to be this node (--index 0), and no interface here has that address: entry 1, 10.0.0.1, is this node: is --index 1 meant?",
	} {
		nodes, err := hosts.Parse(list, 18600)
		if err != nil {
			t.Fatal(err)
		}
		found, err := hosts.Resolve(t.Context(), nodes, nil) // of addresses
		if err != nil {
			t.Fatal(err)
		}
		addrs := hosts.First(found, nodes)
		if _, err := Address(nodes, addrs, 0, local, nil); !usage.Is(err) || err.Error() != want {
			t.Errorf("%s: %v: expected %s", list, err, want)
		}
	}
}
