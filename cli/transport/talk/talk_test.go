package talk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ringcli/configs/codes"
	"ringcli/configs/usage"
	"ringcli/ring/bootstrap"
	"ringcli/ring/bootstrap/seal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const hung = time.Minute

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
	s.Name = "server:1"
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

func dialler(t *testing.T, address, secret string) *Dialler {
	return &Dialler{
		Address: address, Token: token(t, secret), Timeout: hung, Hello: Hello{Name: "client:2", Purpose: "test"},
		Waiting: func(string, time.Time) func() { return func() {} },
	}
}

// Both ends know each other, talk both ways, and end in order, with a token and without.
func TestTalk(t *testing.T) {
	for _, secret := range []string{"", "s"} {
		done := make(chan error, 1)
		address := serve(t, &Server{Token: token(t, secret), Handle: func(c *Conn) error {
			if c.Peer != (Hello{"client:2", "test"}) || !strings.HasPrefix(c.Name(), "client:2 (127.0.0.1:") {
				t.Errorf("the client is %+v, %s", c.Peer, c.Name())
			}
			for {
				kind, read, err := c.Next()
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
		c, err := dialler(t, address, secret).Dial(t.Context())
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
		_, err := dialler(t, address, c.client).Dial(t.Context())
		if code, _ := codes.Of(err); err == nil || !strings.Contains(err.Error(), c.want) || !usage.Is(err) || code != codes.Token {
			t.Errorf("%q and %q: %v (%s)", c.server, c.client, err, code)
		}
		if err := <-refused; !strings.Contains(err.Error(), "token") {
			t.Errorf("the server: %v", err)
		}
	}
}

// A second client is told at once which one is served, and since when; connections that say
// nothing make nobody wait; and who has seen the end of its own connection is not refused for it.
func TestBusy(t *testing.T) {
	address := serve(t, &Server{Handle: func(c *Conn) error {
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
		c, err := dialler(t, address, "").Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Receive(t.Context(), "hello", nil); err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := call()
	second := dialler(t, address, "")
	second.Waiting = func(what string, _ time.Time) func() {
		t.Errorf("it waits for %s", what)
		return func() {}
	}
	_, err := second.Dial(t.Context())
	if code, _ := codes.Of(err); code != codes.Busy || !regexp.MustCompile(`busy: it serves client:2 \(127.0.0.1:\d+\), for test, since \d\d:\d\d:\d\d UTC \(\d+s ago\): `).MatchString(err.Error()) {
		t.Errorf("%v (%s): expected who is served, and since when", err, code)
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
	c, err := dialler(t, address, "").Dial(t.Context())
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
	c, err := dialler(t, address, "").Dial(t.Context())
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
			_, _ = receive(conn, bootstrap.ReadGreeting)
			err = send(conn, kindWelcome, Hello{Name: "stone:3"}, hung)
		}
		if err != nil {
			t.Error(err)
		}
		met <- conn
	}()
	d := dialler(t, listener.Addr().String(), "")
	c, err := d.Dial(t.Context())
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
	if err := send(conn, kindHello, Hello{Name: "stone:4", Purpose: "test"}, hung); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(hung))
	var last message
	for {
		m, err := receive(conn, bootstrap.ReadGreeting)
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
	lab, err := bootstrap.Encode("lab", 0, 1, 0, 1, nil)
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
		if _, err := dialler(t, listener.Addr().String(), "").Dial(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
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
	d := dialler(t, address, "")
	d.Timeout = 200 * time.Millisecond
	if _, err := d.Dial(t.Context()); err == nil || !strings.Contains(err.Error(), "ringcli transport serve") {
		t.Errorf("nobody: %v", err)
	}
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	d = dialler(t, address, "")
	d.Waiting = func(string, time.Time) func() { cancel(why); return func() {} }
	if _, err := d.Dial(ctx); !errors.Is(err, why) {
		t.Errorf("interrupted: %v", err)
	}
}
