// Package lobby lets callers of a port in, a few at a time, until they have said who they
// are.
package lobby

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

// Enter takes a connection, unless the lobby is closed.
func (l *Lobby) Enter(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = conn.Close()
		return false
	}
	if l.conns == nil {
		l.conns = make(map[net.Conn]netip.Addr)
	}
	from, _ := netip.ParseAddrPort(conn.RemoteAddr().String())
	l.conns[conn] = from.Addr().Unmap()
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
	if s, ok := conn.(*seal.Conn); ok {
		conn = s.Conn
	}
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

// Await accepts callers until greet takes one, and gives each so much patience to say who
// it is. None holds up another, and few wait at a time. refused is told of those that
// greet does not take, one at a time. It closes the listener.
func Await[T any](ctx context.Context, listener net.Listener, patience time.Duration, greet func(net.Conn) (T, error), refused func(net.Conn, error)) (got T, err error) {
	var (
		callers Lobby
		running sync.WaitGroup
		mu      sync.Mutex // guards got and taken, and refused's turn
		taken   bool
	)
	defer running.Wait()
	defer callers.Close()
	defer func() { _ = listener.Close() }() // it is closed then
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	for {
		conn, err := listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			mu.Lock()
			defer mu.Unlock()
			if taken {
				return got, nil
			}
			return got, err
		case err != nil: // out of descriptors: some are given back soon
			select {
			case <-ctx.Done():
			case <-time.After(again):
			}
			continue
		case !callers.Enter(conn):
			continue
		}
		running.Go(func() {
			_ = conn.SetDeadline(time.Now().Add(patience)) // fails on a closed connection only, as greet will
			stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
			defer stop()
			who, err := greet(conn)
			if !callers.Leave(conn) && err == nil {
				err = net.ErrClosed
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				_ = conn.Close()
				if ctx.Err() == nil && !taken {
					refused(conn, err)
				}
			case taken:
				_ = conn.Close()
			default:
				_ = conn.SetDeadline(time.Time{})
				got, taken = who, true
				_ = listener.Close()
			}
		})
	}
}
