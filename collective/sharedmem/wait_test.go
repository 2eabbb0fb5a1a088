package sharedmem

import (
	"errors"
	"testing"
	"time"
)

// Stop is asked after the spins, soon and again and again, and its error returned.
func TestWaiterAsksStop(t *testing.T) {
	for _, policy := range []Policy{Yield, Gosched} {
		asked, enough := 0, errors.New("enough")
		w := newWaiter(policy, nil, 0, func() error {
			if asked++; asked == 3 {
				return enough
			}
			return nil
		})
		steps := 0
		var err error
		for ; err == nil; steps++ {
			err = w.step()
		}
		if !errors.Is(err, enough) || steps > maxSpins+3*yieldsChecked {
			t.Errorf("policy %d: %v after %d steps", policy, err, steps)
		}
	}
}

// The clock runs from the last progress.
func TestWaiterTimesOut(t *testing.T) {
	const timeout = 20 * time.Millisecond
	w := newWaiter(Yield, nil, timeout, nil)
	for begun := time.Now(); time.Since(begun) < 2*timeout; {
		for range maxSpins + 2*yieldsChecked {
			if err := w.step(); err != nil && w.since.After(begun) && time.Since(w.since) < timeout {
				t.Fatal(err)
			}
		}
		w.reset()
	}
	begun := time.Now()
	var err error
	for err == nil {
		err = w.step()
	}
	if !errors.Is(err, ErrTimeout) || time.Since(begun) < timeout {
		t.Errorf("%v after %v", err, time.Since(begun))
	}
}

// What is learned about spins changes none of the steps that a wait has had since.
func TestWaiterLearns(t *testing.T) {
	w := newWaiter(Yield, nil, 0, nil)
	for range 1000 {
		w.idle = w.spins + 1
		w.learn()
		if w.idle != w.spins+1 || w.spins < 0 || w.spins > maxSpins {
			t.Fatalf("%d steps, %d spins", w.idle, w.spins)
		}
	}
}
