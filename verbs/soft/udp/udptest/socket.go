package udptest

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"ringcli/verbs/soft/udp"
)

// Every packet starts with its kind in byte 0; what a control packet carries
// follows from byte 8.
const (
	kindHello   = iota + 1 // sender: the size and number of messages, every millisecond
	kindWelcome            // receiver: the window in bytes, 0 if it expected others
	kindData               // the offset in the stream, headers counted
	kindCredit             // receiver: bytes received
	kindEcho               // a round trip's number
)

const (
	maxWindow  = 1 << 20  // bytes on their way: enough that neither end waits for the other
	yieldAfter = 100      // empty polls of 0.3 us each before the CPU is offered to others
	bufferSize = 64 << 10 // one train
)

// socket is a connected UDP socket and the memory of its system calls.
type socket struct {
	ctx      context.Context
	conn     *udp.Conn // owns the descriptor; its Send and Recv stay unused
	fd       uintptr
	segments int // of one send

	in, out       unix.Msghdr
	inIov, outIov unix.Iovec
	control       struct {
		hdr  unix.Cmsghdr
		size uint16
		_    [6]byte
	}
	buffer []byte // what recv fills

	empty int       // polls in a row that found nothing
	heard time.Time // when the row began
}

func open(ctx context.Context, local, peer netip.AddrPort) (*socket, error) {
	conn, err := udp.Listen(local)
	if err != nil {
		return nil, fmt.Errorf("udptest: %w", err)
	}
	s := &socket{ctx: ctx, conn: conn, fd: uintptr(conn.FD()), buffer: make([]byte, bufferSize)}
	s.segments = min(conn.Features().MaxSegments, udp.MaxBytes/(Header+Payload))
	if err := connect(conn.FD(), peer); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("udptest: connect %v to %v: %w", local, peer, os.NewSyscallError("connect", err))
	}
	s.in.Iov, s.in.Iovlen = &s.inIov, 1
	s.inIov.Base, s.inIov.Len = &s.buffer[0], bufferSize
	s.out.Iov, s.out.Iovlen = &s.outIov, 1
	c := &s.control
	c.hdr.Level, c.hdr.Type = unix.SOL_UDP, unix.UDP_SEGMENT
	c.hdr.SetLen(unix.SizeofCmsghdr + int(unsafe.Sizeof(c.size)))
	c.size = Header + Payload
	runtime.LockOSThread()
	return s, nil
}

// connect has the kernel look the route up once.
func connect(fd int, to netip.AddrPort) error {
	if a := to.Addr().Unmap(); a.Is4() {
		return unix.Connect(fd, &unix.SockaddrInet4{Port: int(to.Port()), Addr: a.As4()})
	}
	return unix.Connect(fd, &unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()})
}

func (s *socket) close() {
	runtime.UnlockOSThread()
	_ = s.conn.Close()
}

// send sends packets of Header+Payload bytes, of which the last may be shorter;
// at most s.segments of them.
func (s *socket) send(packets []byte) error {
	s.outIov.Base, s.outIov.Len = &packets[0], uint64(len(packets))
	s.out.Control, s.out.Controllen = nil, 0
	if len(packets) > Header+Payload {
		s.out.Control = (*byte)(unsafe.Pointer(&s.control))
		s.out.Controllen = uint64(unsafe.Sizeof(s.control))
	}
	for {
		_, _, errno := unix.RawSyscall(unix.SYS_SENDMSG, s.fd, uintptr(unsafe.Pointer(&s.out)), unix.MSG_DONTWAIT)
		switch errno {
		case 0:
			return nil
		case unix.ECONNREFUSED: // left by an earlier packet: the peer is not there yet
		case unix.EAGAIN, unix.EINTR:
			if err := s.idle(); err != nil {
				return err
			}
		default:
			return fmt.Errorf("udptest: send %d bytes: %w", len(packets), errno)
		}
	}
}

