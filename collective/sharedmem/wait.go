package sharedmem

import (
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"ringcli/verbs/cpu"
)

// Policy is what a rank does while it waits for others.
type Policy uint8

const (
	// Yield spins briefly, then gives the CPU to other processes with sched_yield:
	// for one rank in a process.
	Yield Policy = iota
	// Gosched yields to other goroutines: for several ranks in one process, where
	// sched_yield would hold up the goroutines that are to make progress.
	Gosched
)

const (
	// maxSpins polls come before the first yield: 5 to 10 us, some ten times what a
	// yield costs that finds nobody else.
	maxSpins = 300
	// yieldsChecked: stop and deadline are looked at once in so many yields, of
	// which one takes 0.3 to 2 us.
	yieldsChecked = 8
	// A sched_yield that takes crowdedTimes as long as the quickest, or crowded, let
	// somebody run: where nobody wants the CPU it takes 0.3 to 1 us, which changes with
	// what shares the core, and from 2 us on where somebody does.
	crowded      = 1600 * time.Nanosecond
	crowdedTimes = 4
	// yieldsTimed: one wait in so many that come to a yield times it.
	yieldsTimed = 16
	// patience is how long a rank yields before it sleeps, first for minSleep, in
	// the end for maxSleep at a time.
	patience           = 10 * time.Millisecond
	minSleep, maxSleep = 20 * time.Microsecond, time.Millisecond
)

// waiter waits between two looks at a peer's memory: step after each look that
// found nothing new, reset after one that did. It belongs to one goroutine.
type waiter struct {
	policy  Policy
	seat    *cpu.Seat
	timeout time.Duration
	stop    func() error // may be nil

	idle int // steps since reset
	// spins is how many looks come before the first yield: fewer each time that a
	// yield shows that ranks outnumber CPUs, where a spin only keeps the rank that
	// is waited for from running; more each time that it does not.
	spins int
	waits int           // that came to a yield
	quick time.Duration // the quickest yield that was timed
	since time.Time     // the first look at the clock since reset
	sleep time.Duration
}

func newWaiter(policy Policy, seat *cpu.Seat, timeout time.Duration, stop func() error) waiter {
	w := waiter{policy: policy, seat: seat, timeout: timeout, stop: stop, spins: maxSpins, quick: crowded}
	if policy == Gosched {
		w.spins = 1
	}
	return w
}

func (w *waiter) reset() {
	if w.idle > w.spins {
		w.since, w.sleep = time.Time{}, minSleep
	}
	w.idle = 0
}

// step waits for a moment, the longer the more often it was called since reset.
// It returns stop's error or ErrTimeout.
func (w *waiter) step() error {
	w.idle++
	if w.idle <= w.spins {
		pause()
		return nil
	}
	return w.yield()
}

func (w *waiter) yield() error {
	yields := w.idle - w.spins
	if yields%yieldsChecked == 0 {
		if err := w.check(); err != nil {
			return err
		}
	}
	switch {
	case w.policy == Gosched:
		runtime.Gosched()
	case yields == 1:
		w.waits++
		if w.waits%yieldsTimed == 1 {
			w.learn()
			return nil
		}
		fallthrough
	default:
		_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	}
	return nil
}

// learn yields with an eye on the clock.
func (w *waiter) learn() {
	begun := time.Now()
	w.seat.Keep(begun)
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	took, before := time.Since(begun), w.spins
	w.quick = min(w.quick, took)
	if took > min(crowdedTimes*w.quick, crowded) {
		w.spins /= 2
	} else {
		w.spins = min(2*w.spins+1, maxSpins)
	}
	w.idle += w.spins - before
}

// stopped asks stop.
func (w *waiter) stopped() error {
	if w.stop == nil {
		return nil
	}
	return w.stop()
}

// check looks at what may end the wait, and sleeps if it has been long.
func (w *waiter) check() error {
	if err := w.stopped(); err != nil {
		return err
	}
	now := time.Now()
	if w.since.IsZero() {
		w.since, w.sleep = now, minSleep
		return nil
	}
	waited := now.Sub(w.since)
	if w.timeout > 0 && waited > w.timeout {
		return fmt.Errorf("%w for %v", ErrTimeout, w.timeout)
	}
	if waited > patience {
		time.Sleep(w.sleep)
		w.sleep = min(2*w.sleep, maxSleep)
	}
	return nil
}
