package soft

import (
	"time"

	"ringcli/verbs/objects"
)

// emptyBeforeSleep is how many times in a row the socket is found empty before the
// goroutine sleeps on it: some 20 us, about what a wake-up costs.
const emptyBeforeSleep = 50

// sleepAndProgress makes progress until there is nothing to do, sleeps until a
// packet comes or a timer runs out, and reports whether to go on.
func (e *endpoint) sleepAndProgress() bool {
	var now int64
	var sleep time.Duration
	for empty := 0; empty < emptyBeforeSleep; empty++ {
		e.mu.Lock()
		now = objects.Clock()
		if e.progress(now) {
			empty = 0
		}
		if len(e.dirty) > 0 {
			e.send(now, true) // owed ACKs are due: nobody may come for the completions
		}
		sleep = objects.LongestSleep
		if e.deadline != 0 {
			sleep = min(sleep, time.Duration(max(0, e.deadline-now)))
		}
		e.waiting = now + int64(sleep)
		e.mu.Unlock()
	}
	before := e.background.Polls()
	_, err := e.conn.Wait(sleep)
	slept := time.Duration(objects.Clock() - now)

	e.mu.Lock()
	e.waiting = 0
	e.mu.Unlock()
	return err == nil && !e.background.PolledSince(before, slept)
}