// recv returns what is there, nil if nothing is; valid until the next recv.
func (s *socket) recv() ([]byte, error) {
	n, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, s.fd, uintptr(unsafe.Pointer(&s.in)), unix.MSG_DONTWAIT)
	switch errno {
	case 0:
		s.empty = 0
		if n < Header {
			return nil, nil
		}
		return s.buffer[:n], nil
	case unix.EAGAIN, unix.EINTR, unix.ECONNREFUSED:
		return nil, nil
	}
	return nil, fmt.Errorf("udptest: receive: %w", errno)
}

// wait is recv until something is there.
func (s *socket) wait() ([]byte, error) {
	for {
		if b, err := s.recv(); b != nil || err != nil {
			return b, err
		}
		if err := s.idle(); err != nil {
			return nil, err
		}
	}
}

// idle follows a poll that found nothing. It looks at the clock and the context
// once in a while, and yields the CPU after yieldAfter polls.
func (s *socket) idle() error {
	s.empty++
	if s.empty == 1 {
		s.heard = time.Time{}
	}
	if s.empty < yieldAfter {
		return nil
	}
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	if s.empty%yieldAfter != 0 {
		return nil
	}
	if err := s.ctx.Err(); err != nil {
		return fmt.Errorf("udptest: %w", err)
	}
	now := time.Now()
	if s.heard.IsZero() {
		s.heard = now
	}
	if now.Sub(s.heard) > patience {
		return fmt.Errorf("udptest: nothing heard from the other end for %v: %w", patience, ErrLost)
	}
	return nil
}

// control packets: kind and two numbers.
type note [Header + 8]byte

func (n *note) set(kind byte, a, b int) []byte {
	n[0] = kind
	binary.LittleEndian.PutUint64(n[8:], uint64(a))
	binary.LittleEndian.PutUint64(n[16:], uint64(b))
	return n[:]
}

func kind(b []byte) byte { return b[0] }
func first(b []byte) int { return int(binary.LittleEndian.Uint64(b[8:])) }
func second(b []byte) int {
	if len(b) < Header+8 {
		return 0
	}
	return int(binary.LittleEndian.Uint64(b[16:]))
}

// meet finds the other end, and returns the window that the receiver grants.
func (s *socket) meet(role Role, size, count int) (window int, err error) {
	// A train is charged at under twice its length (sk_buff and page
	// remainders), and SO_RCVBUF must hold the window whatever way it comes in.
	window = min(maxWindow, s.conn.RecvBuffer()/4)
	var n note
	if role == Receiver {
		for {
			b, err := s.wait()
			if err != nil {
				return 0, err
			}
			if kind(b) != kindHello {
				continue
			}
			if first(b) != size || second(b) != count {
				_ = s.send(n.set(kindWelcome, 0, 0))
				return 0, fmt.Errorf("udptest: the sender has %d messages of %d bytes, this end expected %d of %d", second(b), first(b), count, size)
			}
			return window, s.send(n.set(kindWelcome, window, 0))
		}
	}
	for next := time.Now(); ; {
		if now := time.Now(); !now.Before(next) {
			if err := s.send(n.set(kindHello, size, count)); err != nil {
				return 0, err
			}
			next = now.Add(time.Millisecond)
		}
		b, err := s.recv()
		if err != nil {
			return 0, err
		}
		if b == nil {
			if err := s.idle(); err != nil {
				return 0, err
			}
			continue
		}
		if kind(b) != kindWelcome {
			continue
		}
		if first(b) == 0 {
			return 0, fmt.Errorf("udptest: the receiver expected another number or size of messages than %d of %d bytes", count, size)
		}
		return min(window, first(b)), nil
	}
}

// greet answers a sender's greeting that comes late: the sender repeats it
// until it hears the answer.
func (s *socket) greet(window int) error {
	var n note
	return s.send(n.set(kindWelcome, window, 0))
}
