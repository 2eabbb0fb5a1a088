package route

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"ringcli/verbs"
)

func addr(s string) netip.Addr {
	if s == "" {
		return netip.Addr{}
	}
	return netip.MustParseAddr(s)
}

func gid(s string) verbs.GID { return verbs.GIDFromAddr(netip.MustParseAddr(s)) }

// provider, device and opened are fakes with one method each that matters here.
type provider struct {
	name    string
	can     verbs.Capabilities
	devices []verbs.Device
	err     error
}

func (p provider) Name() string                     { return p.name }
func (p provider) Capabilities() verbs.Capabilities { return p.can }
func (p provider) Devices() ([]verbs.Device, error) { return p.devices, p.err }

type device struct {
	name  string
	ports []Port
	err   error
}

func (d device) Name() string { return d.name }
func (d device) Open(verbs.OpenOptions) (verbs.Context, error) {
	if d.err != nil {
		return nil, d.err
	}
	return opened{d: d}, nil
}

type opened struct {
	verbs.Context
	d device
}

func (o opened) Device() verbs.Device { return o.d }
func (o opened) Close() error         { return nil }
func (o opened) QueryDevice() (verbs.DeviceAttr, error) {
	return verbs.DeviceAttr{PhysPorts: len(o.d.ports)}, nil
}

func (o opened) QueryPort(port int) (verbs.PortAttr, error) {
	if port < 1 || port > len(o.d.ports) {
		return verbs.PortAttr{}, verbs.ErrInvalid
	}
	a := o.d.ports[port-1].Attr
	a.GIDTableSz = 8
	return a, nil
}

func (o opened) QueryGID(port, index int) (verbs.GIDEntry, error) {
	for _, g := range o.d.ports[port-1].GIDs {
		if g.Index == index {
			return g, nil
		}
	}
	if index%2 == 0 {
		return verbs.GIDEntry{}, nil // an empty row, as rdma_rxe has them
	}
	return verbs.GIDEntry{}, verbs.ErrInvalid
}

// port makes an active port; gids are "index type address netdev".
func port(link verbs.LinkLayer, gids ...string) Port {
	p := Port{Device: "fake:0", Num: 1, Attr: verbs.PortAttr{State: verbs.PortActive, LinkLayer: link, NetDev: "eth0", LID: 7}, Interfaces: map[string]Interface{}}
	for _, text := range gids {
		var g verbs.GIDEntry
		var kind, a string
		if _, err := fmt.Sscan(text, &g.Index, &kind, &a, &g.NetDev); err != nil {
			panic(text)
		}
		g.GID, g.Port = gid(a), 1
		g.Type = map[string]verbs.GIDType{"ib": verbs.GIDTypeIB, "v1": verbs.GIDTypeRoCEv1, "v2": verbs.GIDTypeRoCEv2}[kind]
		p.GIDs = append(p.GIDs, g)
	}
	return p
}

func (p Port) with(netdev string, up bool, prefixes ...string) Port {
	l := Interface{Up: up}
	for _, n := range prefixes {
		l.Prefixes = append(l.Prefixes, netip.MustParsePrefix(n))
	}
	p.Interfaces[netdev] = l
	return p
}

func text(err error) string {
	if err == nil {
		return "no error"
	}
	return err.Error()
}

// says tells whether a text holds all of the pieces.
func says(text string, pieces ...string) bool {
	for _, p := range pieces {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}

func TestQueryPort(t *testing.T) {
	p := port(verbs.LinkEthernet, "1 v2 10.0.0.1 eth0", "3 v2 fd00::1 eth0")
	got, err := QueryPort(opened{d: device{name: "fake:0", ports: []Port{p}}}, 1)
	if err != nil || len(got.GIDs) != 2 || got.GIDs[1].Index != 3 || got.Num != 1 || got.Device != "fake:0" {
		t.Errorf("%+v, %v: expected the rows 1 and 3", got, err)
	}
	for name, c := range map[string]struct {
		link  verbs.LinkLayer
		state verbs.PortState
		num   int
		want  []string
	}{
		"down":         {verbs.LinkEthernet, verbs.PortDown, 1, []string{"port 1 of fake:0 is DOWN", "ip link set eth0 up"}},
		"no manager":   {verbs.LinkInfiniBand, verbs.PortInit, 1, []string{"INIT", "subnet manager"}},
		"no cable":     {verbs.LinkInfiniBand, verbs.PortDown, 1, []string{"DOWN", "cable"}},
		"no such port": {verbs.LinkEthernet, verbs.PortActive, 2, []string{"port 2 of fake:0", verbs.ErrInvalid.Error()}},
	} {
		p := port(c.link)
		p.Attr.State = c.state
		if _, err := QueryPort(opened{d: device{name: "fake:0", ports: []Port{p}}}, c.num); !says(text(err), c.want...) {
			t.Errorf("%s: %v: expected %q", name, err, c.want)
		}
	}
}
