package ring

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"ringcli/verbs"
)

// Reset and bring-up again, on the same queue pairs, with and without an own PSN.
func TestReset(t *testing.T) {
	for _, n := range []int{2, 4} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			world := byHand(t, n)
			upTo(t, world, StateRTS)
			for round := range 3 {
				noErrors(t, each(world, func(r *Ring) error { _, err := r.Ping(t.Context(), 5); return err }))
				var before [][2]QPInfo
				for _, r := range world {
					before = append(before, [2]QPInfo{r.Left().Local, r.Right().Local})
				}
				noErrors(t, each(world, func(r *Ring) error { return r.Reset(t.Context()) }))
				for i, r := range world {
					if s := r.State(); s != StateOpened || r.Usable() == nil {
						t.Errorf("round %d: rank %d is %s, usable %v", round, i, s, r.Usable())
					}
					if r.Left().Remote != (connectionData{}) {
						t.Errorf("rank %d still has what its neighbour announced", i)
					}
				}
				v := Values{}
				if round == 1 {
					v.PSN = new(uint32(42))
				}
				noErrors(t, each(world, func(r *Ring) error { return r.Init(t.Context(), v) }))
				upTo(t, world, StateRTS)
				for i, r := range world {
					want := before[i]
					if round == 1 {
						want[Left].PSN, want[Right].PSN = 42, 42
					}
					if got := [2]QPInfo{r.Left().Local, r.Right().Local}; got != want {
						t.Errorf("round %d: rank %d announces %+v: expected %+v", round, i, got, want)
					}
				}
			}
			noErrors(t, each(world, func(r *Ring) error { _, err := r.Ping(t.Context(), 5); return err }))
		})
	}
}

func TestResetOutOfOrder(t *testing.T) {
	r := byHand(t, 1)[0]
	for _, missing := range []string{"open", "init"} {
		var e *StepError
		if err := r.Reset(t.Context()); !errors.As(err, &e) || e.Missing != missing {
			t.Errorf("%v: expected that %s comes first", err, missing)
		}
		if missing == "open" {
			noErrors(t, []error{r.Open(t.Context())})
		}
	}
	r.Fail(errors.New("enough"))
	if err := r.Reset(t.Context()); !strings.Contains(textOf(err), "the ring has failed") {
		t.Errorf("a reset of a failed ring: %v", err)
	}
}

