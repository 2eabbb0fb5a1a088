package udp

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSockaddr(t *testing.T) {
	for _, c := range []struct {
		in, out string
		family  int
	}{
		{"192.0.2.1:4791", "192.0.2.1:4791", unix.AF_INET},
		{"[::ffff:192.0.2.1]:4791", "192.0.2.1:4791", unix.AF_INET},
		{"[2001:db8::1]:49152", "[2001:db8::1]:49152", unix.AF_INET6},
	} {
		s := NewSockaddr(netip.MustParseAddrPort(c.in))
		if got := s.AddrPort(); got != netip.MustParseAddrPort(c.out) || s.family() != c.family {
			t.Errorf("%s came back as %v, family %d; expected %s, %d", c.in, got, s.family(), c.out, c.family)
		}
	}
	none := NewSockaddr(netip.AddrPort{})
	if got := none.AddrPort(); got.IsValid() {
		t.Errorf("no address came back as %v", got)
	}
}

// TestDualStack receives over both families on the unspecified IPv6 address.
func TestDualStack(t *testing.T) {
	to := listening(t, netip.MustParseAddrPort("[::]:0"), without{})
	for _, local := range []netip.AddrPort{loopback4, loopback6} {
		from := listening(t, local, without{})
		dst := NewSockaddr(netip.AddrPortFrom(local.Addr(), to.LocalAddr().Port()))
		if _, err := from.Send([]Message{{Dst: &dst, Iov: []Iovec{IovecOf(random(10))}}}); err != nil {
			t.Fatal(err)
		}
		got, _ := receive(t, to, 1)
		if len(got) != 1 || got[0].src != from.LocalAddr() {
			t.Fatalf("got %v, expected a datagram from %v", got, from.LocalAddr())
		}
		back := NewSockaddr(got[0].src)
		if _, err := to.Send([]Message{{Dst: &back, Iov: []Iovec{IovecOf(random(10))}}}); err != nil {
			t.Fatal(err)
		}
		if got, _ := receive(t, from, 1); len(got) != 1 || got[0].src.Port() != to.LocalAddr().Port() {
			t.Errorf("the answer over %v: %v", local.Addr(), got)
		}
	}
}
