package ring

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"ringcli/configs/usage"
	"ringcli/verbs"
)

// handSteps are the steps that an operator takes, in order.
func handSteps(r *Ring) []struct {
	name string
	to   State
	take func(context.Context) error
} {
	return []struct {
		name string
		to   State
		take func(context.Context) error
	}{
		{"open", StateOpened, r.Open}, {"init", StateInitialised, proper(r.Init)}, {"exchange", StateExchanged, r.Exchange},
		{"rtr", StateRTR, proper(r.RTR)}, {"rts", StateRTS, proper(r.RTS)},
		{"ping", StateReady, func(ctx context.Context) error { _, err := r.Ping(ctx, 1); return err }},
	}
}

// Every step in every state: the one that is due works, a later one names what
// is missing, an earlier one says that it is done; nothing fails the ring.
func TestEveryOrderByHand(t *testing.T) {
	world := byHand(t, 1)
	r := world[0]
	due := handSteps(r)
	for i, next := range due {
		before := r.State()
		for j, other := range due {
			if j == i || other.to == StateExchanged && before == StateExchanged {
				continue // it may be repeated
			}
			err := other.take(t.Context())
			var e *StepError
			if !errors.As(err, &e) {
				t.Fatalf("%s in state %s: %v: expected a StepError", other.name, before, err)
			}
			switch {
			case j > i && (e.Missing != next.name || !strings.Contains(e.Error(), next.name+" comes first")):
				t.Errorf("%s in state %s: %v: expected that %s comes first", other.name, before, err, next.name)
			case j < i && (e.Missing != "" || !strings.Contains(e.Error(), "this step is done")):
				t.Errorf("%s in state %s: %v: expected that it is done", other.name, before, err)
			case j > 0 && j < i && before > StateOpened && !strings.Contains(e.Error(), "reset first"):
				t.Errorf("%s in state %s: %v: expected that reset comes first", other.name, before, err)
			}
			if s := r.State(); s != before || r.Failed() {
				t.Fatalf("%s in state %s: the ring is %s now", other.name, before, s)
			}
		}
		if err := next.take(t.Context()); err != nil || r.State() != next.to {
			t.Fatalf("%s: %v: the ring is %s", next.name, err, r.State())
		}
	}
}

func TestExchangeAgain(t *testing.T) {
	world := byHand(t, 2)
	upTo(t, world, StateExchanged)
	if err := world[0].Exchange(t.Context()); err != nil || world[0].State() != StateExchanged {
		t.Errorf("%v: the ring is %s", err, world[0].State())
	}
	upTo(t, world, StateRTS)
	noErrors(t, each(world, func(r *Ring) error { _, err := r.Ping(t.Context(), 3); return err }))
}

// What is done to a queue pair behind the ring's back is noticed.
func TestBehindTheBack(t *testing.T) {
	for _, c := range []struct {
		state verbs.QPState
		want  State
		next  string // the step that is due
	}{{verbs.StateErr, StateError, "reset"}, {verbs.StateReset, StateOpened, "init"}} {
		world := byHand(t, 1)
		r := world[0]
		upTo(t, world, StateRTS)
		if r.Usable() != nil {
			t.Error(r.Usable())
		}
		if err := r.Left().QP.Modify(verbs.QPAttr{State: c.state}, verbs.AttrState); err != nil {
			t.Fatal(err)
		}
		if s := r.State(); s != c.want {
			t.Errorf("the left queue pair is %s: the ring is %s: expected %s", c.state, s, c.want)
		}
		_, ping := r.Ping(t.Context(), 1)
		_, side := r.PingSide(t.Context(), Left, 1)
		for what, err := range map[string]error{"usable": r.Usable(), "rts": r.RTS(t.Context(), Values{}), "ping": ping, "ping of one side": side} {
			var e *StepError
			if !errors.As(err, &e) || e.Missing != c.next || what != "ping of one side" && !strings.Contains(e.Error(), fmt.Sprintf("the left queue pair is %s", c.state)) {
				t.Errorf("%s with a queue pair in %s: %v: expected that %s comes first", what, c.state, err, c.next)
			}
		}
		if r.Failed() {
			t.Error("the ring has failed")
		}
	}
}

// A queue pair that was taken on behind the ring's back is left where it is.
func TestHalfDoneStep(t *testing.T) {
	world := byHand(t, 1)
	r := world[0]
	upTo(t, world, StateExchanged)
	right := Right
	if err := r.RTR(t.Context(), Values{Side: &right, PSN: new(uint32(7))}); err != nil {
		t.Fatal(err)
	}
	if err := r.RTR(t.Context(), Values{Side: &right}); !strings.Contains(textOf(err), "this step is done") {
		t.Errorf("rtr of the right side again: %v", err)
	}
	// The left edge refuses, the right one is there.
	if err := r.RTR(t.Context(), Values{MinRNRTimer: new(40)}); !strings.Contains(textOf(err), "left queue pair") {
		t.Errorf("%v: expected the left queue pair to refuse", err)
	}
	if err := r.RTR(t.Context(), Values{}); err != nil || r.State() != StateRTR {
		t.Errorf("%v: the ring is %s", err, r.State())
	}
	if psn := attrOf(t, r.Right()).RQPSN; psn != 7 {
		t.Errorf("the right queue pair expects %d: expected 7, as it was told first", psn)
	}
}

