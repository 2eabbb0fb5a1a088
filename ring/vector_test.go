package ring

import (
	"testing"

	"ringcli/verbs"
	"ringcli/verbs/bringup"
	"ringcli/verbs/route"
)

// What a queue pair is told of its peer, by the link layer and by the providers at
// both ends, and with what an operator gives instead.
func TestVector(t *testing.T) {
	gid := func(last byte) verbs.GID { return verbs.GID{10: 0xff, 11: 0xff, 12: 10, 15: last} }
	port := func(l verbs.LinkLayer) route.Port {
		return route.Port{
			Device: "fake:0", Num: 1, Attr: verbs.PortAttr{LinkLayer: l, LID: 7},
			GIDs: []verbs.GIDEntry{{GID: gid(1), Index: 3, Port: 1, Type: verbs.GIDTypeRoCEv2}},
		}
	}
	global := func(g verbs.GID, index int, s verbs.UDPPeer) verbs.AHAttr {
		return verbs.AHAttr{
			IsGlobal: true, SL: 2, PortNum: 1, UDP: s,
			GRH: verbs.GlobalRoute{DGID: g, SGIDIndex: index, HopLimit: 64, TrafficClass: 104},
		}
	}
	given := gid(9)
	for name, c := range map[string]struct {
		link   verbs.LinkLayer
		remote QPInfo
		given  Values
		want   verbs.AHAttr
	}{
		"an adapter": {
			verbs.LinkEthernet, QPInfo{GID: gid(2), UDPPort: 0}, Values{},
			global(gid(2), 3, verbs.UDPPeer{Port: 4791}),
		},
		"an adapter, whatever port it says": {
			verbs.LinkEthernet, QPInfo{GID: gid(2), UDPPort: 5000}, Values{},
			global(gid(2), 3, verbs.UDPPeer{Port: 4791}),
		},
		"a soft device": {
			verbs.LinkEthernet, QPInfo{Capabilities: verbs.Capabilities{UDPSocket: true}, GID: gid(2), UDPPort: 5000}, Values{},
			global(gid(2), 3, verbs.UDPPeer{Port: 5000, LowIPIDs: true}),
		},
		"given": {
			verbs.LinkEthernet, QPInfo{GID: gid(2)}, Values{DGID: &given, SGIDIndex: new(5)},
			global(given, 5, verbs.UDPPeer{Port: 4791}),
		},
		"InfiniBand": {
			verbs.LinkInfiniBand, QPInfo{GID: gid(2), LID: 8}, Values{},
			verbs.AHAttr{IsGlobal: false, DLID: 8, SL: 2, PortNum: 1},
		},
	} {
		r := &edgeOwner{opts: &Options{SL: 2, TrafficClass: 104}}
		d := &Device{Device: bringup.Device{Port: port(c.link), GID: route.Choice{Entry: verbs.GIDEntry{GID: gid(1), Index: 3}}}}
		if got, err := (&Edge{r: r, Remote: connectionData{QPInfo: c.remote}, device: d}).vector(c.given); err != nil || got != c.want {
			t.Errorf("%s:\n%+v, %v: expected\n%+v", name, got, err, c.want)
		}
	}
}
