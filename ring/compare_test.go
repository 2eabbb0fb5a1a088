package ring

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"ringcli/ring/diagnose"
	"ringcli/verbs"
)

// loud returns the findings that are more than notes.
func loud(found []diagnose.Finding) []string {
	var out []string
	for _, f := range found {
		if f.Severity != diagnose.Note {
			out = append(out, fmt.Sprintf("%s %s at rank %d (%s | %s): %s", f.Severity, f.Attribute, f.Rank, f.Own, f.Peer, f))
		}
	}
	return out
}

// explain puts the likeliest cause into one line, "" if no finding is more than a note.
func explain(found []diagnose.Finding) string {
	if len(found) == 0 || found[0].Severity == diagnose.Note {
		return ""
	}
	return found[0].String()
}

// compareAll compares every edge from both sides.
func compareAll(t *testing.T, world []*Ring, when string) {
	t.Helper()
	for _, r := range world {
		for _, side := range []Side{Left, Right} {
			own, peer, err := r.Ends().Both(t.Context(), side.Edge())
			if err != nil {
				t.Fatalf("%s: rank %d, %s: %v", when, r.Rank(), side, err)
			}
			if own.Peer != peer.Rank || peer.Peer != own.Rank || own.Side == peer.Side {
				t.Fatalf("%s: rank %d, %s: it is facing rank %d, %s", when, r.Rank(), side, peer.Rank, peer.Side)
			}
			if out := loud(diagnose.Compare(&own, &peer)); len(out) > 0 {
				t.Errorf("%s: rank %d, %s: false alarms: %s", when, r.Rank(), side, strings.Join(out, "\n"))
			}
			if out := loud(r.Ends().Diagnose(t.Context(), side.Edge(), nil)); len(out) > 0 {
				t.Errorf("%s: rank %d, %s: false diagnoses: %s", when, r.Rank(), side, strings.Join(out, "\n"))
			}
		}
	}
}

// A healthy ring has notes at most: at each step, idle, after traffic, in the
// middle of it, and again after a reset.
func TestCompareHealthy(t *testing.T) {
	for _, n := range []int{1, 2, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			world := newRings(t, n, func(_ int, o *Options) { // whose retries outlast a machine that is busy otherwise
				o.ByHand, o.Timeout, o.QPTimeout = true, 10*time.Second, new(18)
			})
			for round := range 2 {
				for _, to := range []State{StateInitialised, StateExchanged, StateRTR, StateRTS, StateReady} {
					upTo(t, world, to)
					if round > 0 || to >= StateExchanged { // nobody can be asked before
						compareAll(t, world, fmt.Sprintf("round %d, %s", round, to))
					}
				}
				for i := range 3 {
					noErrors(t, each(world, func(r *Ring) error { _, err := r.Ping(t.Context(), 1+i*7); return err }))
					compareAll(t, world, "after traffic")
				}
				busy(t, world, func() { compareAll(t, world, "in traffic") })
				noErrors(t, each(world, func(r *Ring) error { return r.Reset(t.Context()) }))
			}
		})
	}
}

// busy runs do while all ranks ping.
func busy(t *testing.T, world []*Ring, do func()) {
	t.Helper()
	stop := make(chan struct{})
	done := make(chan []error, 1)
	go func() {
		for {
			errs := each(world, func(r *Ring) error { _, err := r.Ping(context.WithoutCancel(t.Context()), 40); return err })
			select {
			case <-stop:
				done <- errs
				return
			default:
			}
			for _, err := range errs {
				if err != nil {
					done <- errs
					return
				}
			}
		}
	}()
	for range 2 {
		do()
	}
	close(stop)
	noErrors(t, <-done)
}

// While ranks walk at their own pace nothing is a fault, and a warning says only
// that a queue pair is behind.
func TestCompareHealthyOutOfStep(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 5 {
		world := byHand(t, 3)
		upTo(t, world, StateExchanged)
		var order []int
		for rank := range world {
			order = append(order, rank, rank)
		}
		rnd.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, rank := range order {
			step := world[rank].RTR
			if world[rank].State() == StateRTR {
				step = world[rank].RTS
			}
			if err := step(t.Context(), Values{}); err != nil {
				t.Fatal(err)
			}
			for _, r := range world {
				for _, side := range []Side{Left, Right} {
					own, peer, err := r.Ends().Both(t.Context(), side.Edge())
					if err != nil {
						t.Fatal(err)
					}
					for _, f := range diagnose.Compare(&own, &peer) {
						behind := f.Severity == diagnose.Warning && f.Attribute == "qp_state" && f.Rank == map[bool]int{true: own.Rank, false: peer.Rank}[own.QPState.Is(verbs.StateInit)]
						if f.Severity != diagnose.Note && !behind {
							t.Errorf("%v, rank %d: %s and %s: %+v", order, rank, own.QPState, peer.QPState, f)
						}
					}
				}
			}
		}
	}
}
