package oob

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"ringcli/ring/bootstrap/seal"
)

// Lobby holds the connections that have not said who they are: a few at a time. When one
// more comes, one goes of the address that has most, whichever chance picks: a flood from
// one address crowds out itself, and of the same address who has come to stay needs a
// moment only. The zero value is ready.
type Lobby struct {
	mu     sync.Mutex
	conns  map[net.Conn]netip.Addr // guarded by mu, as below
	closed bool
}

// maxPending bounds the connections that have not said who they are.
const maxPending = 128

// again is the pause before the next caller where there were no descriptors for one.
const again = 20 * time.Millisecond

// Serve accepts callers until the listener is closed, and returns when greet has returned for each
// of them. A caller is in the lobby until greet calls Leave or returns, and its connection has a
// deadline, patience from now. problem is told why no caller could be accepted; Serve goes on.
func (l *Lobby) Serve(listener net.Listener, patience time.Duration, problem func(error), greet func(net.Conn)) {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		conn, err := listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // out of descriptors, or the caller was gone already
			problem(err)
			time.Sleep(again)
		case l.enter(conn):
			running.Go(func() {
				defer l.Leave(conn)
				_ = conn.SetDeadline(time.Now().Add(patience)) // fails on a closed connection only, as greet will
				greet(conn)
			})
		}
	}
}

// enter takes a connection, unless the lobby is closed.
func (l *Lobby) enter(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = conn.Close()
		return false
	}
	if l.conns == nil {
		l.conns = make(map[net.Conn]netip.Addr)
	}
	l.conns[conn] = AddrPort(conn.RemoteAddr()).Addr()
	if len(l.conns) > maxPending {
		l.evict(conn)
	}
	return true
}

// evict needs the lock. It spares the newcomer, whose turn comes.
func (l *Lobby) evict(newcomer net.Conn) {
	count := make(map[netip.Addr]int)
	most := 0
	for conn, addr := range l.conns {
		if conn != newcomer {
			count[addr]++
			most = max(most, count[addr])
		}
	}
	var crowd []net.Conn
	for conn, addr := range l.conns {
		if conn != newcomer && count[addr] == most {
			crowd = append(crowd, conn)
		}
	}
	out := crowd[rand.IntN(len(crowd))]
	delete(l.conns, out)
	_ = out.Close() // its goroutine sees that
}

// Leave is for a connection that is known, or gone. It reports whether it was there still.
func (l *Lobby) Leave(conn net.Conn) bool {
	conn = seal.Raw(conn)
	l.mu.Lock()
	defer l.mu.Unlock()
	_, there := l.conns[conn]
	delete(l.conns, conn)
	return there
}

// Close ends all that are there, and takes none.
func (l *Lobby) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for conn := range l.conns {
		_ = conn.Close()
	}
}

// Await accepts callers until greet takes one or ctx ends, and gives each so much patience to say
// who it is. Callers do not wait for each other. refused is called for each one that greet rejects,
// one at a time. Await closes the listener.
func Await[T any](ctx context.Context, listener net.Listener, patience time.Duration, greet func(net.Conn) (T, error), refused func(net.Conn, error)) (got T, err error) {
	var callers Lobby
	var mu sync.Mutex // guards got and taken, and refused's turn
	taken := false
	end := func() {
		_ = listener.Close()
		callers.Close()
	}
	defer context.AfterFunc(ctx, end)()
	callers.Serve(listener, patience, func(error) {}, func(conn net.Conn) {
		who, err := greet(conn)
		if !callers.Leave(conn) && err == nil {
			err = net.ErrClosed
		}
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil && ctx.Err() == nil && !taken:
			refused(conn, err)
			fallthrough
		case err != nil, taken:
			_ = conn.Close()
		default:
			_ = conn.SetDeadline(time.Time{})
			got, taken = who, true
			end()
		}
	})
	if !taken {
		return got, net.ErrClosed
	}
	return got, nil
}
