package udp

import (
	"encoding/binary"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// MaxBytes is the most payload of one send, in bytes, whether it is one
// datagram or several segments: 65535 less the IPv4 and UDP headers.
const MaxBytes = 65507

// MaxPieces is the most pieces of memory in one send (UIO_MAXIOV in
// include/uapi/linux/uio.h); with more the kernel answers EMSGSIZE.
const MaxPieces = 1024

// Iovec is one piece of memory, laid out as struct iovec on 64-bit Linux. Addr
// is a plain number so that lists of them hold no pointers: the caller keeps
// the memory alive and unchanged through the call (heap or mapped memory, not a
// variable on a goroutine's stack, which may move).
type Iovec struct {
	Addr uint64
	Len  uint64 // bytes
}

// IovecOf is the Iovec of b's bytes.
func IovecOf(b []byte) Iovec {
	return Iovec{Addr: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))), Len: uint64(len(b))}
}

// Message is what goes to one peer in one send.
type Message struct {
	Dst *Sockaddr
	Iov []Iovec // the payload, in order; at most MaxPieces

	// SegmentSize > 0 makes the payload several datagrams of this many bytes,
	// of which the last may be shorter. Up to Features.MaxSegments of them and
	// MaxBytes in all go out in one system call, in which the IPv4
	// identification counts up from 0. 0: one datagram.
	SegmentSize int
}

// size is the payload's length in bytes.
func (m *Message) size() int {
	n := uint64(0)
	for i := range m.Iov {
		n += m.Iov[i].Len
	}
	return int(n)
}

// mmsghdr is struct mmsghdr: a message header, and the bytes sent or received.
type mmsghdr struct {
	hdr unix.Msghdr
	n   uint32
	_   [4]byte
}

// flags are those of each call: neither blocks nor raises SIGPIPE.
const flags = unix.MSG_DONTWAIT | unix.MSG_NOSIGNAL

// call sends or receives one message.
func (m *mmsghdr) call(number uintptr, fd int) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall(number, uintptr(fd), uintptr(unsafe.Pointer(&m.hdr)), flags)
	if errno != 0 {
		return 0, errno
	}
	m.n = uint32(n)
	return 1, 0
}

// callMany sends messages, or receives as many as there are, and tells how many.
func callMany(number uintptr, fd int, list []mmsghdr) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall6(number, uintptr(fd), uintptr(unsafe.Pointer(&list[0])), uintptr(len(list)), flags, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

// control holds one control message with a 2- or 4-byte value: a 16-byte
// cmsghdr and the value, padded to 8 bytes.
type control struct {
	hdr   unix.Cmsghdr
	value int32
	_     [4]byte
}

const (
	lengthSegment = unix.SizeofCmsghdr + 2 // CMSG_LEN of UDP_SEGMENT's uint16
	lengthGRO     = unix.SizeofCmsghdr + 4 // CMSG_LEN of UDP_GRO's int
)

// The structures go to the kernel as they are; a 32-bit system would lay them
// out differently, and does not compile.
var (
	_ [unsafe.Sizeof(mmsghdr{}) - 64]struct{}
	_ [64 - unsafe.Sizeof(mmsghdr{})]struct{}
	_ [unsafe.Sizeof(control{}) - 24]struct{}
	_ [unsafe.Sizeof(Iovec{}) - unsafe.Sizeof(unix.Iovec{})]struct{}
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
