package memfd

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// conn is one end of a connection. Its writer goroutine sends what is queued, so
// that no caller waits for a peer that does not read, and closes the socket when
// it ends; the owner of the conn reads.
type conn struct {
	sock *net.UnixConn
	pid  int           // of the other end; 0 if it is in another PID namespace
	more chan struct{} // something is queued, or closing

	mu      sync.Mutex // guards what follows
	queue   []message
	closing bool // nothing more is queued; the writer sends what is and ends
}

// farewell is how long the writer tries to send what is queued once the
// connection is closing: what a peer that reads needs is microseconds.
const farewell = 200 * time.Millisecond

// newConn takes over a socket, if the process at the other end is of this user.
// Its writer must be started, or the socket closed.
func newConn(sock *net.UnixConn) (*conn, error) {
	c := &conn{sock: sock, more: make(chan struct{}, 1)}
	raw, err := sock.SyscallConn()
	if err != nil {
		return c, err
	}
	var cred *unix.Ucred
	if cerr := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); cerr != nil {
		err = cerr
	}
	if err != nil {
		return c, fmt.Errorf("ask who is at the other end: SO_PEERCRED: %w", err)
	}
	c.pid = int(cred.Pid)
	if uid, own := int(cred.Uid), os.Geteuid(); uid != own {
		err = fmt.Errorf("%s is of user %d, this one (%d) of user %d: processes share memory with those of one user only; run all ranks of a host as one user", c.name(), uid, os.Getpid(), own)
	}
	return c, err
}

// name is that of the process at the other end.
func (c *conn) name() string {
	if c.pid == 0 {
		return "the process (of another PID namespace)"
	}
	return fmt.Sprintf("process %d", c.pid)
}

// send queues m; on a conn that is closing it goes nowhere.
func (c *conn) send(m message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		discard(m)
		return
	}
	c.queue = append(c.queue, m)
	c.poke()
}

func (c *conn) poke() {
	select {
	case c.more <- struct{}{}:
	default:
	}
}

// close has the writer send what is queued and close the socket. It does not wait.
func (c *conn) close() {
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	_ = c.sock.SetWriteDeadline(time.Now().Add(farewell))
	c.poke()
}

// write is the writer goroutine.
func (c *conn) write() {
	defer func() {
		c.mu.Lock()
		c.closing = true
		discard(c.queue...)
		c.queue = nil
		c.mu.Unlock()
		_ = c.sock.Close()
	}()
	for range c.more {
		c.mu.Lock()
		queue, closing := c.queue, c.closing
		c.queue = nil
		c.mu.Unlock()
		for i, m := range queue {
			if err := c.transmit(m); err != nil {
				discard(queue[i+1:]...)
				return
			}
		}
		if closing {
			return
		}
	}
}

// transmit sends m. A view whose descriptor the kernel does not pass on is
// refused instead, since the dialler waits for an answer.
func (c *conn) transmit(m message) error {
	err := transmit(c.sock, m)
	if m.kind == kindView && errors.Is(err, unix.ETOOMANYREFS) {
		m = message{kind: kindRefused, writable: m.writable, id: m.id, fd: -1,
			text: fmt.Sprintf("send its descriptor: %v; raise the limit of open files (ulimit -n)", err)}
		return transmit(c.sock, m)
	}
	return err
}

func discard(messages ...message) {
	for _, m := range messages {
		if m.fd >= 0 {
			_ = unix.Close(m.fd)
		}
	}
}
