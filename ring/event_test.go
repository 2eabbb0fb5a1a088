package ring

import (
	"errors"
	"strings"
	"testing"
	"time"

	"ringcli/verbs"
)

func TestDeviceEvents(t *testing.T) {
	var m deviceEvents
	now := time.Now()
	tell := func(e verbs.AsyncEvent, ago time.Duration) { m.note("ibv:rxe0", e, now.Add(-ago)) }
	here := func(device string) bool { return device == "ibv:rxe0" }
	want := func(when, text string) {
		t.Helper()
		if got := m.text(now, here); got != text {
			t.Errorf("%s: %q: expected %q", when, got, text)
		}
	}
	tell(verbs.AsyncEvent{Type: verbs.EventCommEst, QPN: 17}, time.Second)
	tell(verbs.AsyncEvent{Type: verbs.EventGIDChange, Port: 1}, time.Second)
	want("nothing bad", "")
	if err := m.explaining(verbs.ErrTimeout); textOf(err) != verbs.ErrTimeout.Error() {
		t.Errorf("%v: expected it as it was", err)
	}
	tell(verbs.AsyncEvent{Type: verbs.EventPortErr, Port: 1}, 1200*time.Millisecond)
	want("a port down", "port 1 of ibv:rxe0 went down 1.2 s before (port error)")
	m.note("soft:lo", verbs.AsyncEvent{Type: verbs.EventPortErr, Port: 1}, now)
	want("a port of another device down, too", "port 1 of ibv:rxe0 went down 1.2 s before (port error)")
	if f := m.findings("soft:lo", "lo", 3, now); len(f) != 1 || !strings.Contains(f[0].Text, "port 1 of soft:lo went down") {
		t.Errorf("%+v: expected what happened to soft:lo alone", f)
	}
	m.note("soft:lo", verbs.AsyncEvent{Type: verbs.EventPortActive, Port: 1}, now)
	tell(verbs.AsyncEvent{Type: verbs.EventPortActive, Port: 2}, 0)
	want("another is up", "port 1 of ibv:rxe0 went down 1.2 s before (port error)")
	if err := m.explaining(verbs.ErrTimeout); !errors.Is(err, verbs.ErrTimeout) || !strings.HasPrefix(textOf(err), "timed out; port 1 of ibv:rxe0 went down") {
		t.Errorf("%v: expected the port behind it", err)
	}
	tell(verbs.AsyncEvent{Type: verbs.EventPortActive, Port: 1}, 0)
	want("up again", "")
	tell(verbs.AsyncEvent{Type: verbs.EventQPAccessErr, QPN: 17}, 2*time.Second)
	tell(verbs.AsyncEvent{Type: verbs.EventPortErr, Port: 1}, time.Second)
	want("both", "ibv:rxe0 reported of queue pair 0x000011 2.0 s before: local access violation work queue error; "+
		"port 1 of ibv:rxe0 went down 1.0 s before (port error)")
	if f := m.findings("ibv:rxe0", "eth0", 3, now); len(f) != 2 || f[0].Attribute != "port_state" || f[0].Rank != 3 || !strings.Contains(f[0].Fix, "eth0") {
		t.Errorf("%+v: expected the port first", f)
	}
	m.forget(false)
	want("reset", "port 1 of ibv:rxe0 went down 1.0 s before (port error)")
	for range 2 * mostEvents {
		tell(verbs.AsyncEvent{Type: verbs.EventDeviceFatal}, 0)
	}
	if len(m.list) != mostEvents {
		t.Errorf("%d are kept: expected %d", len(m.list), mostEvents)
	}
	m.forget(true)
	want("opened again", "")
}