// A ping whose peer's queue pair is gone takes the own one to ERR; a reset on
// both ends mends it, and what was left behind harms nobody.
func TestResetAfterError(t *testing.T) {
	world := newRings(t, 2, func(_ int, o *Options) {
		o.ByHand, o.Timeout, o.QPTimeout, o.RetryCnt = true, 5*time.Second, new(13), new(4)
	})
	upTo(t, world, StateRTS)
	if err := world[1].Left().QP.Modify(verbs.QPAttr{State: verbs.StateReset}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	_, err := world[0].Ping(t.Context(), 1)
	var failed *CompletionError
	if text := textOf(err); !errors.As(err, &failed) || failed.Status != verbs.RetryExceeded || !strings.Contains(text, "reset on") {
		t.Errorf("%s: expected that the peer does not answer, and what to do", text)
	}
	if s := world[0].State(); s != StateError || world[0].Failed() {
		t.Errorf("the ring is %s: expected error, and not failed", s)
	}
	noErrors(t, each(world, func(r *Ring) error { return r.Reset(t.Context()) }))
	upTo(t, world, StateRTS)
	noErrors(t, each(world, func(r *Ring) error { _, err := r.Ping(t.Context(), 20); return err }))
}

// A ping that fails leaves messages behind, and operations are refused.
func TestFailedPingSpoils(t *testing.T) {
	t.Parallel() // it waits
	world := newRings(t, 2, func(_ int, o *Options) { o.ByHand, o.Timeout = true, 2*time.Second })
	upTo(t, world, StateRTS)
	if _, err := world[0].Ping(t.Context(), 1); !strings.Contains(textOf(err), "answered 0 of 2") {
		t.Errorf("%v: expected that nobody answers", err)
	}
	if s := world[0].State(); s != StateRTS || world[0].Failed() {
		t.Errorf("the ring is %s", s)
	}
	_, err := world[0].Ping(t.Context(), 1)
	for _, err := range []error{world[0].Usable(), err} {
		if !strings.Contains(textOf(err), "reset on all ranks first") {
			t.Errorf("%v: expected that a reset comes first", err)
		}
	}
	noErrors(t, each(world, func(r *Ring) error { return r.Reset(t.Context()) }))
	upTo(t, world, StateRTS)
	noErrors(t, each(world, func(r *Ring) error { _, err := r.Ping(t.Context(), 3); return err }))
}

// After a reset the exchange waits for the neighbour's queue pair, too.
func TestExchangeAfterOneReset(t *testing.T) {
	t.Parallel() // it waits
	world := newRings(t, 2, func(_ int, o *Options) { o.ByHand, o.Timeout = true, 2*time.Second })
	upTo(t, world, StateRTS)
	r := world[0]
	noErrors(t, each(world, func(r *Ring) error { return r.Reset(t.Context()) }))
	noErrors(t, []error{r.Init(t.Context(), Values{PSN: new(uint32(3))})})
	if text := textOf(r.Exchange(t.Context())); !strings.Contains(text, "queue pair of rank 1 (127.") || !strings.Contains(text, "is RESET") || !strings.Contains(text, "run init there") {
		t.Errorf("%s: expected rank 1's state", text)
	}
	if s := r.State(); s != StateInitialised {
		t.Errorf("the ring is %s", s)
	}
	// Now that it is there, it hears the new PSN and says its own.
	noErrors(t, []error{world[1].Init(t.Context(), Values{PSN: new(uint32(4))})})
	noErrors(t, each(world, func(r *Ring) error { return r.Exchange(t.Context()) }))
	if mine, theirs := r.Left().Remote.PSN, world[1].Left().Remote.PSN; mine != 4 || theirs != 3 {
		t.Errorf("rank 0 heard of PSN %d and rank 1 of %d: expected 4 and 3", mine, theirs)
	}
	upTo(t, world, StateRTS)
	noErrors(t, each(world, func(r *Ring) error { _, err := r.Ping(t.Context(), 3); return err }))
}

// No receive was posted: the sender is told so, again and again, and gives up.
func TestNoReceives(t *testing.T) {
	world := newRings(t, 2, func(_ int, o *Options) { o.ByHand, o.RNRRetry, o.Timeout = true, new(1), 5*time.Second })
	noErrors(t, each(world, func(r *Ring) error { return r.Open(t.Context()) }))
	noErrors(t, each(world, func(r *Ring) error {
		v := Values{}
		if r.Rank() == 1 {
			v.Receives = new(0)
		}
		return r.Init(t.Context(), v)
	}))
	upTo(t, world, StateRTS)
	_, err := world[0].PingSide(t.Context(), Right, 1)
	var failed *CompletionError
	if !errors.As(err, &failed) || failed.Status != verbs.RNRRetryExceeded {
		t.Errorf("%v: expected that the peer has no receive posted", err)
	}
}

// A life of resets leaves nothing behind.
func TestResetCycles(t *testing.T) {
	cycles := 200
	if testing.Short() {
		cycles = 40
	}
	world := byHand(t, 2)
	cycle := func() {
		upTo(t, world, StateRTS)
		noErrors(t, each(world, func(r *Ring) error { _, err := r.Ping(t.Context(), 2); return err }))
		noErrors(t, each(world, func(r *Ring) error { _, err := r.PingSide(t.Context(), Side(r.Rank()), 2); return err }))
		noErrors(t, each(world, func(r *Ring) error { return r.Reset(t.Context()) }))
	}
	for range 3 { // whatever is made once
		cycle()
	}
	before := holdings(t)
	for range cycles {
		cycle()
	}
	steady(t, before, cycles)
}
