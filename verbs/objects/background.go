package objects

import (
	"sync/atomic"
	"time"
)

const (
	// watchTick is how often the goroutine looks whether somebody polls.
	watchTick = 2 * time.Millisecond
	// longestWatch is what the tick grows to while somebody polls: a timer that wakes a thread
	// takes 10 to 20 us of the CPU that ranks wait for, and there may be a hundred of them.
	// What a peer waits for (an ACK, an answer) waits for twice this at most after the last
	// poll, far less than the shortest sensible retransmission timer.
	longestWatch = 4 * watchTick
	// PollEvery is how often who polls does so at least, for the goroutine to leave it to them.
	// One that blocks between polls comes less often: once in 10 ms (verbs.Waiter).
	PollEvery = 4 * time.Millisecond
	// quietTicks without enough polls come before the goroutine takes over. In each it makes
	// progress.
	quietTicks = 4
	// LongestUntilTakeOver bounds how long after the last poll the goroutine takes over.
	LongestUntilTakeOver = 2*longestWatch + quietTicks*watchTick
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

// Start starts it. progress makes progress. sleepAndProgress does so until there is nothing to
// do, sleeps until there is, and reports whether to go on: until somebody polls.
func (b *Background) Start(progress func(), sleepAndProgress func() bool) {
	b.kick, b.stop, b.done = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	go b.run(progress, sleepAndProgress)
}

// run leaves it to who polls, also to one that does so seldom: who waits for a CPU among
// others polls when it has it, and whoever made progress here meanwhile would only keep them
// from it. To take over is fifty looks at the socket, a ppoll, and the runtime's monitor,
// which sees a thread return from that and wakes up every 20 us for a millisecond. With 16
// ranks to a CPU over soft:lo that left ranks no turn within a tick, so that the next took
// over: an operation of 8 bytes took 10 to 40 ms, where three fifths of the CPUs' time
// went to threads beside those that poll, and takes 2 to 3.
//
// A poll now and then is not enough. Linux lets threads that yield wait for those that do not:
// with 64 ranks to a CPU that touched their memory for the first time, peers ran out of retries
// where one poll in a tick was enough.
func (b *Background) run(progress func(), sleepAndProgress func() bool) {
	defer close(b.done)
	watch, quiet := watchTick, 0
	tick := time.NewTimer(watch)
	defer tick.Stop()
	for {
		before, begun := b.Polls(), time.Now()
		tick.Reset(watch)
		select {
		case <-b.stop:
			return
		case <-b.kick:
		case <-tick.C:
			if b.PolledSince(before, time.Since(begun)) { // which is longer than the tick without a CPU
				watch, quiet = min(2*watch, longestWatch), 0
				continue
			}
			if quiet < quietTicks {
				watch, quiet = watchTick, quiet+1
				progress()
				continue
			}
		}
		watch, quiet = watchTick, 0
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
	return time.Duration(b.polls.Load()-before)*PollEvery >= max(ago, 1)
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
