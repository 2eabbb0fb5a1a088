package edges

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
	base := func(rank int) Data {
		return Data{
			QPInfo: QPInfo{
				GID: verbs.GIDFromAddr(netip.AddrFrom4([4]byte{10, 0, 0, byte(1 + rank)})), GIDType: verbs.GIDTypeRoCEv2, LinkLayer: verbs.LinkEthernet,
				MTU: 4096, PKey: 0xffff, SlotCount: 2, SlotSize: 320, Slots: diagnose.MemoryInfo{Length: 640},
			},
			Rank: rank, Size: 2, Digest: "d",
		}
	}
	mixed := func(a, b *Data) {
		a.Device, b.Device, b.Capabilities = "ibv:rxe0", "soft:eth0", verbs.Capabilities{Software: true, UDPSocket: true}
	}
	const own = "slots that do not fit"
	for name, c := range map[string]struct {
		change func(a, b *Data)
		mtu    int
		want   string
	}{
		"equal":              {func(*Data, *Data) {}, 4096, ""},
		"automatic, smaller": {func(_, b *Data) { b.MTU = 1024 }, 1024, ""},
		"fixed within":       {func(_, b *Data) { b.MTU, b.MTUFixed = 512, true }, 512, ""},
		"fixed beyond":       {func(a, b *Data) { a.MTU, a.MTUFixed, b.MTU = 2048, true, 1024 }, 0, "rank 0 (10.0.0.1:18600) has 2048 (--mtu) and rank 1 (10.0.0.2:18600) has 1024 (active MTU)"},
		"size":               {func(_, b *Data) { b.Size = 3 }, 0, "size of the ring"},
		"list":               {func(_, b *Data) { b.Digest = "e" }, 0, "digest"},
		"GID type":           {func(_, b *Data) { b.GIDType = verbs.GIDTypeRoCEv1 }, 0, "has RoCE v2 and rank 1"},
		"family":             {func(_, b *Data) { b.GID = verbs.GIDFromAddr(netip.MustParseAddr("fd00::1")) }, 0, "IPv6 fd00::1"},
		"loopback":           {func(_, b *Data) { b.GID = verbs.GIDFromAddr(netip.MustParseAddr("127.0.1.1")) }, 0, "127.0.1.1"},
		"link layer":         {func(_, b *Data) { b.LinkLayer = verbs.LinkInfiniBand }, 0, "InfiniBand"},
		"P_Key":              {func(_, b *Data) { b.PKey = 0x8001 }, 0, "0x8001"},
		"no subnet manager": {func(a, b *Data) {
			a.LinkLayer, b.LinkLayer, a.LID = verbs.LinkInfiniBand, verbs.LinkInfiniBand, 7
		}, 0,
			"rank 0 (10.0.0.1:18600) has 7 and rank 1 (10.0.0.2:18600) has 0"},
		"LIDs": {func(a, b *Data) {
			a.LinkLayer, b.LinkLayer, a.LID, b.LID = verbs.LinkInfiniBand, verbs.LinkInfiniBand, 7, 8
		}, 4096, ""},
		"soft beyond reach": {func(a, b *Data) { mixed(a, b); b.UDPPort = 40000 }, 0,
			"rank 0 (10.0.0.1:18600) is on ibv:rxe0, which sends to 4791 only, and rank 1 (10.0.0.2:18600) is on soft:eth0, which receives on 40000"},
		"soft within reach": {func(a, b *Data) { mixed(a, b); b.UDPPort = 4791 }, 4096, ""},
		own:                 {func(_, b *Data) { b.Slots.Length = 1 }, 0, "offers 1 bytes"},
	} {
		a, b := base(0), base(1)
		c.change(&a, &b)
		for _, pair := range [][2]Data{{a, b}, {b, a}} {
			mtu, err := Agree(nodes, pair[0], pair[1], Values{})
			if c.want == "" && (err != nil || mtu != c.mtu) {
				t.Errorf("%s: %d, %v: expected %d", name, mtu, err, c.mtu)
			}
			// Own slots are as they were made; only the peer's can be wrong.
			if c.want != "" && err == nil && (pair[1] == b || own != name) {
				t.Errorf("%s: no error", name)
			}
		}
		if _, err := Agree(nodes, a, b, Values{}); c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v: expected %q", name, err, c.want)
		}
	}
}
