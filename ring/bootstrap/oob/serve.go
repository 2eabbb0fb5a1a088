package oob

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"ringcli/configs/codes"
	"ringcli/configs/usage"
	"ringcli/ring/bootstrap/seal"
)

// Server serves the callers of a port.
type Server struct {
	*Protocol
	Hello    Hello // of this end
	Greeting any   // what it says first, of a protocol that greets
	Token    *seal.Token
	Timeout  time.Duration // of each wait; 0: nobody gives signs of life
	// Admit decides on a caller, and returns what to do when it has been served; nil takes all.
	// The caller is told the error.
	Admit func(from net.Addr, who Hello) (leave func(), err error)
	// Handle serves a client; its error is told to that. The connection is closed then.
	Handle func(*Conn) error
	// Refused is told of callers that are no clients.
	Refused func(from net.Addr, err error)
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

// Serve serves until the context ends, closes the listener, and returns the cause.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	var waiting Lobby
	defer context.AfterFunc(ctx, func() {
		_ = listener.Close()
		waiting.Close()
	})()
	waiting.Serve(listener, Patience, func(error) {}, func(raw net.Conn) {
		defer context.AfterFunc(ctx, func() { _ = raw.SetReadDeadline(time.Now()) })()
		c, leave, err := s.accept(ctx, &waiting, raw)
		if err != nil && ctx.Err() == nil {
			s.Refused(raw.RemoteAddr(), err)
		}
		if c == nil {
			_ = raw.Close()
			return
		}
		if err := s.Handle(c); err != nil && !errors.Is(err, ErrBye) {
			c.Fail(err)
		}
		leave() // first: a client that has seen the end of its connection finds the server free
		c.Close()
	})
	return context.Cause(ctx)
}

// Accept returns the connection of the first client that calls before ctx ends, and closes the
// listener. The connection lives under life.
func (s *Server) Accept(ctx, life context.Context, listener net.Listener) (*Conn, error) {
	return Await(ctx, listener, Patience, func(raw net.Conn) (*Conn, error) {
		c, _, err := s.accept(life, nil, raw)
		return c, err
	}, func(raw net.Conn, err error) { s.Refused(raw.RemoteAddr(), err) })
}

// accept finds out who a caller is, and welcomes it. The connection is nil of a caller that is
// not served.
func (s *Server) accept(ctx context.Context, waiting *Lobby, raw net.Conn) (c *Conn, leave func(), err error) {
	conn, who, err := s.greet(raw)
	if err != nil {
		return nil, nil, err
	}
	if waiting != nil && !waiting.Leave(raw) {
		return nil, nil, net.ErrClosed
	}
	leave = func() {}
	if s.Admit != nil {
		if leave, err = s.Admit(raw.RemoteAddr(), who); err != nil {
			_ = s.refuse(conn, err)
			return nil, nil, nil
		}
	}
	welcome := s.Hello
	welcome.Purpose, welcome.At = who.Purpose, AddrPort(raw.LocalAddr()).Addr()
	if err := s.send(conn, kindWelcome, welcome, Patience); err != nil {
		leave()
		return nil, nil, err
	}
	return s.start(ctx, conn, who, s.Timeout), leave, nil
}

// refuse tells a caller why it is not served, and returns that.
func (s *Server) refuse(conn net.Conn, err error) error {
	_ = s.send(conn, kindFailed, failureOf(err), Patience) // who is gone needs no telling
	return err
}

// greet reads who a caller is.
func (s *Server) greet(raw net.Conn) (conn net.Conn, who Hello, err error) {
	if s.Greets {
		if err := s.send(raw, kindGreeting, s.Greeting, Patience); err != nil {
			return nil, who, err
		}
	}
	f, err := ReadGreeting(raw)
	if program, strange := Stranger(raw, err); strange {
		return nil, who, fmt.Errorf("%s is there, not %s", program, s.Client)
	}
	if err != nil {
		return nil, who, s.refuse(raw, err)
	}
	if f.Type != TypeKnock || f.Version != Version { // else it is not of this protocol yet
		if _, err := s.parse(f); err != nil {
			return nil, who, s.refuse(raw, err)
		}
	}
	conn, f, err = Admit(raw, s.Token, f)
	if wrong, ok := errors.AsType[TokenTrouble](err); ok {
		err = wrong.Told(s.Server, s.Client, s.SameToken)
	}
	if err != nil {
		return nil, who, s.refuse(raw, err)
	}
	m, err := s.parse(f)
	if err == nil && m.Kind != kindHello {
		err = fmt.Errorf("it sends %q, expected %q", m.Kind, kindHello)
	}
	if err == nil {
		err = json.Unmarshal(m.Body, &who)
	}
	if err != nil {
		return nil, who, s.refuse(conn, err)
	}
	return conn, who, nil
}
