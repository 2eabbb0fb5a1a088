package pingpong

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ringcli/cli/endpoint"
	"ringcli/ring/bootstrap/oob"
	"ringcli/verbs"
	_ "ringcli/verbs/soft"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The message is that of the stock tool, byte by byte.
func TestAddress(t *testing.T) {
	const wire = "3a1e:000fb4:7560c3:00000000000000000000ffff0a4d00fe\x00"
	a := Address{LID: 0x3a1e, QPN: 0xfb4, PSN: 0x7560c3, GID: verbs.GIDFromAddr(netip.MustParseAddr("10.77.0.254"))}
	if got := string(a.wire()); got != wire || len(got) != 52 {
		t.Errorf("%q: expected %q", got, wire)
	}
	if got, ok := parse([]byte(wire)); !ok || got != a {
		t.Errorf("%+v, %t: expected %+v", got, ok, a)
	}
	if got := (Address{LID: 0x3a1e, QPN: 0xfb4, PSN: 0x7560c3}).String(); got != "LID 0x3a1e, QPN 0x000fb4, PSN 0x7560c3, GID ::" {
		t.Errorf("%q", got)
	}
	for _, bad := range []string{
		"", strings.Repeat("0", 52), wire[:51] + "0", strings.ToUpper(wire), "3a1e-000fb4:7560c3:00000000000000000000ffff0a4d00fe\x00",
		"3a1e:000fb4:7560c3: 0000000000000000000ffff0a4d00fe\x00",
	} {
		if a, ok := parse([]byte(bad)); ok {
			t.Errorf("%q is taken for %+v", bad, a)
		}
	}
}

// own is an address of this process's: nobody else has RoCE's UDP port there.
func own(n byte) netip.Addr {
	pid := os.Getpid()
	return netip.AddrFrom4([4]byte{127, byte(160 + pid>>8%64), byte(pid), n})
}

// options are of an end that works; Wait is short so that a hang would be seen.
func options(t *testing.T, host string, port int) *Options {
	t.Helper()
	return &Options{
		Options: endpoint.Options{Device: "soft:lo", Port: 1, MTU: 1024, QPTimeout: 14, RetryCnt: 6, RNRRetry: 7, MinRNRTimer: 12},
		Host:    host, TCPPort: port, Size: 64, Depth: 8, Iters: 20, Timeout: 20 * time.Second,
		Waiting: func(string, time.Time) func() { return func() {} }, RoundTrip: func(time.Duration) {},
		Local: func(Address) error { return nil }, Remote: func(Address) error { return nil },
	}
}

// listener is what stands in for a server.
func listener(t *testing.T, serve func(net.Conn)) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		serve(conn)
		_ = conn.Close()
	}()
	t.Cleanup(func() { _ = l.Close(); <-served })
	return l.Addr().(*net.TCPAddr).Port
}

// Whoever answers in place of a server is named.
func TestOddServers(t *testing.T) {
	frame, err := oob.AppendFrame(nil, &oob.Frame{Version: oob.Version, Type: "lab", Receiver: 1, Edge: 1, Payload: []byte(`{}`)})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		says string
		want []string
	}{
		"hangs up":     {"", []string{"nothing has come", "hung up"}},
		"HTTP":         {"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n", []string{"an HTTP program"}},
		"perftest":     {"0000:0000:000011:123456:0000abcd:00007f0000000000:0000000000000000000000ffff0a4d0001:", []string{"perftest"}},
		"ringcli":      {string(frame), []string{"another command of ringcli"}},
		"half a line":  {"0000:000011", []string{"11 bytes have come", "hung up"}},
		"SSH":          {"SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n", []string{"an SSH program"}},
		"perftest 6.0": {"6.02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", []string{"perftest 6.02"}},
	} {
		t.Run(name, func(t *testing.T) {
			port := listener(t, func(conn net.Conn) {
				_, _ = io.ReadFull(conn, make([]byte, addressLen))
				_, _ = io.WriteString(conn, c.says)
			})
			o := options(t, "127.0.0.1", port)
			m, err := meet(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = m.conn.Close() }()
			_, err = m.ask(Address{}, o.Timeout)
			for _, part := range c.want {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("%v: no %q", err, part)
				}
			}
		})
	}
}

