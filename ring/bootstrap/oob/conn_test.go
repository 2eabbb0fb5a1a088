package oob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ringcli/configs/codes"
	"ringcli/configs/usage"
	"ringcli/ring/bootstrap/seal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const hung = time.Minute

var protocol = &Protocol{
	Type: "test", Version: 1, Server: "the server", Client: "the client", Program: "`ringcli test serve`", Absent: "no server has answered", SameToken: "give both ends the same",
}

func token(t *testing.T, secret string) *seal.Token {
	t.Helper()
	if secret == "" {
		return nil
	}
	made, err := seal.New([]byte(secret + strings.Repeat("x", 16)))
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// serve has a server run until the test ends, and returns its address.
func serve(t *testing.T, s *Server) string {
	t.Helper()
	listener, err := Listen(t.Context(), netip.MustParseAddr("127.0.0.1"), 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	s.Protocol, s.Hello.Name = protocol, "server:1"
	if s.Timeout == 0 {
		s.Timeout = hung
	}
	if s.Refused == nil {
		s.Refused = func(net.Addr, error) {}
	}
	go func() { over <- s.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-over; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

func caller(t *testing.T, secret string) *Caller {
	return &Caller{Protocol: protocol, Token: token(t, secret), Timeout: hung, Hello: Hello{Name: "client:2", Purpose: "test"}}
}

func (c *Caller) dial(t *testing.T, address string) (*Conn, error) {
	return c.Call(t.Context(), netip.Addr{}, address, func() func() { return func() {} })
}

// Both ends know each other, talk both ways, and end in order, with a token and without.
func TestTalk(t *testing.T) {
	for _, secret := range []string{"", "s"} {
		done := make(chan error, 1)
		address := serve(t, &Server{Token: token(t, secret), Handle: func(c *Conn) error {
			if c.Peer != (Hello{Name: "client:2", Purpose: "test"}) || !strings.HasPrefix(c.Name(), "client:2 (127.0.0.1:") {
				t.Errorf("the client is %+v, %s", c.Peer, c.Name())
			}
			for {
				kind, read, err := c.Next(c.Context())
				if err != nil {
					done <- err
					return err
				}
				var n int
				if err := read(&n); err != nil {
					return err
				}
				if err := c.Send(kind, n+1); err != nil {
					return err
				}
			}
		}})
		c, err := caller(t, secret).dial(t, address)
		if err != nil {
			t.Fatal(err)
		}
		var n int
		for i := range 100 {
			if err := c.Send("count", i); err != nil {
				t.Fatal(err)
			}
			if err := c.Receive(t.Context(), "count", &n); err != nil || n != i+1 {
				t.Fatalf("%d, %v", n, err)
			}
		}
		if c.Peer.Name != "server:1" {
			t.Errorf("the server is %+v", c.Peer)
		}
		c.Close()
		if err := <-done; !errors.Is(err, ErrBye) {
			t.Errorf("the server has seen %v", err)
		}
	}
}

// Tokens that differ are told apart, and end in an error of usage.
func TestTokens(t *testing.T) {
	for _, c := range []struct{ server, client, want string }{
		{"a", "", "server has a token and the client none"},
		{"", "a", "server has no token and the client one"},
		{"a", "b", "another token"},
	} {
		refused := make(chan error, 1)
		address := serve(t, &Server{Token: token(t, c.server), Handle: func(*Conn) error { t.Error("it was served"); return nil },
			Refused: func(_ net.Addr, err error) { refused <- err }})
		_, err := caller(t, c.client).dial(t, address)
		if code, _ := codes.Of(err); err == nil || !strings.Contains(err.Error(), c.want) || !usage.Is(err) || code != codes.Token {
			t.Errorf("%q and %q: %v (%s)", c.server, c.client, err, code)
		}
		if err := <-refused; !strings.Contains(err.Error(), "token") {
			t.Errorf("the server: %v", err)
		}
	}
}

// A second client is told at once that another is served; connections that say nothing make
// nobody wait; and who has seen the end of its own connection is not refused for it.
func TestBusy(t *testing.T) {
	var served atomic.Bool
	admit := func(net.Addr, Hello) (func(), error) {
		if !served.CompareAndSwap(false, true) {
			return nil, codes.With(codes.Busy, errors.New("busy: it serves another"))
		}
		return func() { served.Store(false) }, nil
	}
	address := serve(t, &Server{Admit: admit, Handle: func(c *Conn) error {
		if err := c.Send("hello", nil); err != nil {
			return err
		}
		<-c.Context().Done()
		return context.Cause(c.Context())
	}})
	for range 3 {
		silent, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = silent.Close() }()
	}
	call := func() *Conn {
		t.Helper()
		c, err := caller(t, "").dial(t, address)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Receive(t.Context(), "hello", nil); err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := call()
	_, err := caller(t, "").Call(t.Context(), netip.Addr{}, address, func() func() {
		t.Error("it waits for the server")
		return func() {}
	})
	if code, _ := codes.Of(err); code != codes.Busy || err.Error() != address+" is busy: it serves another" {
		t.Errorf("%v (%s): expected who is served", err, code)
	}
	first.Close()
	for range 20 {
		call().Close()
	}
}

// A peer that sends without waiting for answers cannot hide that it has gone.
func TestFlood(t *testing.T) {
	over := make(chan error, 1)
	address := serve(t, &Server{Handle: func(c *Conn) error {
		<-c.Context().Done() // it reads none of them
		over <- context.Cause(c.Context())
		return nil
	}})
	c, err := caller(t, "").dial(t, address)
	if err != nil {
		t.Fatal(err)
	}
	for range inboxRoom + 1 {
		if err := c.Send("count", 1); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-over:
		if !strings.Contains(err.Error(), "17 messages") {
			t.Error(err)
		}
	case <-time.After(hung / 2):
		t.Error("the connection has not ended")
	}
	c.Close()
}

// Whoever gives up says why, and the other end has it at once, as the cause.
func TestFailures(t *testing.T) {
	why := usage.Codedf(codes.Permission, "no directory")
	address := serve(t, &Server{Handle: func(c *Conn) error { return why }})
	c, err := caller(t, "").dial(t, address)
	if err != nil {
		t.Fatal(err)
	}
	err = c.Receive(t.Context(), "anything", nil)
	if code, _ := codes.Of(err); !strings.Contains(err.Error(), "server:1") || !strings.Contains(err.Error(), "no directory") || code != codes.Permission || !usage.Is(err) {
		t.Errorf("%v (%s)", err, code)
	}
	c.Close()
}

// A peer that stands still is told from one that is slow to answer.
func TestSilence(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	met := make(chan net.Conn, 1)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			_, _ = protocol.receive(conn, maxGreeting)
			err = protocol.send(conn, kindWelcome, Hello{Name: "stone:3"}, hung)
		}
		if err != nil {
			t.Error(err)
		}
		met <- conn
	}()
	c, err := caller(t, "").dial(t, listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	stone := <-met
	// It has the connection, and says nothing from now on.
	c.Close()
	_ = stone.Close()

	address := serve(t, &Server{Timeout: 200 * time.Millisecond, Handle: func(c *Conn) error {
		<-c.Context().Done()
		return context.Cause(c.Context())
	}})
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := protocol.send(conn, kindHello, Hello{Name: "stone:4", Purpose: "test"}, hung); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(hung))
	var last message
	for {
		m, err := protocol.receive(conn, maxGreeting)
		if err != nil {
			break
		}
		if m.Kind == kindFailed {
			last = m
		}
	}
	if err := failedAt("it", last); !strings.Contains(err.Error(), "nothing was heard of it for 200ms") {
		t.Errorf("%v", err)
	}
}

// Other programs on either end are named.
func TestStrangers(t *testing.T) {
	refused := make(chan error, 8)
	address := serve(t, &Server{Handle: func(*Conn) error { t.Error("it was served"); return nil }, Refused: func(_ net.Addr, err error) { refused <- err }})
	lab, err := Encode("lab", 0, 1, 0, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{"GET / HTTP/1.0\r\n\r\n": "HTTP", string(lab): "lab frame"} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, text); err != nil {
			t.Error(err)
		}
		if err := <-refused; !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
		_ = conn.Close()
	}

	for text, want := range map[string]string{"SSH-2.0-x\r\n": "SSH", "": "closed the connection"} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, text)
			_ = conn.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		}()
		if _, err := caller(t, "").dial(t, listener.Addr().String()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
		_ = listener.Close()
	}
}

// Nobody there, no such host, a port that is taken, and an interruption.
func TestDialFails(t *testing.T) {
	listener, err := Listen(t.Context(), netip.MustParseAddr("127.0.0.1"), 0)
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if _, err := Listen(t.Context(), netip.MustParseAddr("127.0.0.1"), int(netip.MustParseAddrPort(address).Port())); !usage.Is(err) || !strings.Contains(fmt.Sprint(err), "--tcp-port") {
		t.Errorf("a port that is taken: %v", err)
	}
	_ = listener.Close()
	d := caller(t, "")
	d.Timeout = 200 * time.Millisecond
	if _, err := d.dial(t, address); err == nil || !strings.Contains(err.Error(), "start `ringcli test serve` there") {
		t.Errorf("nobody: %v", err)
	}
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	if _, err := caller(t, "").Call(ctx, netip.Addr{}, address, func() func() { cancel(why); return func() {} }); !errors.Is(err, why) {
		t.Errorf("interrupted: %v", err)
	}
}
