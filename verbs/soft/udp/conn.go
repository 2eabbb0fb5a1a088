// Package udp is the network side of the software RoCEv2 provider: UDP sockets
// used through raw system calls by an endpoint that polls.
//
// The package net would do, but at a price: its calls go through the network
// poller and tell the scheduler about every system call, which halves the rate
// of a poll loop. Here Send and Recv never block, so they may skip both. What
// the kernel offers to spread the cost of a call over many packets (UDP_SEGMENT
// for sending, UDP_GRO for receiving, sendmmsg and recvmmsg) is probed once; a
// kernel without it gets the same datagrams one by one.
//
// The sockets are set up for the invariant CRC of RoCEv2, which covers the IPv4
// identification: an unconnected socket with IP_MTU_DISCOVER at IP_PMTUDISC_DO
// sends every datagram with DF set and identification 0, and the i-th segment of
// one UDP_SEGMENT send with identification i (include/net/ip.h,
// ip_select_ident_segs; net/ipv4/af_inet.c, inet_gso_segment).
package udp

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrClosed is what every call on a closed Conn returns; it is net.ErrClosed.
var ErrClosed = net.ErrClosed

// socketBuffer is the size in bytes that Listen asks for, of either buffer.
const socketBuffer = 8 << 20

// Conn is one bound, unconnected UDP socket.
//
// Ownership: one goroutine at a time may be in Send, and one in Recv; they
// share nothing, so the two may overlap. The slices that Recv returns belong to
// the receiving goroutine until its next Recv. One goroutine at a time may be
// in Wait. Wake, Close and the accessors may be called by anyone at any time.
type Conn struct {
	fd, event  int
	local      netip.AddrPort
	recvBuffer int

	// refs counts the calls that use the descriptors; Close adds closing to it,
	// and the call that brings it down to exactly closing releases them. A descriptor
	// can therefore not be closed, and its number reused, under a running call.
	refs   atomic.Int64
	closed chan struct{} // closed when the descriptors are

	noGSO    atomic.Bool // set by Send when the path turns out not to do it
	features Features    // as probed; GSO is subject to noGSO

	send sender
	recv receiver
}

const closing = 1 << 62

// Listen opens a socket bound to local. An IPv4-mapped address is taken as the
// IPv4 address it stands for. The address must be valid; port 0 lets the kernel
// choose. errors.Is(err, unix.EADDRINUSE) tells that somebody else has the port
// (for 4791 that may be the rdma_rxe module).
func Listen(local netip.AddrPort) (*Conn, error) { return listen(local, probed()) }

// listen opens a socket that uses no more than these features.
func listen(local netip.AddrPort, f Features) (*Conn, error) {
	if !local.IsValid() {
		return nil, fmt.Errorf("udp: listen: got no address, expected an IP address and a port such as 127.0.0.1:4791")
	}
	addr := NewSockaddr(local)
	fd, err := unix.Socket(addr.family(), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_UDP)
	if err != nil {
		return nil, fmt.Errorf("udp: listen on %v: %w", local, os.NewSyscallError("socket", err))
	}
	c := &Conn{fd: fd, event: -1, closed: make(chan struct{}), features: f}
	if err := c.setup(addr); err != nil {
		c.release0()
		return nil, fmt.Errorf("udp: listen on %v: %w", local, err)
	}
	return c, nil
}

// setup does what listen does after the socket call; on error listen releases
// what is there.
func (c *Conn) setup(addr Sockaddr) error {
	if err := setIPOptions(c.fd, addr); err != nil {
		return err
	}
	// Past the limit of net.core.{r,w}mem_max, which takes CAP_NET_ADMIN, and without it
	// what the limit allows.
	for _, option := range [...]struct{ force, plain int }{{unix.SO_RCVBUFFORCE, unix.SO_RCVBUF}, {unix.SO_SNDBUFFORCE, unix.SO_SNDBUF}} {
		err := unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, option.force, socketBuffer)
		if err != nil {
			err = unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, option.plain, socketBuffer)
		}
		if err != nil {
			return os.NewSyscallError("setsockopt SO_*BUF", err)
		}
	}
	granted, err := unix.GetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	if err != nil {
		return os.NewSyscallError("getsockopt SO_RCVBUF", err)
	}
	c.recvBuffer = granted
	c.features.GRO = c.features.GRO && unix.SetsockoptInt(c.fd, unix.SOL_UDP, unix.UDP_GRO, 1) == nil
	if err := addr.call(unix.SYS_BIND, c.fd); err != nil {
		return os.NewSyscallError("bind", err)
	}
	bound, err := sockname(c.fd)
	if err != nil {
		return os.NewSyscallError("getsockname", err)
	}
	c.local = bound

	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return os.NewSyscallError("eventfd2", err)
	}
	c.event = event
	c.send.init()
	c.recv.init(c.features)
	return nil
}