// A server that says nothing, and one that is not there, are waited for no longer
// than the deadline; the error says for whom.
func TestDeadlines(t *testing.T) {
	release := make(chan struct{})
	port := listener(t, func(net.Conn) { <-release })
	o := options(t, "127.0.0.1", port)
	m, err := meet(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	o.Timeout = 100 * time.Millisecond
	if _, err := m.ask(Address{}, o.Timeout); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("server 127.0.0.1:%d: nothing has come in 100ms", port)) {
		t.Errorf("silent server: %v", err)
	}
	close(release)
	_ = m.conn.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0") // a port that nobody else takes meanwhile
	if err != nil {
		t.Fatal(err)
	}
	taken := l.Addr().(*net.TCPAddr).Port
	o.Host, o.TCPPort = own(2).String(), taken // where nobody listens
	if _, err := meet(t.Context(), o); err == nil || !strings.Contains(err.Error(), "no server has answered") || !strings.Contains(err.Error(), "within 100ms") {
		t.Errorf("no server: %v", err)
	}
	o.Host, o.Bind = "", netip.MustParseAddr("127.0.0.1")
	if _, err := meet(t.Context(), o); err == nil || !strings.Contains(err.Error(), "give another --port") {
		t.Errorf("a busy port: %v", err)
	}
	_ = l.Close()
	if _, err := meet(t.Context(), o); err == nil || !strings.Contains(err.Error(), "no client has come to 127.0.0.1") {
		t.Errorf("no client: %v", err)
	}
}

// A caller that is no pingpong does not take the server away from the client.
func TestStrangersAreTurnedAway(t *testing.T) {
	l, err := net.Listen("tcp", own(1).String()+":0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	o := options(t, "", port)
	o.Bind = own(1)
	want := Address{QPN: 5, PSN: 7, GID: verbs.GIDFromAddr(o.Bind)}
	called := make(chan error, 1)
	go func() {
		for _, text := range []string{"GET / HTTP/1.0\r\n\r\n", string(want.wire())} {
			conn, err := dialUntil(o.Bind.String(), port)
			if err == nil {
				_, err = io.WriteString(conn, text)
			}
			if err != nil {
				called <- err
				return
			}
			_ = conn.Close()
		}
		called <- nil
	}()
	m, err := meet(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.conn.Close() }()
	if err := <-called; err != nil {
		t.Error(err)
	}
	if m.first != want || m.local != o.Bind {
		t.Errorf("%+v at %s: expected %+v", m.first, m.local, want)
	}
}

// Callers that say nothing, or little by little, do not hold the client up.
func TestSilentCallers(t *testing.T) {
	l, err := net.Listen("tcp", own(4).String()+":0")
	if err != nil {
		t.Fatal(err)
	}
	o := options(t, "", l.Addr().(*net.TCPAddr).Port)
	_ = l.Close()
	o.Bind = own(4)
	want := Address{QPN: 5, PSN: 7, GID: verbs.GIDFromAddr(o.Bind)}
	var callers []net.Conn
	defer func() {
		for _, c := range callers {
			_ = c.Close()
		}
	}()
	called := make(chan error, 1)
	go func() {
		for i := range 300 {
			conn, err := dialUntil(o.Bind.String(), o.TCPPort)
			if err != nil {
				called <- err
				return
			}
			callers = append(callers, conn)
			_, _ = io.WriteString(conn, "0000:"[:1+i%5])
		}
		conn, err := dialUntil(o.Bind.String(), o.TCPPort)
		if err == nil {
			callers = append(callers, conn)
			_, err = conn.Write(want.wire())
		}
		called <- err
	}()
	begun := time.Now()
	m, err := meet(t.Context(), o)
	if e := <-called; e != nil || err != nil {
		t.Fatal(e, err)
	}
	defer func() { _ = m.conn.Close() }()
	if took := time.Since(begun); m.first != want || took > oob.Patience {
		t.Errorf("%+v after %s: expected %+v at once", m.first, took, want)
	}
}

func dialUntil(host string, port int) (net.Conn, error) {
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", net.JoinHostPort(host, fmt.Sprint(port)))
		if err == nil || time.Now().After(deadline) {
			return conn, err
		}
	}
}

// Cancelling ends each wait, with its cause.
func TestCancelled(t *testing.T) {
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	o := options(t, "", 0)
	o.Bind = netip.MustParseAddr("127.0.0.1")
	o.Waiting = func(string, time.Time) func() { cancel(why); return func() {} }
	if _, err := Run(ctx, *o); !errors.Is(err, why) {
		t.Errorf("accept: %v", err)
	}
	port := listener(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	ctx, cancel = context.WithCancelCause(t.Context())
	o = options(t, "127.0.0.1", port)
	o.Bind = own(3)
	o.Local = func(Address) error { cancel(why); return nil }
	if _, err := Run(ctx, *o); !errors.Is(err, why) {
		t.Errorf("the address: %v", err)
	}
}
