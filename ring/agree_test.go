package ring

import (
	"net/netip"
	"strings"
	"testing"

	"ringcli/ring/bootstrap/hosts"
	"ringcli/ring/diagnose"
	"ringcli/verbs"
)

func TestAgree(t *testing.T) {
	nodes, err := hosts.Parse("10.0.0.1,10.0.0.2", 18600)
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
