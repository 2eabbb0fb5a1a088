package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"ringcli/ring/bootstrap"
)

// connected returns a control connection whose other end is a test's own connection.
func connected(t *testing.T) (*control, net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	own := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0)
	l, err := meet(t.Context(), 1, own, listener.Addr().(*net.TCPAddr).AddrPort(), &Options{Timeout: 10 * time.Second, Waiting: func(string) func() { return func() {} }})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l, conn
}

func write(t *testing.T, conn net.Conn, f bootstrap.Frame, payload any) {
	t.Helper()
	var err error
	if f.Payload, err = json.Marshal(payload); err != nil {
		t.Fatal(err)
	}
	b, err := bootstrap.AppendFrame(nil, &f)
	if err == nil {
		_, err = conn.Write(b)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestControlRefuses(t *testing.T) {
	good := bootstrap.Frame{Version: bootstrap.Version, Type: frameType}
	for name, c := range map[string]struct {
		send func(*testing.T, net.Conn)
		want string
	}{
		"another version": {func(t *testing.T, c net.Conn) { write(t, c, good, report{Version: 9, Phase: "x"}) }, fmt.Sprintf("of version %d.9", bootstrap.Version)},
		"another phase":   {func(t *testing.T, c net.Conn) { write(t, c, good, report{Version: controlVersion, Phase: "y"}) }, `reports "y", expected "x"`},
		"a ring": {func(t *testing.T, c net.Conn) {
			write(t, c, bootstrap.Frame{Version: bootstrap.Version, Type: bootstrap.TypeHello}, struct{}{})
		}, "a hello frame"},
		"a stranger": {func(t *testing.T, c net.Conn) {
			if _, err := c.Write([]byte("SSH-2.0-OpenSSH_9.2\r\n")); err != nil {
				t.Fatal(err)
			}
		}, "SSH"},
		"no more": {func(_ *testing.T, c net.Conn) { _ = c.Close() }, "it has closed the connection"},
	} {
		t.Run(name, func(t *testing.T) {
			l, conn := connected(t)
			c.send(t, conn)
			if _, err := l.receive(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v: expected %q", err, c.want)
			}
		})
	}
}

func TestControlWaits(t *testing.T) {
	l, conn := connected(t)
	write(t, conn, bootstrap.Frame{Version: bootstrap.Version, Type: frameType}, report{Version: controlVersion, Phase: "first"})
	if _, err := l.receive(t.Context(), "first"); err != nil {
		t.Fatal(err)
	}
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := l.receive(ctx, "second"); !errors.Is(err, cause) {
		t.Errorf("interrupted: %v", err)
	}
	l.timeout = time.Millisecond - grace // so that it waits a millisecond
	_, err := l.receive(t.Context(), "second")
	if err == nil || !strings.Contains(err.Error(), `has not reported "second"`) || !strings.Contains(err.Error(), `its last was "first"`) {
		t.Errorf("the deadline: %v", err)
	}
}

// The other end's failure ends a wait for a completion, and is not lost.
func TestControlGone(t *testing.T) {
	l, conn := connected(t)
	if err := context.Cause(l.peer); err != nil {
		t.Fatal(err)
	}
	write(t, conn, bootstrap.Frame{Version: bootstrap.Version, Type: frameType}, report{Version: controlVersion, Phase: "x", Error: "no such luck"})
	select {
	case <-l.peer.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the report has not come")
	}
	if err := context.Cause(l.peer); !errors.Is(err, errPeerGone) {
		t.Errorf("%v: expected that the other end has given up", err)
	}
	r, err := l.receive(t.Context(), "x")
	if err != nil || r.Error != "no such luck" {
		t.Errorf("%v, %v", r, err)
	}
}
