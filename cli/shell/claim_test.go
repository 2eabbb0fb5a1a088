package shell

import (
	"errors"
	"io"
	"testing"

	"github.com/spf13/pflag"

	"ringcli/cli/session"
	"ringcli/configs"
)

// A command in the background that is cancelled while another visits it ends first: its
// visitor keeps the ring until it has left.
func TestAVisitorOutlivesItsHost(t *testing.T) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	configs.AddFlags(flags, "timeout")
	cfg, err := configs.Load(flags, "")
	if err != nil {
		t.Fatal(err)
	}
	s := session.New(nil, io.Discard, io.Discard, nil, nil)
	s.Config, s.Visits = cfg, &session.Visits{}
	h := &host{s: s}
	soak := s.Fork()
	soak.Running.Store(&session.Running{Name: "soak", Stops: true})
	end, err := h.claim(soak, "soak")
	if err != nil {
		t.Fatal(err)
	}
	busy := func(with string) {
		t.Helper()
		_, err := h.claim(s.Fork(), "rtr")
		if b, ok := errors.AsType[*session.BusyError](err); !ok || b.Holder != with {
			t.Errorf("rtr: %v: expected the ring to be busy with %s", err, with)
		}
	}
	type visit struct {
		of    string
		leave func()
		err   error
	}
	visits := make(chan visit)
	for range 2 {
		go func() {
			of, leave, err := h.visit(t.Context(), s.Fork(), "ping", nil)
			visits <- visit{of, leave, err}
		}()
	}
	var begun []visit
	for first := true; len(begun) < 2; {
		s.Visits.Serve(t.Context(), first, 1)
		select {
		case v := <-visits:
			if v.of != "soak" || v.err != nil {
				t.Fatalf("%+v: expected a visit of soak", v)
			}
			begun = append(begun, v)
		default:
		}
	}
	busy("soak")
	end()
	busy("ping")
	// One that comes now waits for both, and needs no boundary.
	go func() {
		of, leave, err := h.visit(t.Context(), s.Fork(), "ping", nil)
		visits <- visit{of, leave, err}
	}()
	begun[0].leave()
	busy("ping")
	begun[1].leave()
	last := <-visits
	if last.of != "" || last.err != nil {
		t.Errorf("%+v: expected the claim", last)
	}
	busy("ping")
	last.leave()
	again, err := h.claim(s.Fork(), "rtr")
	if err != nil {
		t.Fatal(err)
	}
	again()
}
