package transport

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"

	"ringcli/verbs"
	"ringcli/verbs/route"
)

// scheme begins a URL; version is of what it says, and of the messages that the ends exchange.
const (
	scheme  = "rdma"
	version = "1"
)

// address is all that one end must know of the other, as a URL has it:
//
//	rdma://[GID]:UDPPORT/DEVICE?v=1&name=…&qpn=…&psn=…&…
type address struct {
	name    string
	device  string
	gid     verbs.GID
	gidType verbs.GIDType
	link    verbs.LinkLayer
	lid     uint16
	udpPort uint16
	can     verbs.Capabilities
	qpn     uint32
	psn     uint32
	mtu     int // bytes
	reads   int // READs that the end answers at once
	domain  uint64
	host    route.Host // of a device that reaches its host alone
}

// String is the URL.
func (a *address) String() string {
	q := url.Values{}
	set := func(key string, value any) { q.Set(key, fmt.Sprint(value)) }
	set("v", version)
	set("name", a.name)
	set("type", a.gidType)
	set("link", a.link)
	set("qpn", a.qpn)
	set("psn", a.psn)
	set("mtu", a.mtu)
	set("reads", a.reads)
	set("domain", fmt.Sprintf("%x", a.domain))
	if a.lid != 0 {
		set("lid", a.lid)
	}
	if a.can.UDPSocket {
		set("socket", 1)
	}
	if a.can.HostLocal {
		set("local", 1)
		set("boot", a.host.BootID)
		set("uid", a.host.UID)
		set("net", a.host.NetNS)
		set("user", a.host.UserNS)
		set("missing", a.host.Missing)
	}
	at := netip.AddrPortFrom(netip.AddrFrom16(a.gid), a.udpPort)
	return (&url.URL{Scheme: scheme, Host: at.String(), Path: "/" + a.device, RawQuery: q.Encode()}).String()
}

// parseURL reads what String has written.
func parseURL(text string) (a address, err error) {
	wrong := func(format string, args ...any) (address, error) {
		return address{}, failed(ErrURL, "%q is not the URL of a transport: %s: expected what its Bind returned", text, fmt.Sprintf(format, args...))
	}
	u, err := url.Parse(text)
	if err != nil {
		return wrong("%v", err)
	}
	q := u.Query()
	switch {
	case u.Scheme != scheme:
		return wrong("it begins with %q, not %q", u.Scheme, scheme)
	case q.Get("v") != version:
		return wrong("it is of version %q, this end speaks %q: run the same at both ends", q.Get("v"), version)
	case len(u.Path) < 2:
		return wrong("it names no device")
	}
	at, err := netip.ParseAddrPort(u.Host)
	if err != nil {
		return wrong("%v", err)
	}
	number := func(key string, bits int) (n uint64) {
		if text := q.Get(key); err == nil && text != "" {
			if n, err = strconv.ParseUint(text, 10, bits); err != nil {
				err = fmt.Errorf("%s is %q", key, text)
			}
		}
		return n
	}
	a = address{
		name: q.Get("name"), device: u.Path[1:], gid: verbs.GIDFromAddr(at.Addr()), udpPort: at.Port(),
		lid: uint16(number("lid", 16)), qpn: uint32(number("qpn", 24)), psn: uint32(number("psn", 24)), mtu: int(number("mtu", 16)),
		reads: int(number("reads", 8)), host: route.Host{
			BootID: q.Get("boot"), UID: int(number("uid", 32)), NetNS: q.Get("net"), UserNS: q.Get("user"), Missing: q.Get("missing"),
		},
	}
	a.can.UDPSocket, a.can.HostLocal = q.Get("socket") == "1", q.Get("local") == "1"
	if err == nil {
		err = a.gidType.UnmarshalText([]byte(q.Get("type")))
	}
	if err == nil {
		err = a.link.UnmarshalText([]byte(q.Get("link")))
	}
	if err == nil {
		_, err = verbs.MTUFromBytes(a.mtu)
	}
	if err == nil {
		a.domain, err = strconv.ParseUint(q.Get("domain"), 16, 64)
	}
	switch {
	case err != nil:
		return wrong("%v", err)
	case a.qpn == 0:
		return wrong("it names no queue pair")
	}
	return a, nil
}

// who names the end in errors.
func (a *address) who() string {
	return fmt.Sprintf("%s (%s, QP 0x%06x, GID %s)", a.name, a.device, a.qpn, a.gid)
}

// failed is an error of a code, with the end's name.
func (a *address) failed(code error, format string, args ...any) error {
	return failed(code, "%s: %s", a.who(), fmt.Sprintf(format, args...))
}

// reaches is an error unless the two ends can have a connection.
func (a *address) reaches(peer *address) error {
	differ := func(format string, args ...any) error {
		return failed(ErrURL, "connect %s to %s: %s", a.who(), peer.who(), fmt.Sprintf(format, args...))
	}
	switch {
	case a.qpn == peer.qpn && a.domain == peer.domain:
		return differ("it is this end's own URL: give the peer's")
	case a.can.HostLocal != peer.can.HostLocal:
		return differ("shared memory is at one end alone: give both the same device")
	case a.can.HostLocal:
		if apart := a.host.Apart(peer.host); apart != "" {
			return differ("they cannot share memory: %s: take soft or an RDMA device", apart)
		}
	case a.link != peer.link:
		return differ("the links differ: %s and %s", a.link, peer.link)
	case a.gidType != peer.gidType:
		return differ("the GID types differ: %s and %s: give GID indices of one type", a.gidType, peer.gidType)
	case a.link == verbs.LinkEthernet && a.gid.Addr().Is4() != peer.gid.Addr().Is4():
		return differ("the address families differ: give GID indices of one")
	}
	return nil
}
