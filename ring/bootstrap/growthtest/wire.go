// Package growthtest has the real control ring of package bootstrap come up and gather over
// connections in memory, under the clock of testing/synctest: the messages, bytes and memory are
// the product's own, and time is that of the frames' ways, one after the other. What a CPU takes for
// them is not in it.
package growthtest

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// latency is a frame's way to a neighbour: TCP between two hosts of a rack.
const latency = 25 * time.Microsecond

// network is listeners and connections in memory.
type network struct {
	mu        sync.Mutex
	listeners map[string]*listener
	frames    atomic.Uint64
	bytes     atomic.Uint64
}

func (n *network) listen(_ context.Context, _, address string) (net.Listener, error) {
	l := &listener{at: resolve(address), calls: make(chan net.Conn, 16), over: make(chan struct{})}
	n.mu.Lock()
	n.listeners[address] = l
	n.mu.Unlock()
	return l, nil
}

// dial connects from the address that a rank has.
func (n *network) dial(from string) func(context.Context, string, string) (net.Conn, error) {
	return func(_ context.Context, _, address string) (net.Conn, error) {
		n.mu.Lock()
		l := n.listeners[address]
		n.mu.Unlock()
		if l == nil {
			return nil, fmt.Errorf("dial %s: connection refused", address)
		}
		there, back := newPipe(), newPipe()
		mine := &conn{net: n, local: resolve(from), remote: l.at, in: back, out: there}
		theirs := &conn{net: n, local: l.at, remote: mine.local, in: there, out: back}
		select {
		case l.calls <- theirs:
			return mine, nil
		case <-l.over:
			return nil, fmt.Errorf("dial %s: connection refused", address)
		}
	}
}

func resolve(address string) net.Addr {
	a, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		panic(err)
	}
	return a
}

type listener struct {
	at    net.Addr
	calls chan net.Conn
	over  chan struct{}
	once  sync.Once
}

func (l *listener) Addr() net.Addr { return l.at }
func (l *listener) Close() error   { l.once.Do(func() { close(l.over) }); return nil }
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.calls:
		return c, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}

// pipe is one direction of a connection.
type pipe struct {
	mu       sync.Mutex
	changed  chan struct{} // closed and replaced
	queue    []piece
	over     bool
	deadline time.Time
}

type piece struct {
	at   time.Time
	data []byte
}

func newPipe() *pipe { return &pipe{changed: make(chan struct{})} }

func (p *pipe) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *pipe) read(b []byte) (int, error) {
	for {
		p.mu.Lock()
		now, until := time.Now(), p.deadline
		switch {
		case !until.IsZero() && !now.Before(until):
			p.mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		case len(p.queue) > 0 && !now.Before(p.queue[0].at):
			first := &p.queue[0]
			n := copy(b, first.data)
			if first.data = first.data[n:]; len(first.data) == 0 {
				p.queue = p.queue[1:]
			}
			p.mu.Unlock()
			return n, nil
		case len(p.queue) > 0 && (until.IsZero() || p.queue[0].at.Before(until)):
			until = p.queue[0].at
		case len(p.queue) == 0 && p.over:
			p.mu.Unlock()
			return 0, io.EOF
		}
		changed := p.changed
		p.mu.Unlock()
		if until.IsZero() {
			<-changed
			continue
		}
		t := time.NewTimer(until.Sub(now))
		select {
		case <-changed:
		case <-t.C:
		}
		t.Stop()
	}
}

type conn struct {
	net           *network
	local, remote net.Addr
	in, out       *pipe
}

func (c *conn) Read(b []byte) (int, error) { return c.in.read(b) }

func (c *conn) Write(b []byte) (int, error) {
	c.net.frames.Add(1) // of which each is written by itself
	c.net.bytes.Add(uint64(len(b)))
	err := error(nil)
	c.out.change(func() {
		if c.out.over {
			err = net.ErrClosed
			return
		}
		c.out.queue = append(c.out.queue, piece{time.Now().Add(latency), append([]byte(nil), b...)})
	})
	return len(b), err
}

func (c *conn) Close() error {
	c.in.change(func() { c.in.over = true })
	c.out.change(func() { c.out.over = true })
	return nil
}

func (c *conn) LocalAddr() net.Addr                { return c.local }
func (c *conn) RemoteAddr() net.Addr               { return c.remote }
func (c *conn) SetDeadline(t time.Time) error      { return c.SetReadDeadline(t) }
func (c *conn) SetWriteDeadline(t time.Time) error { return nil }
func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.change(func() { c.in.deadline = t })
	return nil
}
