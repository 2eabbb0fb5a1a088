package route

import (
	"errors"
	"net"
	"net/netip"
	"testing"

	"ringcli/verbs"
)

// TestBeside: a device speaks from the address of the others if it has that, else from its first
// of that family that leads anywhere.
func TestBeside(t *testing.T) {
	var p Port
	p.Device, p.Attr.NetDev, p.Attr.LinkLayer = "soft:eth1", "eth1", verbs.LinkEthernet
	for _, a := range []string{"fe80::1", "10.1.0.7", "fd00::7", "10.1.0.8"} {
		p.GIDs = append(p.GIDs, verbs.GIDEntry{GID: verbs.GIDFromAddr(netip.MustParseAddr(a)), Type: verbs.GIDTypeRoCEv2})
	}
	for _, c := range []struct{ local, own, want string }{
		{"10.0.0.7", "eth0", "10.1.0.7"}, {"fd01::7", "eth0", "fd00::7"}, {"10.1.0.8", "eth1", "10.1.0.8"}, {"10.1.0.8", "", "10.1.0.8"},
		{"127.3.4.5", "eth1", "127.3.4.5"},
	} {
		if got, err := p.beside(net.Interface{Name: c.own}, netip.MustParseAddr(c.local)); err != nil || got != netip.MustParseAddr(c.want) {
			t.Errorf("beside %s of %q: %v, %v: expected %s", c.local, c.own, got, err, c.want)
		}
	}
	p.GIDs = p.GIDs[:1]
	if _, err := p.beside(net.Interface{Name: "eth0"}, netip.MustParseAddr("10.0.0.7")); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("without an address: %v", err)
	}
}
