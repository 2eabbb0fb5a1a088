package udp

import (
	"encoding/binary"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Sockaddr is an address and port in the form that the kernel takes: a
// sockaddr_in or sockaddr_in6 and its length. Make one per peer with
// NewSockaddr and keep it; a message refers to it.
type Sockaddr struct {
	raw    unix.RawSockaddrInet6
	length uint32
}

// NewSockaddr makes the Sockaddr of a. An IPv4-mapped IPv6 address becomes a
// sockaddr_in. GIDs carry no zone, so none is kept. An invalid a gives an address that
// the kernel refuses.
func NewSockaddr(a netip.AddrPort) Sockaddr {
	var s Sockaddr
	addr := a.Addr().Unmap()
	switch {
	case addr.Is4():
		in := (*unix.RawSockaddrInet4)(unsafe.Pointer(&s.raw))
		in.Family = unix.AF_INET
		setPort(&in.Port, a.Port())
		in.Addr = addr.As4()
		s.length = unix.SizeofSockaddrInet4
	case addr.Is6():
		s.raw.Family = unix.AF_INET6
		setPort(&s.raw.Port, a.Port())
		s.raw.Addr = addr.As16()
		s.length = unix.SizeofSockaddrInet6
	}
	return s
}

// AddrPort is the address again.
func (s *Sockaddr) AddrPort() netip.AddrPort { return addrPort(&s.raw) }

func (s *Sockaddr) family() int { return int(s.raw.Family) }

// setPort stores a port in network byte order.
func setPort(field *uint16, port uint16) {
	binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(field))[:], port)
}

func getPort(field *uint16) uint16 {
	return binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(field))[:])
}

// addrPort reads a sockaddr_in or sockaddr_in6.
func addrPort(raw *unix.RawSockaddrInet6) netip.AddrPort {
	switch raw.Family {
	case unix.AF_INET:
		in := (*unix.RawSockaddrInet4)(unsafe.Pointer(raw))
		return netip.AddrPortFrom(netip.AddrFrom4(in.Addr), getPort(&in.Port))
	case unix.AF_INET6:
		return netip.AddrPortFrom(netip.AddrFrom16(raw.Addr).Unmap(), getPort(&raw.Port))
	}
	return netip.AddrPort{}
}

// call binds or connects fd. A Conn that is to Send stays unconnected: its IPv4
// identification would otherwise be a running counter.
func (s *Sockaddr) call(number uintptr, fd int) error {
	_, _, errno := unix.Syscall(number, uintptr(fd), uintptr(unsafe.Pointer(&s.raw)), uintptr(s.length))
	if errno != 0 {
		return errno
	}
	return nil
}

func sockname(fd int) (netip.AddrPort, error) {
	s := Sockaddr{length: unix.SizeofSockaddrInet6}
	_, _, errno := unix.Syscall(unix.SYS_GETSOCKNAME, uintptr(fd), uintptr(unsafe.Pointer(&s.raw)), uintptr(unsafe.Pointer(&s.length)))
	if errno != 0 {
		return netip.AddrPort{}, errno
	}
	return s.AddrPort(), nil
}
