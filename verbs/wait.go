package verbs

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"time"

	"ringcli/verbs/cpu"
)

// WaitPolicy says what a Waiter does between two empty polls.
type WaitPolicy uint8

const (
	// WaitYield spins briefly, then gives the CPU to other processes with
	// sched_yield, then blocks: for one rank in a process.
	WaitYield WaitPolicy = iota
	// WaitGosched yields to other goroutines, then blocks: for several ranks in
	// one process, where sched_yield would hold up the goroutines that are to
	// make progress.
	WaitGosched
	// WaitBlock blocks at once: for those who would rather save CPU than time.
	WaitBlock
)

func (p WaitPolicy) String() string {
	return name(uint32(p), "wait policy", "yield", "gosched", "block")
}

const (
	// defaultSpins: the most empty polls before the first yield. A poll of soft is a
	// system call of 0.4 us, so this is some 25 us, about what a wake-up costs.
	defaultSpins = 64
	// waitYields before blocking: ten milliseconds and more, longer than pauses
	// within a running operation. It is no shorter where ranks outnumber CPUs: with 8 bytes
	// on two CPUs over soft:lo 16 ranks made 254 switches an operation, of which 64 were
	// messages, and fewer with a ppoll instead of the first, second or fourth yield, but 8
	// ranks took 1.4 to 2.1 times as long, and 16 ranks 1.2 to 1.6: a wake-up costs more than
	// turns in which others find nothing. What cost most there were the threads beside those
	// that poll: see objects.Background.
	waitYields = 20000
	// waitBlock is the longest single block, so that a caller who checks for
	// cancellation between waits sees it soon.
	waitBlock = 10 * time.Millisecond
)

// Waiter waits between polls of one completion queue: in Poll, or for several queues with
// Reset after a poll that found something, and Wait after one that did not. It belongs to one
// goroutine.
//
// CQ must have been created with Channel. Without a channel it sleeps where it
// would block: for several queues.
type Waiter struct {
	CQ      CQ
	Channel CompChannel
	Policy  WaitPolicy
	// MaxSpins is the most empty polls before the first yield (DeviceAttr).
	MaxSpins int
	// Affinity is where the thread comes back to when it yields.
	Affinity *cpu.Affinity
	spin     cpu.Spin
	armed    bool
}

// Reset starts over after a successful poll.
func (w *Waiter) Reset() { w.spin.Reset() }

// Poll waits for completions and returns how many there are, at least one. It calls overdue
// after so many empty polls, since the clock costs more than a poll; an error of overdue ends
// the wait.
func (w *Waiter) Poll(wc []Completion, every int, overdue func() error) (int, error) {
	for polls := 1; ; polls++ {
		n, err := w.CQ.Poll(wc)
		if err != nil {
			return 0, fmt.Errorf("poll the completion queue: %w", err)
		}
		if n > 0 {
			w.Reset()
			return n, nil
		}
		if polls%every == 0 {
			if err := overdue(); err != nil {
				return 0, err
			}
		}
		if err := w.Wait(); err != nil {
			return 0, fmt.Errorf("wait for a completion: %w", err)
		}
	}
}

// Wait gives the CPU away for a moment, the longer the more often it was called
// since Reset, and never for more than 10 ms. The caller checks its deadline and
// its cancellation before it polls again.
func (w *Waiter) Wait() error {
	yields := w.spin.Next() // of all polls, where none is a spin
	switch {
	case w.Policy == WaitYield && yields <= 0:
		return nil
	case w.Policy == WaitYield && yields <= waitYields:
		w.spin.Max, w.spin.Affinity = cmp.Or(w.MaxSpins, defaultSpins), w.Affinity
		w.spin.Yield()
		return nil
	case w.Policy == WaitGosched && yields <= waitYields:
		runtime.Gosched()
		return nil
	case w.Channel == nil:
		time.Sleep(50 * time.Microsecond)
		return nil
	case !w.armed:
		// The caller polls once more after arming, as the verbs demand.
		w.armed = true
		return w.CQ.ReqNotify(false)
	}
	_, err := w.Channel.GetEvent(waitBlock)
	if errors.Is(err, ErrTimeout) {
		return nil
	}
	w.armed = false
	return err
}
