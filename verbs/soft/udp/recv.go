package udp

import (
	"fmt"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Buffers of one Recv. With GRO a buffer takes a whole train of segments;
// without it one datagram, which in RoCEv2 is 4096 bytes and some headers.
const (
	trainBuffers, trainBytes       = 4, 64 << 10
	datagramBuffers, datagramBytes = 64, 8 << 10
)

// Received is what came from one peer: one datagram, or several that the kernel
// put together.
type Received struct {
	Data        []byte // valid until the next Recv
	SegmentSize int    // bytes of each datagram in Data, of which the last may be shorter; len(Data) if there is one
	Src         netip.AddrPort
}

// receiver is the memory of Recv: what the kernel writes, one entry a buffer.
type receiver struct {
	hdrs     []mmsghdr
	iovs     []Iovec
	names    []unix.RawSockaddrInet6
	controls []control
	buffer   []byte // len(hdrs) buffers of size bytes
	size     int
	gro      bool
	busy     bool // the last Recv found something
	received []Received
	// Errors that the network reported, such as ECONNREFUSED, and datagrams longer than
	// a buffer, dropped.
	refused, truncated int
}

func (r *receiver) init(f Features) {
	n := datagramBuffers
	r.size = datagramBytes
	if f.GRO {
		n, r.size, r.gro = trainBuffers, trainBytes, true
	}
	r.hdrs = make([]mmsghdr, n)
	r.iovs = make([]Iovec, n)
	r.names = make([]unix.RawSockaddrInet6, n)
	r.controls = make([]control, n)
	r.buffer = make([]byte, n*r.size)
	r.received = make([]Received, 0, n)
	for i := range n {
		r.iovs[i] = IovecOf(r.buffer[i*r.size : (i+1)*r.size])
		h := &r.hdrs[i].hdr
		h.Iov, h.Iovlen = (*unix.Iovec)(unsafe.Pointer(&r.iovs[i])), 1
		h.Name = (*byte)(unsafe.Pointer(&r.names[i]))
		if f.GRO {
			h.Control = (*byte)(unsafe.Pointer(&r.controls[i]))
		}
		r.reset(i)
	}
}

// reset restores the lengths of entry i, which the kernel overwrites with what
// it used.
func (r *receiver) reset(i int) {
	h := &r.hdrs[i].hdr
	h.Namelen = uint32(unsafe.Sizeof(r.names[i]))
	if r.gro {
		h.Controllen = uint64(unsafe.Sizeof(r.controls[i]))
	}
}

// fill receives what is there, and tells into how many entries.
func (r *receiver) fill(fd int, mmsg bool) (n int, errno unix.Errno) {
	if mmsg {
		return callMany(unix.SYS_RECVMMSG, fd, r.hdrs)
	}
	for n < len(r.hdrs) {
		one, err := r.hdrs[n].call(unix.SYS_RECVMSG, fd)
		if one == 0 {
			if n > 0 && err == unix.EAGAIN {
				return n, 0
			}
			return n, err
		}
		n++
	}
	return n, 0
}

// Recv returns what has arrived, oldest first, without blocking; nothing and no
// error if nothing has. The result and its Data are valid until the next Recv.
// Errors that the network reports back (an ICMP message about an earlier
// datagram) are counted and not returned: the protocol above repeats what is
// lost.
func (c *Conn) Recv() ([]Received, error) {
	if !c.use() {
		return nil, ErrClosed
	}
	defer c.done()
	r := &c.recv
	// What ends a pause is wanted at once: recvmmsg would first look for more,
	// 0.2 us. It pays where datagrams wait in line. An empty poll costs the same
	// either way, 0.34 us, of which entering the kernel is 0.15.
	var n int
	var errno unix.Errno
	if r.busy {
		n, errno = r.fill(c.fd, c.features.MMsg)
	} else {
		n, errno = r.hdrs[0].call(unix.SYS_RECVMSG, c.fd)
	}
	r.busy = n > 0
	if n == 0 {
		switch errno {
		case unix.EAGAIN, unix.EINTR:
			return nil, nil
		case unix.EBADF, unix.ENOTSOCK, unix.EFAULT, unix.EINVAL, unix.ENOSYS, unix.EPERM:
			return nil, fmt.Errorf("udp: receive on %v: %w", c.local, errno)
		}
	}
	if errno != 0 {
		r.refused++
	}
	r.received = r.received[:0]
	for i := range n {
		if r.hdrs[i].hdr.Flags&unix.MSG_TRUNC != 0 {
			r.truncated++
		} else {
			r.received = append(r.received, r.entry(i))
		}
		r.reset(i)
	}
	return r.received, nil
}

// entry is what entry i received.
func (r *receiver) entry(i int) Received {
	n := int(r.hdrs[i].n)
	at := i * r.size
	segment := n
	c := &r.controls[i]
	if r.gro && r.hdrs[i].hdr.Controllen >= lengthGRO && c.hdr.Level == unix.SOL_UDP && c.hdr.Type == unix.UDP_GRO && c.value > 0 {
		segment = min(n, int(c.value))
	}
	return Received{Data: r.buffer[at : at+n : at+n], SegmentSize: segment, Src: addrPort(&r.names[i])}
}
