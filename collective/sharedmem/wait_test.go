package sharedmem

import (
	"errors"
	"testing"
	"time"
)

// Stop is asked after the spins, soon and again and again, and its error returned.
func TestWaiterAsksStop(t *testing.T) {
	for _, gosched := range []bool{false, true} {
		asked, enough := 0, errors.New("enough")
		w := newWaiter(gosched, false, nil, nil, func() error {
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
			t.Errorf("Gosched %v: %v after %d steps", gosched, err, steps)
		}
	}
}

// The clock runs from the last progress.
func TestWaiterTimesOut(t *testing.T) {
	const timeout = 20 * time.Millisecond
	w := newWaiter(false, false, nil, after(timeout), nil)
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