// A port that goes down fails nothing by itself, and is named first when
// something fails; one that came back is not.
func TestPortEvent(t *testing.T) {
	d := newOdd(t, &oddDevice{})
	world := connect(t, 2, func(rank int, o *Options) {
		if rank == 1 {
			o.Device = d.name
		}
	})
	ping := func() []error {
		return each(world, func(r *Ring) error { _, err := r.Ping(t.Context(), 3); return err })
	}
	down, up := verbs.AsyncEvent{Type: verbs.EventPortErr, Port: 1}, verbs.AsyncEvent{Type: verbs.EventPortActive, Port: 1}
	failure := &CompletionError{Edge: Left.Edge(), Peer: 0, Status: verbs.RetryExceeded}
	flushed := &verbs.Completion{ID: WRID(Left.Edge(), WRMessage, 0), Status: verbs.RetryExceeded}
	d.happen(down)
	noErrors(t, ping())
	if found := world[1].Diagnose(t.Context(), Left.Edge(), failure); !strings.Contains(explain(found), "rank 1: port 1 of "+d.name+" went down") {
		t.Errorf("%+v: expected the port first", found)
	}
	if found := world[1].Diagnose(t.Context(), Left.Edge(), nil); explain(found) != "" {
		t.Errorf("%+v: expected nothing, since nothing failed", found)
	}
	if err := world[1].CompletionError(flushed); !strings.Contains(textOf(err), "port 1 of "+d.name+" went down") {
		t.Errorf("%v: expected the port", err)
	}
	d.happen(up)
	if err := world[1].CompletionError(flushed); strings.Contains(textOf(err), d.name) {
		t.Errorf("%v: expected nothing of a port that is up", err)
	}
	noErrors(t, ping())
	d.happen(down)
	world[1].Fail(errors.New("nothing came within 1s"))
	for _, err := range each(world, func(r *Ring) error { return r.Barrier(t.Context()) }) {
		if text := textOf(err); strings.Count(text, "went down") != 1 || !strings.Contains(text, "nothing came within 1s; port 1 of "+d.name) {
			t.Errorf("%s: expected the port behind the failure, on all ranks", text)
		}
	}
}

// A device that is lost, and a queue pair, fail the ring on all ranks.
func TestFatalEvents(t *testing.T) {
	for want, e := range map[string]verbs.AsyncEvent{
		"local catastrophic error":                         {Type: verbs.EventDeviceFatal},
		"QP 0x000014: local work queue catastrophic error": {Type: verbs.EventQPFatal, QPN: 20},
	} {
		t.Run(e.Type.String(), func(t *testing.T) {
			d := newOdd(t, &oddDevice{})
			world := connect(t, 3, func(rank int, o *Options) {
				if rank == 1 {
					o.Device = d.name
				}
			})
			d.happen(e)
			_ = each(world, func(r *Ring) error { _, err := r.Ping(t.Context(), 1<<20); return err }) // until it has failed
			for i, r := range world {
				var v *Verdict
				var own *DeviceError
				if ok := i == 1 && errors.As(r.Err(), &own) || errors.As(r.Err(), &v) && v.Rank == 1; !ok {
					t.Errorf("rank %d: %v: expected a verdict on rank 1", i, r.Err())
				}
				if text := textOf(r.Err()); !strings.Contains(text, "rank 1 (") || !strings.Contains(text, d.name+" reports "+want) {
					t.Errorf("rank %d: %s: expected %q", i, text, want)
				}
			}
		})
	}
	t.Run("by hand", func(t *testing.T) {
		d := newOdd(t, &oddDevice{})
		r := newRings(t, 1, func(_ int, o *Options) { o.Device, o.ByHand = d.name, true })[0]
		if err := r.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		d.happen(verbs.AsyncEvent{Type: verbs.EventQPFatal, QPN: 20})
		r.devices.events.failing.Wait()
		if r.Failed() {
			t.Errorf("%v: expected the queue pair to be left to the operator", r.Err())
		}
		d.happen(verbs.AsyncEvent{Type: verbs.EventDeviceFatal})
		r.devices.events.failing.Wait()
		if !r.Failed() {
			t.Error("expected the ring to fail with its device")
		}
	})
}
