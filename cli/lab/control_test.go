package lab

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"ringcli/ring/bootstrap/oob"
)

// connected returns a control connection whose other end is a test's own.
func connected(t *testing.T) (near *control, far *oob.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan error, 1)
	go func() {
		s := oob.Server{Protocol: protocol, Hello: oob.Hello{Name: "rank 0"}, Timeout: time.Minute, Refused: func(_ net.Addr, err error) { t.Error(err) }}
		var err error
		far, err = s.Accept(t.Context(), t.Context(), listener)
		accepted <- err
	}()
	own := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0)
	near, err = meet(t.Context(), 1, own, listener.Addr().(*net.TCPAddr).AddrPort(), &Options{Timeout: 10 * time.Second, Waiting: func(string) func() { return func() {} }})
	if err = errors.Join(err, <-accepted); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		var both sync.WaitGroup
		both.Go(near.Close)
		both.Go(far.Close)
		both.Wait()
	})
	return near, far
}

func TestControlWaits(t *testing.T) {
	near, far := connected(t)
	for _, phase := range []string{"first", "another"} {
		if err := far.Send(kindReport, report{Phase: phase}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := near.receive(t.Context(), "first"); err != nil {
		t.Fatal(err)
	}
	if _, err := near.receive(t.Context(), "second"); err == nil || !strings.Contains(err.Error(), `reports "another", expected "second"`) {
		t.Errorf("another phase: %v", err)
	}
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := near.receive(ctx, "second"); !errors.Is(err, cause) {
		t.Errorf("interrupted: %v", err)
	}
	go far.Close()
	_, err := near.receive(t.Context(), "second")
	if err == nil || !strings.Contains(err.Error(), `report of "second"`) || !strings.Contains(err.Error(), `its last was "first"`) {
		t.Errorf("the other end has gone: %v", err)
	}
}

// The other end's failure ends a wait for a completion, and is not lost.
func TestControlGone(t *testing.T) {
	near, far := connected(t)
	if err := context.Cause(near.Context()); err != nil {
		t.Fatal(err)
	}
	if err := far.Send(kindReport, report{Phase: "x", Error: "no such luck"}); err != nil {
		t.Fatal(err)
	}
	far.Fail(errors.New("no such luck"))
	err := near.together(t.Context(), new(Step), "x", func() error {
		<-near.Context().Done()
		return context.Cause(near.Context())
	})
	if err == nil || err.Error() != "at rank 0: no such luck" {
		t.Errorf("%v: expected the other end's error", err)
	}
}
