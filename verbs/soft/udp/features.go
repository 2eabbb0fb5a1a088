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
	c, err := listen(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0), f)
	if err != nil {
		c, err = listen(netip.AddrPortFrom(netip.IPv6Loopback(), 0), f)
	}
	if err != nil {
		return f
	}
	defer func() { _ = c.Close() }()

	f.MMsg = probeMMsg(c.fd)
	f.GRO = unix.SetsockoptInt(c.fd, unix.SOL_UDP, unix.UDP_GRO, 1) == nil
	if unix.SetsockoptInt(c.fd, unix.SOL_UDP, unix.UDP_SEGMENT, 0) != nil {
		return f
	}
	f.GSO, f.MaxSegments = true, oldMaxSegments
	if c.probeSegments(newMaxSegments) == nil {
		f.MaxSegments = newMaxSegments
	} else if gsoRefused(c.probeSegments(oldMaxSegments)) {
		// Any other error is loopback's, not GSO's (it may be down): then the
		// socket option stands for the feature, and Send finds out about the path.
		f.GSO, f.MaxSegments = false, 1
	}
	return f
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

// probeSegments sends n segments of one byte from the socket to itself.
func (c *Conn) probeSegments(n int) error {
	to := NewSockaddr(c.local)
	c.send.put(0, &Message{Dst: &to}, []Iovec{IovecOf(c.recv.buffer[:n])}, 1)
	_, errno := c.send.hdrs[0].call(unix.SYS_SENDMSG, c.fd)
	if errno != 0 {
		return errno
	}
	return nil
}
