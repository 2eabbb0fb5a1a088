package cpu

import (
	"runtime"
	"slices"
	"testing"
	"time"
)

// onThread runs a test on a thread of its own, which ends with it: it is bound.
func onThread(t *testing.T, test func(all []int)) {
	t.Helper()
	all, err := Allowed()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 2 {
		t.Skipf("CPUs %v: a seat needs two", all)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		test(all)
	}()
	<-done
}

func TestNewSeat(t *testing.T) {
	onThread(t, func(all []int) {
		n := len(all)
		if s := NewSeat(0, n-1); s != nil {
			t.Errorf("a seat on CPU %d for %d ranks on CPUs %v", s.CPU(), n-1, all)
		}
		for index := range 2*n + 1 {
			if s := NewSeat(index, 2*n+1); s == nil || s.CPU() != all[index%n] {
				t.Errorf("rank %d of %d on CPUs %v: %+v", index, 2*n+1, all, s)
			}
		}
		if err := Pin(all[0]); err != nil {
			t.Error(err)
		}
		if s := NewSeat(0, 2*n); s != nil {
			t.Error("a seat for a thread that is bound")
		}
	})
}

// A thread comes back, and may go where it might before; one that somebody has bound
// elsewhere stays there.
func TestSeatKeep(t *testing.T) {
	var none *Seat
	none.Keep(time.Now())
	onThread(t, func(all []int) {
		s := NewSeat(0, len(all))
		now := time.Now()
		keep := func() int {
			now = now.Add(keepEvery)
			s.Keep(now)
			at, err := current()
			if err != nil {
				t.Error(err)
			}
			return at
		}
		came := 0
		for range 20 {
			if keep() == s.CPU() { // the kernel may move it at any time
				came++
			}
		}
		if came == 0 {
			t.Errorf("it never was on CPU %d", s.CPU())
		}
		if after, err := Allowed(); err != nil || !slices.Equal(all, after) {
			t.Errorf("CPUs %v before, %v after, %v", all, after, err)
		}
		if err := Pin(all[1]); err != nil {
			t.Error(err)
		}
		if at := keep(); at != all[1] {
			t.Errorf("bound to CPU %d, it is on %d", all[1], at)
		}
	})
}

func TestSeatIsKeptNowAndThen(t *testing.T) {
	s := &Seat{made: time.Now()}
	s.Keep(s.made)
	s.Keep(s.made.Add(keepEvery - 1))
	if s.kept.Load() != 0 {
		t.Error("looked at too soon")
	}
	s.Keep(s.made.Add(keepEvery))
	if s.kept.Load() != int64(keepEvery) {
		t.Error("not looked at in time")
	}
}
