package route

import (
	"errors"
	"testing"

	"ringcli/verbs"
)

func TestAddressVector(t *testing.T) {
	fabric := port(verbs.LinkInfiniBand, "0 ib fe80::1 ib0")
	alone := port(verbs.LinkInfiniBand, "0 ib fe80::1 ib0")
	alone.Attr.LID = 0
	ethernet := port(verbs.LinkEthernet, "3 v2 10.0.0.1 eth0")
	service := Service{SL: 5, TrafficClass: 0x68}
	for name, c := range map[string]struct {
		port  Port
		index int
		to    Remote
		with  Service
		want  verbs.AHAttr
		err   string
	}{
		"InfiniBand: LID alone": {
			port: fabric, to: Remote{GID: gid("fe80::2"), LID: 9, LinkLayer: verbs.LinkInfiniBand}, with: service,
			want: verbs.AHAttr{IsGlobal: false, DLID: 9, SL: 5, PortNum: 1},
		},
		"InfiniBand: no GID said": {port: fabric, to: Remote{LID: 9}, want: verbs.AHAttr{IsGlobal: false, DLID: 9, PortNum: 1}},
		"InfiniBand: another subnet": {
			port: fabric, to: Remote{GID: gid("fec0::2"), LID: 9, LinkLayer: verbs.LinkInfiniBand}, with: service,
			want: verbs.AHAttr{
				IsGlobal: true, DLID: 9, SL: 5, PortNum: 1,
				GRH: verbs.GlobalRoute{DGID: gid("fec0::2"), SGIDIndex: 0, HopLimit: 64, TrafficClass: 0x68},
			},
		},
		"InfiniBand: no own LID":  {port: alone, to: Remote{LID: 9}, err: "port 1 of fake:0 has no LID"},
		"InfiniBand: no peer LID": {port: fabric, to: Remote{GID: gid("fe80::2")}, err: "the peer's port has no LID"},
		"Ethernet: GRH": {
			port: ethernet, index: 3, to: Remote{GID: gid("10.0.0.2"), LID: 0, LinkLayer: verbs.LinkEthernet}, with: service,
			want: verbs.AHAttr{
				IsGlobal: true, DLID: 0, SL: 5, PortNum: 1, UDP: verbs.UDPPeer{Port: 4791},
				GRH: verbs.GlobalRoute{DGID: gid("10.0.0.2"), SGIDIndex: 3, HopLimit: 64, TrafficClass: 0x68},
			},
		},
		"Ethernet: a device that says some UDP port": {
			port: ethernet, index: 3, to: Remote{GID: gid("10.0.0.2"), UDPPort: 999},
			want: verbs.AHAttr{
				IsGlobal: true, PortNum: 1, UDP: verbs.UDPPeer{Port: 4791},
				GRH: verbs.GlobalRoute{DGID: gid("10.0.0.2"), SGIDIndex: 3, HopLimit: 64},
			},
		},
		"Ethernet: a soft peer": {
			port: ethernet, index: 3, to: Remote{GID: gid("10.0.0.2"), UDPPort: 40000, UDPSocket: true},
			want: verbs.AHAttr{
				IsGlobal: true, PortNum: 1, UDP: verbs.UDPPeer{Port: 40000, LowIPIDs: true},
				GRH: verbs.GlobalRoute{DGID: gid("10.0.0.2"), SGIDIndex: 3, HopLimit: 64},
			},
		},
		"Ethernet: no GID":   {port: ethernet, index: 3, to: Remote{LID: 4}, err: "the peer has no GID"},
		"link layers differ": {port: ethernet, index: 3, to: Remote{GID: gid("fe80::2"), LID: 9, LinkLayer: verbs.LinkInfiniBand}, err: "InfiniBand"},
	} {
		got, err := c.port.AddressVector(c.index, c.to, c.with)
		if c.err != "" {
			if !says(text(err), c.err) || !errors.Is(err, verbs.ErrInvalid) {
				t.Errorf("%s: %v: expected %q", name, err, c.err)
			}
			continue
		}
		if err != nil || got != c.want {
			t.Errorf("%s:\n%+v, %v: expected\n%+v", name, got, err, c.want)
		}
	}
}