// A device that cannot be opened leaves the ring to be opened again; neighbours
// that found the control ring meanwhile do not mind.
func TestOpenAgain(t *testing.T) {
	t.Parallel() // it waits
	servers := freshServers(t, 2)
	neighbour := make(chan error, 1)
	var other *Ring
	go func() {
		var err error
		other, err = Connect(t.Context(), servers, 0, testOptions())
		neighbour <- err
	}()
	o := testOptions()
	o.ByHand, o.Port = true, 9
	r, err := New(servers, 1, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { noErrors(t, each([]*Ring{r, other}, func(r *Ring) error { return r.Close() })) }()
	for range 3 {
		if err := r.Open(t.Context()); !usage.Is(err) || !strings.Contains(textOf(err), "port 9") || r.State() != StateNew || r.Err() != nil {
			t.Errorf("%v: the ring is %s, %v", err, r.State(), r.Err())
		}
		time.Sleep(60 * time.Millisecond) // the neighbour dials again
	}
	r.opts.Port = 1
	upTo(t, []*Ring{r}, StateReady)
	noErrors(t, []error{<-neighbour})
}

// Usable asks both queue pairs; Failed, for poll loops, is one load.
func BenchmarkUsable(b *testing.B) {
	world := connect(b, 1, nil)
	b.ReportAllocs()
	for b.Loop() {
		if err := world[0].Usable(); err != nil {
			b.Fatal(err)
		}
	}
}

// A neighbour that is not there yet leaves the ring open; the exchange is taken
// again when it is.
func TestExchangeTooSoon(t *testing.T) {
	t.Parallel() // it waits
	world := newRings(t, 3, func(_ int, o *Options) { o.ByHand, o.Timeout = true, 4*time.Second })
	early := world[:2]
	noErrors(t, each(early, func(r *Ring) error { return errors.Join(r.Open(t.Context()), r.Init(t.Context(), Values{})) }))
	for i, err := range each(early, func(r *Ring) error { return r.Exchange(t.Context()) }) {
		if text := textOf(err); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(text, "rank 2 (127.") || !strings.Contains(text, "is not running (connection refused)") || strings.Contains(text, "\n") {
			t.Errorf("rank %d: %s: expected one line that says who is missing", i, text)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if err := world[0].Exchange(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v: expected it to be cancelled", err)
	}
	for i, r := range early {
		if s := r.State(); s != StateInitialised || r.Err() != nil {
			t.Errorf("rank %d is %s, %v", i, s, r.Err())
		}
	}
	upTo(t, world, StateRTS)
	noErrors(t, each(world, func(r *Ring) error { _, err := r.Ping(t.Context(), 3); return err }))
}

// A rank whose steps are taken one by one and ranks that connect by themselves
// make one ring.
func TestByHandBesideAutomatic(t *testing.T) {
	t.Parallel() // it waits
	const hand = 1
	servers := freshServers(t, 3)
	world := make([]*Ring, len(servers))
	errs := make([]error, len(servers))
	var wg sync.WaitGroup
	for i := range servers {
		wg.Go(func() {
			o := testOptions()
			if i != hand {
				world[i], errs[i] = Connect(t.Context(), servers, i, o)
				return
			}
			o.ByHand = true
			if world[i], errs[i] = New(servers, i, o); errs[i] != nil {
				return
			}
			for _, step := range handSteps(world[i]) {
				time.Sleep(100 * time.Millisecond) // far longer than a retransmission takes
				if err := step.take(t.Context()); err != nil {
					errs[i] = err
					return
				}
			}
		})
	}
	wg.Wait()
	noErrors(t, errs)
	noErrors(t, each(world, func(r *Ring) error { _, err := r.Ping(t.Context(), 20); return err }))
	for _, r := range world {
		if s := r.State(); s != StateReady {
			t.Errorf("rank %d is %s", r.Rank(), s)
		}
	}
	noErrors(t, each(world, func(r *Ring) error { return r.Close() }))
}

// Who waits for a neighbour in vain says for whom, and in what state it is.
func TestAwaitNeighboursInVain(t *testing.T) {
	t.Parallel() // it waits
	world := newRings(t, 2, func(rank int, o *Options) { o.ByHand, o.Timeout = rank == 1, 2*time.Second })
	upTo(t, world, StateExchanged)
	noErrors(t, []error{world[0].RTR(t.Context(), Values{})})
	err := world[0].AwaitNeighbours(t.Context())
	if text := textOf(err); !strings.Contains(text, "queue pair of rank 1 (127.") || !strings.Contains(text, "is INIT") || !strings.Contains(text, "run rtr there") {
		t.Errorf("%s: expected rank 1's state", text)
	}
	if s := world[0].State(); s != StateFailed {
		t.Errorf("the ring is %s: expected it to have failed", s)
	}
}

func TestRunID(t *testing.T) {
	world := byHand(t, 20) // more than a rank answers questions at once
	if id, err := world[3].Control().RunID(t.Context()); err == nil {
		t.Errorf("%q before the exchange", id)
	}
	upTo(t, world, StateExchanged)
	ids := make([]string, len(world))
	world[0].table.mu.Lock() // it answers only when all have asked
	time.AfterFunc(300*time.Millisecond, world[0].table.mu.Unlock)
	noErrors(t, each(world, func(r *Ring) (err error) { ids[r.Rank()], err = r.Control().RunID(t.Context()); return err }))
	for i, id := range ids {
		if id == "" || id != ids[0] {
			t.Errorf("rank %d has the run %q: expected %q", i, id, ids[0])
		}
	}
	if other := byHand(t, 1)[0]; other.control.runID == ids[0] {
		t.Errorf("two runs with one id %q", ids[0])
	}
}
