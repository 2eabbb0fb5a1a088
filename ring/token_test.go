package ring

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"ringcli/ring/polling"
)

// A token is given back once: what is given back again is not another's.
func TestTokenIsGivenBackOnce(t *testing.T) {
	r := newRing(membership{}, testOptions())
	r.SetTimeout(time.Minute)
	first, err := r.Hold(t.Context())
	noErrors(t, []error{err})
	first.Release()
	second, err := r.Hold(t.Context())
	noErrors(t, []error{err})
	first.Release()
	Token{}.Release()
	if who := r.poll.tokens.Who(); who.Kind != polling.Operating {
		t.Errorf("%q has the token: expected the second operation", who)
	}
	soon, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := r.Hold(soon); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(textOf(err), "begin an operation: an operation runs here") {
		t.Errorf("%v: expected that another has it", err)
	}
	second.Release()
	if who := r.poll.tokens.Who(); who.Kind != polling.Nobody || r.poll.tokens.Operations() != 2 {
		t.Errorf("%q has the token after %d operations: expected nobody, after 2", who, r.poll.tokens.Operations())
	}
}

// Pings share the token, and the last one gives it back; a step has it alone.
func TestTokenIsShared(t *testing.T) {
	r := newRing(membership{}, testOptions())
	r.SetTimeout(time.Minute)
	soon, cancel := context.WithCancel(t.Context())
	cancel()
	take := func(h polling.Holder) (Token, error) { return r.poll.take(soon, h) }
	one, err := take(polling.Holder{Kind: polling.Pinging})
	two, err2 := take(polling.Holder{Kind: polling.Pinging})
	noErrors(t, []error{err, err2})
	one.Release()
	step := polling.Holder{Kind: polling.Stepping, Step: "rtr"}
	if _, err := take(step); !strings.Contains(textOf(err), "a ping of one neighbour runs here") {
		t.Errorf("%v: expected that a ping has it", err)
	}
	two.Release()
	alone, err := take(step)
	noErrors(t, []error{err})
	if _, err := take(step); !strings.Contains(textOf(err), "rtr runs here") {
		t.Errorf("%v: expected that the step has it", err)
	}
	alone.Release()
	next, err := take(step)
	noErrors(t, []error{err})
	alone.Release()
	if who := r.poll.tokens.Who(); who != step {
		t.Errorf("%q has the token: expected the second step, from which a release of the first takes nothing", who)
	}
	alone = next
	waiting := make(chan error)
	go func() {
		token, err := r.Hold(t.Context())
		token.Release()
		waiting <- err
	}()
	time.Sleep(time.Millisecond)
	alone.Release()
	noErrors(t, []error{<-waiting})
}

// An operation takes the token and gives it back in no time worth speaking of.
func TestTokenAllocates(t *testing.T) {
	r := newRing(membership{}, testOptions())
	r.SetTimeout(time.Minute)
	if n := testing.AllocsPerRun(1000, func() {
		token, err := r.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		token.Release()
	}); n != 0 {
		t.Errorf("%v allocations: expected none", n)
	}
}
