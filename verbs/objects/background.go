package objects

import (
	"sync/atomic"
	"time"
)

const (
	// WatchTick is how often the goroutine looks whether somebody polls: what a peer
	// waits for (an ACK, an answer) waits for this long at most after the last poll,
	// far less than the shortest sensible retransmission timer.
	WatchTick = 2 * time.Millisecond
	// longestWatch is what the tick grows to while somebody polls: a timer that wakes a thread
	// takes 10 to 20 us of the CPU that ranks wait for, and there may be a hundred of them.
	longestWatch = 4 * WatchTick
	// pollEvery is how often a caller that polls does so at least, where it has a CPU. One
	// that blocks between polls comes far less often: once in 10 ms (verbs.Waiter).
	pollEvery = 500 * time.Microsecond
	// LongestSleep bounds a wait without a timer; nothing depends on it.
	LongestSleep = time.Minute
)

// Background is the goroutine that makes progress while nobody polls.
type Background struct {
	polls atomic.Uint64
	kick  chan struct{} // capacity 1: ends the watching
	stop  chan struct{} // closed by Stop
	done  chan struct{} // closed when the goroutine has ended
}

// Start starts it. sleepAndProgress makes progress until there is nothing to do,
// sleeps until there is, and reports whether to go on.
func (b *Background) Start(sleepAndProgress func() bool) {
	b.kick, b.stop, b.done = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	go b.run(sleepAndProgress)
}

func (b *Background) run(sleepAndProgress func() bool) {
	defer close(b.done)
	watch := WatchTick
	tick := time.NewTimer(watch)
	defer tick.Stop()
	for {
		before := b.Polls()
		tick.Reset(watch)
		select {
		case <-b.stop:
			return
		case <-b.kick:
		case <-tick.C:
			// Once is enough: who waits for a CPU among others polls when it has it, and
			// whoever made progress here meanwhile would only keep them from it. With eight
			// ranks to a CPU over soft:lo a rank had fewer than four turns in a tick, was
			// taken over for three times in four operations of 8 bytes, and each time looked
			// at the socket fifty times; the runtime's monitor, which sees a thread return
			// from ppoll, then woke up every 20 us for a millisecond. Together that was half
			// of an operation's 1.5 ms.
			if b.Polls() != before {
				watch = min(2*watch, longestWatch)
				continue
			}
		}
		watch = WatchTick
		for !b.Stopping() && sleepAndProgress() {
		}
	}
}

// Polled says that somebody polls.
func (b *Background) Polled() { b.polls.Add(1) }

// Polls is how often somebody has polled.
func (b *Background) Polls() uint64 { return b.polls.Load() }

// PolledSince reports whether somebody polls: as often as that since there were so
// many polls, a time ago.
func (b *Background) PolledSince(before uint64, ago time.Duration) bool {
	return time.Duration(b.polls.Load()-before)*pollEvery >= max(ago, 1)
}

// TakeOver ends the watching at once: the caller blocks instead of polling.
func (b *Background) TakeOver() {
	select {
	case b.kick <- struct{}{}:
	default:
	}
}

// Stopping reports whether Stop was called. Looked at before each sleep it is enough:
// Stop ends a sleep after it has said so.
func (b *Background) Stopping() bool {
	select {
	case <-b.stop:
		return true
	default:
		return false
	}
}

// Stop ends the goroutine, which wake wakes.
func (b *Background) Stop(wake func()) {
	close(b.stop)
	wake()
	<-b.done
}

var epoch = time.Now()

// Clock is the time that timers run by: nanoseconds, monotonic, never 0.
func Clock() int64 { return int64(time.Since(epoch)) + 1 }
