package sharedmem

import (
	"fmt"
	"runtime"
	"time"

	"ringcli/collective/lateness"
	"ringcli/trace"
	"ringcli/verbs/cpu"
)

// Where ranks outnumber CPUs whoever has nothing to do yields at once, and goes on to yield. With
// 16 ranks on two CPUs a round takes one turn and a quarter of them all, and a turn is 8 switches
// of a CPU from process to process, of some 4.5 us with all that comes with one (finish_task_switch
// alone is a quarter). All else was measured to be slower: ranks that sleep at one futex, where the
// last to come wakes the others, take 220 us and not 45 for 8 bytes, 54 if they yield once before
// they sleep, 48 after four times; on a busy machine, where a yield may cost a slice of another
// program, they were no quicker.
const (
	// maxSpins polls come before the first yield: 5 to 10 us, some ten times what a
	// yield costs that finds nobody else.
	maxSpins = 300
	// yieldsChecked: stop and deadline are looked at once in so many yields, of
	// which one takes 0.3 to 2 us.
	yieldsChecked = 8
	// patience is how long a rank yields before it sleeps, first for minSleep, in
	// the end for maxSleep at a time.
	patience           = 10 * time.Millisecond
	minSleep, maxSleep = 20 * time.Microsecond, time.Millisecond
	// longWait is when people may want to know.
	longWait = 500 * time.Millisecond
	// Asleep is how long a process that waits gets no CPU only if it was stopped.
	Asleep = time.Second
)

// waiter waits between two looks at a peer's memory: step after each look that
// found nothing new, reset after one that did. It belongs to one goroutine.
type waiter struct {
	spin    cpu.Spin
	gosched bool
	timeout func() time.Duration // nil is never
	stop    func() error         // may be nil

	long func(since time.Time) error // called while a wait lasts long; may be nil

	since  time.Time // the first look at the clock since reset
	looked time.Time // the last
	sleep  time.Duration
	still  time.Duration // of it: this process did not run

	counter *lateness.Counter

	looks, waitsAfter int // in a row that found nothing; and how many are a wait
	timeline          timeline
}

func newWaiter(gosched, crowded bool, affinity *cpu.Affinity, timeout func() time.Duration, stop func() error) waiter {
	most := maxSpins
	switch {
	case crowded: // who is waited for may wait for this CPU
		most = 0
	case gosched:
		most = 1
	}
	return waiter{spin: cpu.NewSpin(most, true, affinity), gosched: gosched, timeout: timeout, stop: stop, counter: new(lateness.Counter)}
}

func (w *waiter) reset() {
	if w.looks != 0 {
		w.resume()
	}
	if w.spin.Yielding() {
		if !w.since.IsZero() {
			w.waited()
		}
		w.since, w.sleep = time.Time{}, minSleep
	}
	w.spin.Reset()
}

// waited ends a wait that was long enough to look at the clock.
func (w *waiter) waited() {
	now := time.Now()
	w.still += w.counter.Still(now.Sub(w.looked))
	w.counter.Waited(int64(now.Sub(w.since) - w.still))
	w.still = 0
}

// resume begins a stretch of work.
func (w *waiter) resume() {
	if w.looks >= w.waitsAfter && w.timeline.records() {
		w.timeline.work = trace.Now()
	}
	w.looks = 0
}

// step waits for a moment, the longer the more often it was called since reset.
// It returns stop's error or ErrTimeout.
func (w *waiter) step() error {
	if w.looks++; w.looks == w.waitsAfter && w.timeline.work != 0 {
		w.timeline.endWork(trace.Now())
	}
	yields := w.spin.Next()
	if yields <= 0 {
		pause()
		return nil
	}
	return w.yield(yields)
}

func (w *waiter) yield(yields int) error {
	if yields%yieldsChecked == 0 {
		if err := w.check(); err != nil {
			return err
		}
	}
	if w.gosched {
		runtime.Gosched()
	} else {
		w.spin.Yield()
	}
	return nil
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
		w.since, w.looked, w.sleep = now, now, minSleep
		return nil
	}
	looked := now.Sub(w.looked)
	still := w.counter.Still(looked)
	if looked > Asleep {
		w.since = w.since.Add(looked) // this process was stopped, and others had no time meanwhile
	} else {
		w.still += still
	}
	w.looked = now
	waited := now.Sub(w.since)
	if w.timeout != nil && waited > w.timeout() {
		return fmt.Errorf("%w for %v", ErrTimeout, w.timeout())
	}
	if waited > patience {
		if w.long != nil && waited > longWait {
			if err := w.long(w.since); err != nil {
				return err
			}
		}
		time.Sleep(w.sleep)
		w.sleep = min(2*w.sleep, maxSleep)
	}
	return nil
}
