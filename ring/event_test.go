package ring

import (
	"errors"
	"strings"
	"testing"

	"ringcli/verbs"
)

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
	if found := world[1].Ends().Diagnose(t.Context(), Left.Edge(), failure); !strings.Contains(explain(found), "rank 1: port 1 of "+d.name+" went down") {
		t.Errorf("%+v: expected the port first", found)
	}
	if found := world[1].Ends().Diagnose(t.Context(), Left.Edge(), nil); explain(found) != "" {
		t.Errorf("%+v: expected nothing, since nothing failed", found)
	}
	if err := world[1].Failure().Completion(flushed); !strings.Contains(textOf(err), "port 1 of "+d.name+" went down") {
		t.Errorf("%v: expected the port", err)
	}
	d.happen(up)
	if err := world[1].Failure().Completion(flushed); strings.Contains(textOf(err), d.name) {
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
		r.devices.failing.Wait()
		if r.Failed() {
			t.Errorf("%v: expected the queue pair to be left to the operator", r.Err())
		}
		d.happen(verbs.AsyncEvent{Type: verbs.EventDeviceFatal})
		r.devices.failing.Wait()
		if !r.Failed() {
			t.Error("expected the ring to fail with its device")
		}
	})
}
