package soft

import "time"

const (
	// watchTick is how often the background goroutine looks whether somebody
	// polls. An ACK that is owed to a peer waits for this long at most after
	// the last poll, as one does for ackLongest at most while somebody polls: far
	// less than the shortest sensible retransmission timer.
	watchTick = 2 * time.Millisecond
	// pollEvery is how often somebody who polls does so at least. Someone who
	// blocks between polls comes far less often: once in 10 ms (verbs.Waiter).
	pollEvery = 500 * time.Microsecond
	// emptyBeforeSleep is how many times in a row the socket is found empty
	// before the goroutine sleeps on it: some 20 us, about what a wake-up costs.
	emptyBeforeSleep = 50
	// longestSleep bounds a wait without a timer; nothing depends on it.
	longestSleep = time.Minute
)

// takeOver ends the watching at once: the caller blocks instead of polling.
func (e *endpoint) takeOver() {
	select {
	case e.kick <- struct{}{}:
	default:
	}
}

// background makes progress while nobody polls. It ends with the endpoint.
func (e *endpoint) background() {
	defer close(e.done)
	tick := time.NewTimer(watchTick)
	defer tick.Stop()
	for {
		before := e.polls.Load()
		tick.Reset(watchTick)
		select {
		case <-e.stop:
			return
		case <-e.kick:
		case <-tick.C:
			if polled(e.polls.Load()-before, watchTick) {
				continue
			}
		}
		for !e.stopping() && e.sleepAndProgress() {
		}
	}
}

// stopping reports whether the endpoint is being released. Looked at before each
// sleep it is enough: stop is closed before the Wake that ends a sleep.
func (e *endpoint) stopping() bool {
	select {
	case <-e.stop:
		return true
	default:
		return false
	}
}

// sleepAndProgress makes progress until there is nothing to do, sleeps until a
// packet comes or a timer runs out, and reports whether to go on.
func (e *endpoint) sleepAndProgress() bool {
	var now int64
	var sleep time.Duration
	for empty := 0; empty < emptyBeforeSleep; empty++ {
		e.mu.Lock()
		now = clock()
		if e.progress(now) {
			empty = 0
		}
		if len(e.dirty) > 0 {
			e.send(now, true) // owed ACKs are due: nobody may come for the completions
		}
		sleep = longestSleep
		if e.deadline != 0 {
			sleep = min(sleep, time.Duration(max(0, e.deadline-now)))
		}
		e.waiting = now + int64(sleep)
		e.mu.Unlock()
	}
	before := e.polls.Load()
	_, err := e.conn.Wait(sleep)
	slept := time.Duration(clock() - now)

	e.mu.Lock()
	e.waiting = 0
	e.mu.Unlock()
	return err == nil && !polled(e.polls.Load()-before, slept)
}

// polled tells whether so many polls in a time mean that somebody polls.
func polled(polls uint64, in time.Duration) bool {
	return time.Duration(polls)*pollEvery >= max(in, 1)
}
