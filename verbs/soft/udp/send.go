package udp

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// batch is how many sends go to the kernel in one sendmmsg.
const batch = 64

// position is a place in a list of messages: the message, and how many bytes
// of it lie before.
type position struct{ message, bytes int }

// sender is the scratch memory of Send: what the kernel reads, one entry a
// send.
type sender struct {
	hdrs     [batch]mmsghdr
	controls [batch]control
	after    [batch]position // where the list stands once entry i is sent
	pieces   []Iovec         // the payload of entries that are parts of a message
}

func (s *sender) init() {
	for i := range s.controls {
		c := &s.controls[i].hdr
		c.Level, c.Type = unix.SOL_UDP, unix.UDP_SEGMENT
		c.SetLen(lengthSegment)
	}
}

// fill makes entries for msgs from p on, as many as there is room for, of at
// most segments segments each, and returns their number.
func (s *sender) fill(msgs []Message, p position, segments int) int {
	s.pieces = s.pieces[:0]
	n := 0
	for n < batch && p.message < len(msgs) {
		m := &msgs[p.message]
		size, left, whole := m.SegmentSize, 0, true // whole: the rest fits one send
		if size > 0 {
			left = m.size() - p.bytes
			whole = left <= min(segments*size, MaxBytes) // the last segment may be short
		}
		if !whole {
			most := max(1, min(segments, MaxBytes/size)) * size
			p.bytes += most
			s.put(n, m, s.part(m.Iov, p.bytes-most, most), segmentOption(size, most))
		} else {
			iov := m.Iov
			if p.bytes > 0 {
				iov = s.part(iov, p.bytes, left)
			}
			p = position{message: p.message + 1}
			s.put(n, m, iov, segmentOption(size, left))
		}
		s.after[n] = p
		n++
	}
	return n
}

// segmentOption is the value of UDP_SEGMENT for a send of n bytes: 0, none, for
// a single datagram.
func segmentOption(size, n int) int {
	if n <= size {
		return 0
	}
	return size
}

// part is the n bytes of iov that follow the first skip.
func (s *sender) part(iov []Iovec, skip, n int) []Iovec {
	first := len(s.pieces)
	for _, v := range iov {
		if uint64(skip) >= v.Len {
			skip -= int(v.Len)
			continue
		}
		take := min(int(v.Len)-skip, n)
		s.pieces = append(s.pieces, Iovec{Addr: v.Addr + uint64(skip), Len: uint64(take)})
		skip = 0
		if n -= take; n == 0 {
			break
		}
	}
	return s.pieces[first:]
}

// put makes entry i send iov to m's destination, in segments where segment > 0.
func (s *sender) put(i int, m *Message, iov []Iovec, segment int) {
	h := &s.hdrs[i].hdr
	h.Name = (*byte)(unsafe.Pointer(&m.Dst.raw))
	h.Namelen = m.Dst.length
	h.Iov = (*unix.Iovec)(unsafe.Pointer(unsafe.SliceData(iov)))
	h.Iovlen = uint64(len(iov))
	if segment == 0 {
		h.Control, h.Controllen = nil, 0
		return
	}
	c := &s.controls[i]
	*(*uint16)(unsafe.Pointer(&c.value)) = uint16(segment)
	h.Control, h.Controllen = (*byte)(unsafe.Pointer(c)), uint64(unsafe.Sizeof(*c))
}

// flush sends the first n entries in order and tells how many the kernel took
// before the error.
func (s *sender) flush(fd, n int, mmsg bool) (done int, errno unix.Errno) {
	for done < n {
		var sent int
		if mmsg && n-done > 1 {
			sent, errno = callMany(unix.SYS_SENDMMSG, fd, s.hdrs[done:n])
		} else {
			sent, errno = s.hdrs[done].call(unix.SYS_SENDMSG, fd)
		}
		if errno != 0 && errno != unix.EINTR {
			return done, errno
		}
		done += sent
	}
	return done, 0
}

// Send sends msgs in order, without blocking, and returns how many went out
// entirely. If those are not all, err says why msgs[sent] did not: unix.EAGAIN
// when the send buffer is full, unix.EMSGSIZE for a datagram beyond the MTU,
// ErrClosed, or what else sendmsg(2) names. Where a message takes several
// system calls (GSO is off, or it is larger than one send) some of its
// datagrams may be out already, and sending it again repeats them.
//
// A message with a SegmentSize that the kernel refuses with EIO, EINVAL or
// EOPNOTSUPP is tried again one datagram a send; if that works, GSO is off for
// this Conn from then on. The IPv4 identification of those datagrams is 0, not
// their index, so an invariant CRC computed for GSO does not fit them.
func (c *Conn) Send(msgs []Message) (sent int, err error) {
	if !c.use() {
		return 0, ErrClosed
	}
	defer c.done()
	var (
		s        = &c.send
		p        position
		segments = c.Features().MaxSegments
		trial    = false // GSO has just failed, and single datagrams are tried
	)
	for p.message < len(msgs) {
		done, errno := s.flush(c.fd, s.fill(msgs, p, segments), c.features.MMsg)
		if done > 0 {
			p = s.after[done-1]
			if trial {
				trial = false
				c.noGSO.Store(true)
			}
		}
		switch {
		case errno == 0:
		case errno == unix.EAGAIN:
			return p.message, errno
		case segments > 1 && msgs[p.message].SegmentSize > 0 && gsoRefused(errno):
			segments, trial = 1, true
		default:
			m := &msgs[p.message]
			return p.message, fmt.Errorf("udp: send %d bytes in segments of %d from %v to %v: %w",
				m.size(), m.SegmentSize, c.local, m.Dst.AddrPort(), errno)
		}
	}
	return p.message, nil
}

// gsoRefused tells whether err can mean that the path does not do UDP_SEGMENT:
// EIO is the kernel's answer for a device without checksum offload.
func gsoRefused(err error) bool {
	return errors.Is(err, unix.EIO) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP)
}
