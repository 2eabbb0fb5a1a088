package transport

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"ringcli/verbs"
	"ringcli/verbs/route"
)

// What a peer says of itself and of its memory is refused with a reason, or is printed as what
// reads the same again.
func FuzzText(f *testing.F) {
	whole := address{
		name: "node0:1", device: "soft:lo", gid: verbs.GIDFromAddr(netip.MustParseAddr("127.0.0.1")), gidType: verbs.GIDTypeRoCEv2,
		link: verbs.LinkEthernet, lid: 7, udpPort: 4791, can: verbs.Capabilities{UDPSocket: true, HostLocal: true},
		qpn: 0x11, psn: 1<<24 - 1, mtu: 1024, reads: 16, domain: 1<<64 - 1,
		host: route.Host{BootID: "b", UID: 1<<32 - 2, NetNS: "n", UserNS: "u", Missing: "m & n"},
	}
	six := whole
	six.gid, six.device, six.can = verbs.GIDFromAddr(netip.MustParseAddr("fe80::1")), "a/b %\n", verbs.Capabilities{}
	six.host = route.Host{}
	for _, a := range []*address{&whole, &six} {
		text := a.String()
		if got, err := parseURL(text); err != nil || got != *a {
			f.Errorf("%s reads as %+v, %v", text, got, err)
		}
		f.Add(text)
		f.Add(strings.Replace(text, "]", "%25eth0]", 1))
		f.Add(strings.Replace(text, "v=1", "v=2", 1))
		f.Add(text + "&psn=16777216")
	}
	for _, text := range []string{
		"", "rdma://", "rdma:x", "rdma://[::1]:1/", "rdma://[::1]:1/soft:lo?v=1&qpn=1",
		RemoteBuffer{1<<64 - 1, RemoteKey{1<<32 - 1, 1 << 63, 1<<64 - 1, 5}}.String(),
		"0x1000@1.1000.20.f", "1@2.3.4.5", "0x0x1@2.3.4.5", "1@100000000.3.4.5", "@...", "+1@2.3.4.5",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if a, err := parseURL(text); err == nil {
			_ = a.who()
			printed := a.String()
			again, err := parseURL(printed)
			if err != nil || again.String() != printed {
				t.Errorf("%q is printed as %q, which reads as %q, %v", text, printed, again.String(), err)
			}
			if a.host = again.host; again != a { // the host is printed where it matters
				t.Errorf("%q is %+v, and printed and read again %+v", text, a, again)
			}
			if err := again.reaches(&a); !errors.Is(err, ErrURL) {
				t.Errorf("%q reaches itself: %v", text, err)
			}
		} else if !errors.Is(err, ErrURL) {
			t.Errorf("%q: %v", text, err)
		}
		if b, err := ParseRemoteBuffer(text); err == nil {
			if again, err := ParseRemoteBuffer(b.String()); err != nil || again != b {
				t.Errorf("%q is %s, and that reads as %s, %v", text, b, again, err)
			}
			if n := b.Len(); n > b.Key.length || n > 0 && !within(b.Addr, n, b.Key.addr, b.Key.length) {
				t.Errorf("%q has %d bytes from %#x on", text, n, b.Addr)
			}
		} else if !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("%q: %v", text, err)
		}
	})
}
