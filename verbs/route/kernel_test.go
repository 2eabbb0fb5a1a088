package route

import (
	"errors"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

func TestVia(t *testing.T) {
	for _, c := range [][2]string{{"127.0.0.1", "127.9.9.9"}, {"::1", "::1"}} {
		h, err := Via(netip.MustParseAddr(c[0]), netip.MustParseAddr(c[1]))
		if errors.Is(err, unix.ENETUNREACH) && c[0] == "::1" {
			continue // no IPv6 here
		}
		if err != nil || h.NetDev != "lo" || !h.Local || h.Gateway.IsValid() || h.String() != "on this host, by lo" {
			t.Errorf("%v: %+v %v", c, h, err)
		}
	}
	if h, err := Via(netip.MustParseAddr("192.0.2.77"), netip.MustParseAddr("127.0.0.1")); err == nil {
		t.Errorf("from an address that is not this machine's: %+v", h)
	}
	gateway := Hop{NetDev: "eth0", Gateway: netip.MustParseAddr("10.0.0.254"), MTU: 1400}
	if text := gateway.String(); text != "by eth0 to the router 10.0.0.254, route's MTU 1400" {
		t.Error(text)
	}
}
