package soft

import "time"

const (
	// watchTick is how often the background goroutine looks whether somebody
	// polls. An ACK that is owed to a peer waits for this long at most after
	// the last poll: far less than the shortest sensible retransmission timer.
	watchTick = 2 * time.Millisecond
	// polledOften is how many polls within a tick, or while the goroutine slept,
	// mean that somebody polls. Someone who polls between blocking waits makes
	// one or two.
	polledOften = 4
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
			if e.polls.Load()-before >= polledOften {
				continue
			}
		}
		for e.sleepAndProgress() {
			select {
			case <-e.stop:
				return
			default:
			}
		}
	}
}

// sleepAndProgress makes progress until there is nothing to do, sleeps until a
// packet comes or a timer runs out, and reports whether to go on.
func (e *endpoint) sleepAndProgress() bool {
	e.mu.Lock()
	now := clock()
	e.progress(now)
	if len(e.dirty) > 0 {
		e.send(now, true) // owed ACKs are due: nobody may come for the completions
	}
	sleep := longestSleep
	if e.deadline != 0 {
		sleep = min(sleep, time.Duration(max(0, e.deadline-now)))
	}
	e.waiting = now + int64(sleep)
	e.mu.Unlock()

	before := e.polls.Load()
	_, err := e.conn.Wait(sleep)

	e.mu.Lock()
	e.waiting = 0
	e.mu.Unlock()
	return err == nil && e.polls.Load()-before < polledOften
}
