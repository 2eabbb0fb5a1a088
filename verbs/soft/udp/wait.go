package udp

import (
	"encoding/binary"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

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
