package route

import (
	"net/netip"
	"testing"

	"ringcli/verbs"
)

// The table of a port as rdma_rxe and mlx5 fill it: link-local first, each address
// as v1 and as v2.
func usual() Port {
	return port(verbs.LinkEthernet,
		"0 v1 fe80::1 eth0", "1 v2 fe80::1 eth0", "2 v1 10.77.0.1 eth0", "3 v2 10.77.0.1 eth0", "4 v2 fd77::1 eth0",
		"5 v2 10.88.0.1 eth1", "6 v2 10.99.0.1 eth2", "7 v2 10.88.0.2 eth1").
		with("eth0", true, "10.77.0.1/24", "fd77::1/64").with("eth1", true, "10.88.0.1/24", "10.88.0.2/24").with("eth2", false, "10.99.0.1/24")
}

func TestChoose(t *testing.T) {
	for name, c := range map[string]struct {
		port        Port
		index       int // -1: none
		local, peer string
		want        int // -1: an error
		reason      []string
		rejected    map[int]string
	}{
		"the local address": {usual(), -1, "10.77.0.1", "10.77.0.2", 3,
			[]string{"RoCE v2", "the local address", "IPv4 as 10.77.0.2", "network 10.77.0.0/24", "interface eth0 is up"},
			map[int]string{0: "RoCE v1", 1: "not the local address 10.77.0.1", 2: "RoCE v1", 6: "eth2 is down"}},
		"an IPv6 one":          {usual(), -1, "fd77::1", "fd77::2", 4, []string{"IPv6 as fd77::2", "fd77::/64"}, map[int]string{3: "not the local address"}},
		"another subnet":       {usual(), -1, "", "10.88.0.9", 5, []string{"10.88.0.0/24"}, map[int]string{3: "not in the network of the peer 10.88.0.9", 7: "no better than 5"}},
		"nothing known":        {usual(), -1, "", "", 3, []string{"IPv4 what most networks have"}, map[int]string{1: "IPv6, not IPv4", 4: "IPv6, not IPv4"}},
		"management elsewhere": {usual(), -1, "192.168.0.1", "192.168.0.2", 3, []string{"RoCE v2"}, nil},
		"a peer with IPv6":     {usual(), -1, "", "2001:db8::1", 4, []string{"not link-local"}, map[int]string{1: "link-local"}},
		"only down":            {port(verbs.LinkEthernet, "0 v2 10.0.0.1 eth9").with("eth9", false), -1, "10.0.0.1", "", -1, []string{"ip link set eth9 up"}, nil},
		"only v1":              {port(verbs.LinkEthernet, "0 v1 10.0.0.1 eth0"), -1, "10.0.0.1", "", 0, []string{"the local address"}, nil},
		"none":                 {port(verbs.LinkEthernet), -1, "10.0.0.1", "", -1, []string{"has no GID", "ip address add"}, nil},
		"asked for":            {usual(), 4, "10.77.0.1", "10.77.0.2", 4, []string{"gid-index 4 was asked for (3 would have been taken:"}, map[int]string{3: "another was asked for"}},
		"asked for the best":   {usual(), 3, "10.77.0.1", "10.77.0.2", 3, []string{"gid-index 3 was asked for"}, nil},
		"asked for an empty":   {usual(), 9, "10.77.0.1", "", -1, []string{"gid-index 9 of port 1 of fake:0", "empty", "0, 1, 2, 3"}, nil},
		"InfiniBand": {port(verbs.LinkInfiniBand, "0 ib fe80::9 ib0", "1 ib fe80::a ib0"), -1, "10.0.0.1", "10.0.0.2", 0,
			[]string{"InfiniBand"}, map[int]string{1: "not the port's own GID"}},
	} {
		w := Want{Local: addr(c.local), Peers: []netip.Addr{addr(c.peer)}}
		if c.index >= 0 {
			w.Index = &c.index
		}
		got, err := c.port.Choose(w)
		if c.want < 0 {
			if err == nil || !says(err.Error(), c.reason...) {
				t.Errorf("%s: %v, %v: expected an error with %q", name, got, err, c.reason)
			}
			continue
		}
		if err != nil || got.Entry.Index != c.want || !says(got.Reason, c.reason...) || len(got.Rejected) != len(c.port.GIDs)-1 {
			t.Errorf("%s: %+v, %v: expected %d and %q", name, got, err, c.want, c.reason)
		}
		for _, r := range got.Rejected {
			if want, ok := c.rejected[r.Index]; ok && !says(r.Reason, want) {
				t.Errorf("%s: %d was rejected since %q: expected %q", name, r.Index, r.Reason, want)
			}
		}
	}
}

// A ring has two neighbours: the second may be the one in the network of a GID.
func TestChoosePeers(t *testing.T) {
	got, err := usual().Choose(Want{Peers: []netip.Addr{addr("10.66.0.1"), addr("10.88.0.9")}})
	if err != nil || got.Entry.Index != 5 {
		t.Errorf("%+v, %v: expected 5", got, err)
	}
}
