package udp

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

// What comes from others than those admitted never reaches the socket's buffer.
func TestAdmit(t *testing.T) {
	for _, local := range []netip.AddrPort{loopback4, loopback6} {
		t.Run(local.Addr().String(), func(t *testing.T) {
			to := listening(t, local, without{})
			peer, stranger := listening(t, local, without{}), listening(t, local, without{})
			dst := NewSockaddr(to.LocalAddr())
			elsewhere := netip.MustParseAddr("192.0.2.1")
			if local.Addr().Is6() {
				elsewhere = netip.MustParseAddr("2001:db8::1")
			}
			var many []netip.AddrPort
			for i := range uint16(MaxAdmitted - 1) {
				many = append(many, netip.AddrPortFrom(local.Addr(), i+1), netip.AddrPortFrom(elsewhere, 0))
			}
			for _, c := range []struct {
				name     string
				admitted []netip.AddrPort
				want     string
			}{
				{"the peer", []netip.AddrPort{peer.LocalAddr()}, "peer"},
				{"an address", []netip.AddrPort{netip.AddrPortFrom(local.Addr(), 0)}, "peer stranger"},
				{"another address", []netip.AddrPort{netip.AddrPortFrom(elsewhere, 0)}, ""},
				{"nobody", nil, ""},
				{"the most", append(many[:MaxAdmitted-1:MaxAdmitted-1], peer.LocalAddr()), "peer"},
				{"more than the most", append(many, peer.LocalAddr()), "peer stranger"},
				{"the peer again", []netip.AddrPort{netip.AddrPortFrom(elsewhere, 0), peer.LocalAddr()}, "peer"},
			} {
				if err := to.Admit(c.admitted); err != nil {
					t.Fatalf("%s: %v", c.name, err)
				}
				for _, from := range []*Conn{peer, stranger} {
					if _, err := from.Send([]Message{{Dst: &dst, Iov: []Iovec{IovecOf([]byte("hello"))}}}); err != nil {
						t.Fatal(err)
					}
				}
				got := "" // loopback has delivered before Send returns
				for deadline := time.Now().Add(5 * time.Second); got != c.want && time.Now().Before(deadline); {
					batch, err := to.Recv()
					if err != nil {
						t.Fatal(err)
					}
					for _, r := range batch {
						name := map[netip.AddrPort]string{peer.LocalAddr(): "peer", stranger.LocalAddr(): "stranger"}[r.Src]
						if got != "" {
							name = " " + name
						}
						got += name
					}
				}
				if more, err := to.Recv(); err != nil || len(more) > 0 || got != c.want {
					t.Errorf("%s: got %q and %d more, %v; want %q", c.name, got, len(more), err, c.want)
				}
			}
		})
	}
	c := listening(t, loopback4, without{})
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.Admit(nil); fmt.Sprint(err) != ErrClosed.Error() {
		t.Errorf("closed: %v", err)
	}
}
