package bootstrap

import (
	"context"
	"net"
	"syscall"
	"testing"
	"time"

	"ringcli/ring/bootstrap/kernel"
)

// vigilOver is a Vigil of rank 1 over a rank 0 elsewhere, which does what dial does.
func vigilOver(t *testing.T, dial func() (net.Conn, error)) *Vigil {
	nodes := freshNodes(t, 2)
	cfg := configFor(t, nodes, 1)
	cfg.Dial = func(context.Context, string, string) (net.Conn, error) { return dial() }
	return &Vigil{prober: openRank(t, cfg).prober, who: identity{Host: "elsewhere", PID: 1, Process: &kernel.Key{Machine: "elsewhere"}}}
}

// stands is a connection that a host has taken whose process does nothing.
func stands(t *testing.T) func() (net.Conn, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return func() (net.Conn, error) { return net.Dial("tcp", ln.Addr().String()) }
}

// A process that stands still is told of after the time of silence, one that has ended, or
// whose host has, after half a minute. What this process could not ask says nothing.
func TestVigil(t *testing.T) {
	t.Parallel()
	fails := func(err error) func(*testing.T) func() (net.Conn, error) {
		return func(*testing.T) func() (net.Conn, error) { return func() (net.Conn, error) { return nil, err } }
	}
	for name, c := range map[string]struct {
		dial  func(*testing.T) func() (net.Conn, error)
		kind  Kind // "" is that nothing is told
		after time.Duration
	}{
		"refused":        {fails(syscall.ECONNREFUSED), KindLost, absence},
		"no route":       {fails(syscall.EHOSTUNREACH), KindLost, absence},
		"stands still":   {stands, KindSilent, 5 * time.Second},
		"no descriptors": {fails(syscall.EMFILE), "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := vigilOver(t, c.dial(t))
			var got *Verdict
			spent := time.Duration(0)
			for limit := c.after + 3*mostBetween; got == nil && spent <= limit; spent += mostBetween {
				v.looked = v.looked.Add(-mostBetween) // so much time has passed
				got = v.Missing(t.Context())
			}
			switch {
			case c.kind == "" && got != nil:
				t.Errorf("%v: expected nothing", got)
			case c.kind != "" && (got == nil || got.Kind != c.kind || got.Rank != 0 || got.Confidence != Suspect || spent <= c.after):
				t.Errorf("%+v after %s: expected %s after %s", got, spent, c.kind, c.after)
			}
		})
	}
}

// Who is stopped together with the process that it watches, for long, blames nobody, nor does
// who has given up.
func TestVigilThatWasStoppedItself(t *testing.T) {
	t.Parallel()
	v := vigilOver(t, stands(t))
	for range 2 {
		if got := v.Missing(t.Context()); got != nil {
			t.Fatal(got)
		}
		v.looked = v.looked.Add(-time.Hour)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	v.mute = time.Hour
	if got := v.Missing(canceled); got != nil {
		t.Errorf("%v: expected nothing of who has given up", got)
	}
}

// Before the ranks have met, nobody may have been started at rank 0's address for long; a
// process that stands still there is told of.
func TestVigilBeforeTheFirstRing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		dial func() (net.Conn, error)
		want bool
	}{{func() (net.Conn, error) { return nil, syscall.ECONNREFUSED }, false}, {stands(t), true}} {
		v := vigilOver(t, c.dial)
		v.who = identity{}
		v.absent, v.mute, v.amiss, v.looked = time.Hour, time.Hour, true, time.Now()
		if got := v.Missing(t.Context()); (got != nil) != c.want {
			t.Errorf("%v: expected a verdict: %t", got, c.want)
		}
	}
}
