package udp

import (
	"net/netip"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Features are the kernel features that spread the cost of a system call over
// several packets.
type Features struct {
	GSO         bool // UDP_SEGMENT (Linux 4.18): one send makes several datagrams
	GRO         bool // UDP_GRO (Linux 5.0): one receive returns several of one size
	MMsg        bool // sendmmsg and recvmmsg, which sandboxes may refuse
	MaxSegments int  // datagrams of one GSO send; 1 without GSO
}

// The kernel's UDP_MAX_SEGMENTS (include/linux/udp.h): 64 when UDP_SEGMENT came,
// 128 since Linux 6.9.
const (
	oldMaxSegments = 64
	newMaxSegments = 128
)

// probed asks the running kernel, once a process, what it can do.
var probed = sync.OnceValue(probe)

func probe() Features {
	f := Features{MaxSegments: 1}
	fd, addr, err := probeSocket()
	if err != nil {
		return f
	}
	defer func() { _ = unix.Close(fd) }()

	f.MMsg = probeMMsg(fd)
	f.GRO = unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_GRO, 1) == nil
	if unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_SEGMENT, 0) != nil {
		return f
	}
	f.GSO, f.MaxSegments = true, oldMaxSegments
	if probeSegments(fd, addr, newMaxSegments) == nil {
		f.MaxSegments = newMaxSegments
	} else if gsoRefused(probeSegments(fd, addr, oldMaxSegments)) {
		// Any other error is loopback's, not GSO's (it may be down): then the
		// socket option stands for the feature, and Send finds out about the path.
		f.GSO, f.MaxSegments = false, 1
	}
	return f
}

// probeSocket is a socket on loopback, of whichever family there is.
func probeSocket() (fd int, addr Sockaddr, err error) {
	for _, ip := range [...]netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()} {
		addr = NewSockaddr(netip.AddrPortFrom(ip, 0))
		fd, err = unix.Socket(addr.family(), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_UDP)
		if err != nil {
			continue
		}
		if err = bind(fd, addr); err == nil {
			var bound netip.AddrPort
			if bound, err = sockname(fd); err == nil {
				return fd, NewSockaddr(bound), nil
			}
		}
		_ = unix.Close(fd)
	}
	return -1, addr, err
}

// probeMMsg makes both calls with no message, which a kernel that has them
// answers with 0.
func probeMMsg(fd int) bool {
	var h mmsghdr
	for _, call := range [...]uintptr{unix.SYS_RECVMMSG, unix.SYS_SENDMMSG} {
		_, _, errno := unix.Syscall6(call, uintptr(fd), uintptr(unsafe.Pointer(&h)), 0, unix.MSG_DONTWAIT, 0, 0)
		if errno != 0 {
			return false
		}
	}
	return true
}

var probeData [newMaxSegments]byte

// probeSegments sends n segments of one byte from the socket to itself.
func probeSegments(fd int, addr Sockaddr, n int) error {
	s := new(sender)
	s.init()
	s.put(0, &Message{Dst: &addr}, []Iovec{IovecOf(probeData[:n])}, 1)
	if _, errno := s.sendmsg(fd, 0); errno != 0 {
		return errno
	}
	return nil
}
