package watch

import (
	"errors"
	"strings"
	"testing"
	"time"

	"ringcli/verbs"
)

func TestEvents(t *testing.T) {
	var m Events
	now := time.Now()
	tell := func(e verbs.AsyncEvent, ago time.Duration) { m.Note("ibv:rxe0", e, now.Add(-ago)) }
	here := func(device string) bool { return device == "ibv:rxe0" }
	want := func(when, text string) {
		t.Helper()
		if got := m.Text(now, here); got != text {
			t.Errorf("%s: %q: expected %q", when, got, text)
		}
	}
	tell(verbs.AsyncEvent{Type: verbs.EventCommEst, QPN: 17}, time.Second)
	tell(verbs.AsyncEvent{Type: verbs.EventGIDChange, Port: 1}, time.Second)
	want("nothing bad", "")
	if err := m.Explaining(verbs.ErrTimeout, ""); err.Error() != verbs.ErrTimeout.Error() {
		t.Errorf("%v: expected it as it was", err)
	}
	tell(verbs.AsyncEvent{Type: verbs.EventPortErr, Port: 1}, 1200*time.Millisecond)
	want("a port down", "port 1 of ibv:rxe0 went down 1.2 s before (port error)")
	m.Note("soft:lo", verbs.AsyncEvent{Type: verbs.EventPortErr, Port: 1}, now)
	want("a port of another device down, too", "port 1 of ibv:rxe0 went down 1.2 s before (port error)")
	if f := m.Findings("soft:lo", "lo", 3, now); len(f) != 1 || !strings.Contains(f[0].Text, "port 1 of soft:lo went down") {
		t.Errorf("%+v: expected what happened to soft:lo alone", f)
	}
	m.Note("soft:lo", verbs.AsyncEvent{Type: verbs.EventPortActive, Port: 1}, now)
	tell(verbs.AsyncEvent{Type: verbs.EventPortActive, Port: 2}, 0)
	want("another is up", "port 1 of ibv:rxe0 went down 1.2 s before (port error)")
	if err := m.Explaining(verbs.ErrTimeout, ""); !errors.Is(err, verbs.ErrTimeout) || !strings.HasPrefix(err.Error(), "timed out; port 1 of ibv:rxe0 went down") {
		t.Errorf("%v: expected the port behind it", err)
	}
	tell(verbs.AsyncEvent{Type: verbs.EventPortActive, Port: 1}, 0)
	want("up again", "")
	tell(verbs.AsyncEvent{Type: verbs.EventQPAccessErr, QPN: 17}, 2*time.Second)
	tell(verbs.AsyncEvent{Type: verbs.EventPortErr, Port: 1}, time.Second)
	want("both", "ibv:rxe0 reported of queue pair 0x000011 2.0 s before: local access violation work queue error; "+
		"port 1 of ibv:rxe0 went down 1.0 s before (port error)")
	if f := m.Findings("ibv:rxe0", "eth0", 3, now); len(f) != 2 || f[0].Attribute != "port_state" || f[0].Rank != 3 || !strings.Contains(f[0].Fix, "eth0") {
		t.Errorf("%+v: expected the port first", f)
	}
	m.Forget(false)
	want("reset", "port 1 of ibv:rxe0 went down 1.0 s before (port error)")
	for range 2 * mostEvents {
		tell(verbs.AsyncEvent{Type: verbs.EventDeviceFatal}, 0)
	}
	if len(m.list) != mostEvents {
		t.Errorf("%d are kept: expected %d", len(m.list), mostEvents)
	}
	m.Forget(true)
	want("opened again", "")
}
