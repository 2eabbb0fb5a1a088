package cpu

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// onThread runs a test on a thread of its own, which ends with it: it is bound.
func onThread(t *testing.T, test func(all []int)) {
	t.Helper()
	all, err := Allowed()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 2 {
		t.Skipf("CPUs %v: an affinity needs two", all)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		test(all)
	}()
	<-done
}

// bind binds the thread to one CPU.
func bind(t *testing.T, cpu int) {
	t.Helper()
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		t.Error(err)
	}
}

func TestNewAffinity(t *testing.T) {
	onThread(t, func(all []int) {
		n := len(all)
		if s := NewAffinity(0, n-1); s != nil {
			t.Errorf("an affinity on CPU %d for %d ranks on CPUs %v", s.CPU(), n-1, all)
		}
		for index := range 2*n + 1 {
			if s := NewAffinity(index, 2*n+1); s == nil || s.CPU() != all[index%n] {
				t.Errorf("rank %d of %d on CPUs %v: %+v", index, 2*n+1, all, s)
			}
		}
		bind(t, all[0])
		if s := NewAffinity(0, 2*n); s != nil {
			t.Error("an affinity for a thread that is bound")
		}
	})
}

// A thread comes back, and may go where it might before; one that somebody has bound
// elsewhere stays there.
func TestAffinityKeep(t *testing.T) {
	var none *Affinity
	none.Restore(time.Now())
	onThread(t, func(all []int) {
		s := NewAffinity(0, len(all))
		now := time.Now()
		keep := func() int {
			now = now.Add(restoreEvery)
			s.Restore(now)
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
		bind(t, all[1])
		if at := keep(); at != all[1] {
			t.Errorf("bound to CPU %d, it is on %d", all[1], at)
		}
	})
}

func TestAffinityIsKeptNowAndThen(t *testing.T) {
	s := &Affinity{made: time.Now()}
	s.Restore(s.made)
	s.Restore(s.made.Add(restoreEvery - 1))
	if s.kept.Load() != 0 {
		t.Error("looked at too soon")
	}
	s.Restore(s.made.Add(restoreEvery))
	if s.kept.Load() != int64(restoreEvery) {
		t.Error("not looked at in time")
	}
}
