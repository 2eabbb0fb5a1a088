package ring

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"ringcli/ring/bootstrap"
	"ringcli/ring/diagnose"
	"ringcli/verbs"
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
		{"10.9.9.9,b", 0, "10.0.0.1", "[::]:18600"}, // behind a translation
		{"v6", 0, "", ""},
	} {
		nodes, err := bootstrap.ParseList(c.list, 18600)
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
		got, err := localAddress(nodes, addrs, c.rank, local, route)
		if c.want == "" {
			if !strings.Contains(textOf(err), "unreachable") {
				t.Errorf("%s: %v", c.list, err)
			}
			continue
		}
		if bind := bindAddress(nodes, addrs, c.rank, local); err != nil || got.String() != c.want || bind.String() != c.bind {
			t.Errorf("rank %d of %s: %s, %v, listens on %s: expected %s on %s", c.rank, c.list, got, err, bind, c.want, c.bind)
		}
	}
}

func TestAgree(t *testing.T) {
	nodes, err := bootstrap.ParseList("10.0.0.1,10.0.0.2", 18600)
	if err != nil {
		t.Fatal(err)
	}
	base := func(rank int) connectionData {
		return connectionData{
			QPInfo: QPInfo{
				GID: verbs.GIDFromAddr(netip.AddrFrom4([4]byte{10, 0, 0, byte(1 + rank)})), GIDType: verbs.GIDTypeRoCEv2, LinkLayer: verbs.LinkEthernet,
				MTU: 4096, PKey: 0xffff, SlotCount: 2, SlotSize: 320, Slots: diagnose.MemoryInfo{Length: 640},
			},
			Rank: rank, Size: 2, Digest: "d",
		}
	}
	mixed := func(a, b *connectionData) {
		a.Device, b.Device, b.Capabilities = "ibv:rxe0", "soft:eth0", verbs.Capabilities{Software: true, UDPSocket: true}
	}
	const own = "slots that do not fit"
	for name, c := range map[string]struct {
		change func(a, b *connectionData)
		mtu    int
		want   string
	}{
		"equal":              {func(*connectionData, *connectionData) {}, 4096, ""},
		"automatic, smaller": {func(_, b *connectionData) { b.MTU = 1024 }, 1024, ""},
		"fixed within":       {func(_, b *connectionData) { b.MTU, b.MTUFixed = 512, true }, 512, ""},
		"fixed beyond":       {func(a, b *connectionData) { a.MTU, a.MTUFixed, b.MTU = 2048, true, 1024 }, 0, "rank 0 (10.0.0.1:18600) has 2048 (--mtu) and rank 1 (10.0.0.2:18600) has 1024 (active MTU)"},
		"size":               {func(_, b *connectionData) { b.Size = 3 }, 0, "size of the ring"},
		"list":               {func(_, b *connectionData) { b.Digest = "e" }, 0, "digest"},
		"GID type":           {func(_, b *connectionData) { b.GIDType = verbs.GIDTypeRoCEv1 }, 0, "has RoCE v2 and rank 1"},
		"family":             {func(_, b *connectionData) { b.GID = verbs.GIDFromAddr(netip.MustParseAddr("fd00::1")) }, 0, "IPv6 fd00::1"},
		"loopback":           {func(_, b *connectionData) { b.GID = verbs.GIDFromAddr(netip.MustParseAddr("127.0.1.1")) }, 0, "127.0.1.1"},
		"link layer":         {func(_, b *connectionData) { b.LinkLayer = verbs.LinkInfiniBand }, 0, "InfiniBand"},
		"P_Key":              {func(_, b *connectionData) { b.PKey = 0x8001 }, 0, "0x8001"},
		"no subnet manager": {func(a, b *connectionData) {
			a.LinkLayer, b.LinkLayer, a.LID = verbs.LinkInfiniBand, verbs.LinkInfiniBand, 7
		}, 0,
			"rank 0 (10.0.0.1:18600) has 7 and rank 1 (10.0.0.2:18600) has 0"},
		"LIDs": {func(a, b *connectionData) {
			a.LinkLayer, b.LinkLayer, a.LID, b.LID = verbs.LinkInfiniBand, verbs.LinkInfiniBand, 7, 8
		}, 4096, ""},
		"soft beyond reach": {func(a, b *connectionData) { mixed(a, b); b.UDPPort = 40000 }, 0,
			"rank 0 (10.0.0.1:18600) is on ibv:rxe0, which sends to 4791 only, and rank 1 (10.0.0.2:18600) is on soft:eth0, which receives on 40000"},
		"soft within reach": {func(a, b *connectionData) { mixed(a, b); b.UDPPort = 4791 }, 4096, ""},
		own:                 {func(_, b *connectionData) { b.Slots.Length = 1 }, 0, "offers 1 bytes"},
	} {
		a, b := base(0), base(1)
		c.change(&a, &b)
		for _, pair := range [][2]connectionData{{a, b}, {b, a}} {
			mtu, err := agree(nodes, pair[0], pair[1], Values{})
			if c.want == "" && (err != nil || mtu != c.mtu) {
				t.Errorf("%s: %d, %v: expected %d", name, mtu, err, c.mtu)
			}
			// Own slots are as they were made; only the peer's can be wrong.
			if c.want != "" && err == nil && (pair[1] == b || own != name) {
				t.Errorf("%s: no error", name)
			}
		}
		if _, err := agree(nodes, a, b, Values{}); c.want != "" && !strings.Contains(textOf(err), c.want) {
			t.Errorf("%s: %v: expected %q", name, err, c.want)
		}
	}
}
