package route

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Hop is where the kernel sends packets of an address of this machine to another.
type Hop struct {
	NetDev  string     `json:"netdev"`
	Gateway netip.Addr `json:"gateway"` // the router; invalid: they share a network
	Local   bool       `json:"local"`   // the other is an address of this machine, too
	MTU     int        `json:"mtu"`     // of the route, in bytes; 0: the interface's
}

func (h Hop) String() (text string) {
	switch {
	case h.Local:
		text = "on this host, by " + h.NetDev
	case h.Gateway.IsValid():
		text = fmt.Sprintf("by %s to the router %s", h.NetDev, h.Gateway)
	default:
		text = fmt.Sprintf("by %s, in one network", h.NetDev)
	}
	if h.MTU > 0 {
		text += fmt.Sprintf(", route's MTU %d", h.MTU)
	}
	return text
}

// routeWithin bounds the kernel's answer, which comes at once.
const routeWithin = time.Second

// Via asks the kernel for its way from one address to another, as `ip route get TO from FROM`
// does (rtnetlink(7), RTM_GETROUTE). The error is the kernel's: that there is none, for one.
func Via(from, to netip.Addr) (h Hop, err error) {
	wrong := func(err error) (Hop, error) {
		return Hop{}, fmt.Errorf("route from %s to %s: %w", from, to, err)
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return wrong(err)
	}
	defer func() { _ = unix.Close(fd) }()
	within := unix.NsecToTimeval(routeWithin.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &within); err != nil {
		return wrong(err)
	}
	if err := unix.Sendto(fd, routeRequest(from, to), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return wrong(err)
	}
	b := make([]byte, 8<<10) // one route; NLMSG_GOODSIZE
	n, _, err := unix.Recvfrom(fd, b, 0)
	if err != nil {
		return wrong(err)
	}
	messages, err := syscall.ParseNetlinkMessage(b[:n])
	if err != nil || len(messages) == 0 {
		return wrong(fmt.Errorf("the kernel's answer of %d bytes cannot be read", n))
	}
	m := messages[0]
	if m.Header.Type == unix.NLMSG_ERROR && len(m.Data) >= 4 {
		return wrong(unix.Errno(-int32(binary.NativeEndian.Uint32(m.Data))))
	}
	attributes, err := syscall.ParseNetlinkRouteAttr(&m)
	if err != nil || m.Header.Type != unix.RTM_NEWROUTE {
		return wrong(fmt.Errorf("an answer of type %d: expected RTM_NEWROUTE", m.Header.Type))
	}
	h.Local = m.Data[7] == unix.RTN_LOCAL // rtm_type
	for _, a := range attributes {
		switch a.Attr.Type {
		case unix.RTA_OIF:
			if i, err := net.InterfaceByIndex(int(binary.NativeEndian.Uint32(a.Value))); err == nil {
				h.NetDev = i.Name
			}
		case unix.RTA_GATEWAY:
			h.Gateway, _ = netip.AddrFromSlice(a.Value)
		case unix.RTA_METRICS: // attributes within
			for rest := a.Value; len(rest) >= unix.SizeofRtAttr+4; {
				length := int(binary.NativeEndian.Uint16(rest))
				if binary.NativeEndian.Uint16(rest[2:]) == unix.RTAX_MTU {
					h.MTU = int(binary.NativeEndian.Uint32(rest[unix.SizeofRtAttr:]))
				}
				rest = rest[min(len(rest), max(unix.SizeofRtAttr, (length+3)&^3)):]
			}
		}
	}
	return h, nil
}

// routeRequest is a message header, a struct rtmsg, and both addresses.
func routeRequest(from, to netip.Addr) []byte {
	family := byte(unix.AF_INET)
	if to.Is6() {
		family = unix.AF_INET6
	}
	b := make([]byte, unix.SizeofNlMsghdr+unix.SizeofRtMsg)
	bits := byte(to.BitLen())
	copy(b[unix.SizeofNlMsghdr:], []byte{family, bits, bits})
	for _, a := range []struct {
		kind uint16
		addr netip.Addr
	}{{unix.RTA_DST, to}, {unix.RTA_SRC, from}} {
		value := a.addr.AsSlice()
		b = binary.NativeEndian.AppendUint16(b, uint16(unix.SizeofRtAttr+len(value)))
		b = append(binary.NativeEndian.AppendUint16(b, a.kind), value...)
	}
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], unix.RTM_GETROUTE)
	binary.NativeEndian.PutUint16(b[6:], unix.NLM_F_REQUEST)
	return b
}
