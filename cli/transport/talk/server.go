package talk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"ringcli/configs/codes"
	"ringcli/configs/usage"
	"ringcli/ring/bootstrap"
	"ringcli/ring/bootstrap/lobby"
	"ringcli/ring/bootstrap/seal"
)

// Server serves callers of a port, one at a time.
type Server struct {
	Name    string // this end's
	Token   *seal.Token
	Timeout time.Duration // of each wait
	// Handle serves a client; its error is told to that. The connection is closed then.
	Handle func(*Conn) error
	// Refused is told of callers that are no clients.
	Refused func(from net.Addr, err error)

	mu     sync.Mutex
	served string    // the client's name; "" if there is none; guarded by mu
	since  time.Time // guarded by mu
}

// Listen takes a port, 0 for a free one, of an address or, if that is zero, of all.
func Listen(ctx context.Context, bind netip.Addr, port int) (net.Listener, error) {
	own := net.TCPAddr{IP: bind.AsSlice(), Zone: bind.Zone(), Port: port}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", own.String())
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, usage.Codedf(codes.PortTaken, "listen on %s: %w: another program has it (ss -ltnp): give another --tcp-port, at both ends", &own, err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, usage.Codedf(codes.AddressForeign, "listen on %s: %w: give --bind an address of this machine", &own, err)
	case err != nil:
		return nil, fmt.Errorf("listen on %s: %w", &own, err)
	}
	return listener, nil
}

// Serve serves until the context ends, and closes the listener.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	var waiting lobby.Lobby
	var running sync.WaitGroup
	defer running.Wait()
	defer waiting.Close()
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	defer func() { _ = listener.Close() }() // it may be closed
	for {
		conn, err := listener.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return context.Cause(ctx)
		case err != nil && (errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)): // some are given back soon
			time.Sleep(redial)
		case err != nil:
			return fmt.Errorf("accept a client on %s: %w", listener.Addr(), err)
		case waiting.Enter(conn):
			running.Go(func() { s.meet(ctx, &waiting, conn) })
		}
	}
}

// meet finds out who a caller is, and serves it.
func (s *Server) meet(ctx context.Context, waiting *lobby.Lobby, raw net.Conn) {
	defer context.AfterFunc(ctx, func() { _ = raw.SetReadDeadline(time.Now()) })()
	_ = raw.SetDeadline(time.Now().Add(grace)) // fails on a closed one alone, as greet will
	conn, who, err := s.greet(raw)
	if !waiting.Leave(raw) && err == nil {
		err = net.ErrClosed
	}
	if err != nil {
		s.turnAway(ctx, conn, err)
		return
	}
	name := fmt.Sprintf("%s (%s), for %s", who.Name, raw.RemoteAddr(), who.Purpose)
	if other := s.reserve(name); other != "" {
		_ = send(conn, kindBusy, other, grace) // who is gone needs no telling
		_ = raw.Close()
		return
	}
	_ = raw.SetDeadline(time.Time{})
	if err := send(conn, kindWelcome, Hello{Name: s.Name, Purpose: who.Purpose}, s.Timeout); err != nil {
		s.release()
		_ = raw.Close()
		return
	}
	c := start(ctx, conn, who, s.Timeout)
	if err := s.Handle(c); err != nil && !errors.Is(err, ErrBye) {
		c.Fail(err)
	}
	s.release() // first: a client that has seen the end of its connection finds the server free
	c.Close()
}

// turnAway tells a caller why it is not served, if it is one of ours.
func (s *Server) turnAway(ctx context.Context, conn net.Conn, err error) {
	var refused *refusal
	if errors.As(err, &refused) {
		_ = send(conn, kindFailed, failureOf(refused.error), grace)
	}
	if ctx.Err() == nil {
		s.Refused(conn.RemoteAddr(), err)
	}
	_ = conn.Close()
}

// refusal is an error that the caller is told.
type refusal struct{ error }

func (r *refusal) Unwrap() error { return r.error }

// reserve reserves the server for a client. If it serves another, other says which one, and
// since when.
func (s *Server) reserve(name string) (other string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.served != "" {
		return fmt.Sprintf("%s, since %s (%s ago)", s.served, s.since.UTC().Format("15:04:05 UTC"), time.Since(s.since).Round(time.Second))
	}
	s.served, s.since = name, time.Now()
	return ""
}

func (s *Server) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served = ""
}

// greet reads who a caller is.
func (s *Server) greet(raw net.Conn) (conn net.Conn, who Hello, err error) {
	m, err := receive(raw, bootstrap.ReadGreeting)
	if program, strange := bootstrap.Stranger(raw, err); strange {
		return raw, who, fmt.Errorf("%s is there, not a client", program)
	}
	if err != nil {
		return raw, who, &refusal{err}
	}
	conn, m, err = admit(raw, s.Token, m)
	if err != nil {
		return raw, who, &refusal{err}
	}
	if m.Kind != kindHello {
		return conn, who, &refusal{fmt.Errorf("it sends %q, expected %q", m.Kind, kindHello)}
	}
	if err := json.Unmarshal(m.Body, &who); err != nil {
		return conn, who, &refusal{err}
	}
	return conn, who, nil
}