// setIPOptions forbids fragmentation, and lets IPv6 datagrams without a UDP
// checksum in: the kernel's rdma_rxe sends those, and an ordinary socket would
// drop them.
func setIPOptions(fd int, addr Sockaddr) error {
	for _, o := range [...]struct {
		name                 string
		level, option, value int
		both                 bool // a socket bound to the unspecified IPv6 address speaks IPv4 as well
	}{
		{"IPV6_V6ONLY", unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0, false},
		{"IPV6_MTU_DISCOVER", unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO, false},
		{"UDP_NO_CHECK6_RX", unix.SOL_UDP, unix.UDP_NO_CHECK6_RX, 1, false},
		{"IP_MTU_DISCOVER", unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO, true},
	} {
		if o.both || addr.family() == unix.AF_INET6 {
			if err := unix.SetsockoptInt(fd, o.level, o.option, o.value); err != nil {
				return os.NewSyscallError("setsockopt "+o.name, err)
			}
		}
	}
	return nil
}

// LocalAddr is the address the socket is bound to, with the port that the
// kernel chose where Listen was given 0.
func (c *Conn) LocalAddr() netip.AddrPort { return c.local }

// SetTrafficClass sets DSCP and ECN of what is sent from now on.
func (c *Conn) SetTrafficClass(class uint8) error {
	if !c.use() {
		return ErrClosed
	}
	defer c.done()
	level, name := unix.IPPROTO_IP, unix.IP_TOS
	if c.local.Addr().Is6() {
		level, name = unix.IPPROTO_IPV6, unix.IPV6_TCLASS
	}
	return os.NewSyscallError("setsockopt IP_TOS", unix.SetsockoptInt(c.fd, level, name, int(class)))
}

// Features tells what this socket uses now. GSO turns false for good when a
// path turns out not to support it.
func (c *Conn) Features() Features {
	f := c.features
	if c.noGSO.Load() {
		f.GSO = false
	}
	if !f.GSO {
		f.MaxSegments = 1
	}
	return f
}

// RecvBuffer is the receive buffer that the kernel granted, in bytes, as
// SO_RCVBUF reads. The kernel charges packets with their bookkeeping, and
// therefore doubles what was asked for.
func (c *Conn) RecvBuffer() int { return c.recvBuffer }

// Close ends a Wait in progress, lets running calls finish and releases the
// descriptors. It returns when that is done; closing again does nothing.
func (c *Conn) Close() error {
	for {
		n := c.refs.Load()
		if n >= closing {
			<-c.closed
			return nil
		}
		// The Conn holds its own reference while it wakes the others.
		if c.refs.CompareAndSwap(n, n+1+closing) {
			break
		}
	}
	c.signal()
	c.done()
	<-c.closed
	return nil
}

// use takes a reference, or tells that the Conn is closed.
func (c *Conn) use() bool {
	if c.refs.Add(1) < closing {
		return true
	}
	c.done()
	return false
}

// done gives back a reference.
func (c *Conn) done() {
	if c.refs.Add(-1) == closing {
		c.release()
	}
}

// release closes the descriptors, once: a late use brings the count back to
// closing, and is held off by the swap.
func (c *Conn) release() {
	if !c.refs.CompareAndSwap(closing, closing+closing/2) {
		return
	}
	c.release0()
	close(c.closed)
}

func (c *Conn) release0() {
	_ = unix.Close(c.fd)
	if c.event >= 0 {
		_ = unix.Close(c.event)
	}
}

// Wait sleeps until something can be received (readable is true), Wake is
// called, or timeout has passed. After Close it
// returns ErrClosed. It blocks an operating system thread, and waking that up
// takes tens of microseconds: it is for a goroutine in the background, while
// the latency path polls Recv.
func (c *Conn) Wait(timeout time.Duration) (readable bool, err error) {
	if !c.use() {
		return false, ErrClosed
	}
	defer c.done()
	deadline := time.Now().Add(timeout)
	for {
		left := unix.NsecToTimespec(int64(max(0, time.Until(deadline))))
		fds := [2]unix.PollFd{
			{Fd: int32(c.fd), Events: unix.POLLIN},
			{Fd: int32(c.event), Events: unix.POLLIN},
		}
		_, err := unix.Ppoll(fds[:], &left, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("udp: wait on %v: ppoll: %w", c.local, err)
		}
		if c.refs.Load() >= closing {
			return false, ErrClosed
		}
		if fds[1].Revents != 0 {
			var count [8]byte // reading takes the eventfd back to 0
			_, _ = unix.Read(c.event, count[:])
		}
		return fds[0].Revents != 0, nil
	}
}

// Wake ends the Wait in progress, or else the next one.
func (c *Conn) Wake() {
	if c.use() {
		c.signal()
		c.done()
	}
}

// signal raises the eventfd. It cannot fail: the descriptor is open, and its
// counter would take 2^64-1 calls to fill up.
func (c *Conn) signal() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(c.event, one[:])
}

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
