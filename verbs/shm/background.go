package shm

import (
	"sync/atomic"
	"time"

	"ringcli/verbs/shm/arena"
)

const (
	// watchTick is how often the goroutine looks whether somebody polls. A request
	// of a peer waits for this long at most after the last poll.
	watchTick = 2 * time.Millisecond
	// pollEvery is how often somebody who polls does so at least. Someone who
	// blocks between polls comes far less often: once in 10 ms (verbs.Waiter).
	pollEvery = 500 * time.Microsecond
	// idleBeforeSleep is how many rounds in a row find nothing before the goroutine
	// sleeps: some microseconds, since a wake-up costs tens.
	idleBeforeSleep = 100
	// longestSleep bounds a wait without a timer; nothing depends on it.
	longestSleep = time.Minute
)

var epoch = time.Now()

// clock is the time that timers run by: nanoseconds, monotonic, never 0.
func clock() int64 { return int64(time.Since(epoch)) + 1 }

// TakeOver implements objects.Owner: the goroutine stops watching and takes part.
func (c *Context) TakeOver() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// background makes progress while nobody polls. It ends with the Context.
func (c *Context) background() {
	defer close(c.done)
	tick := time.NewTimer(watchTick)
	defer tick.Stop()
	for {
		before := c.polls.Load()
		tick.Reset(watchTick)
		select {
		case <-c.stop:
			return
		case <-c.kick:
		case <-tick.C:
			if polled(c.polls.Load()-before, watchTick) {
				continue
			}
		}
		for !c.stopping() && c.sleepAndProgress() {
		}
	}
}

// stopping reports whether the Context is being closed: looked at before each
// sleep, because Close rings the bell after it says so.
func (c *Context) stopping() bool {
	select {
	case <-c.stop:
		return true
	default:
		return false
	}
}

// polled tells whether so many polls in a time mean that somebody polls.
func polled(polls uint64, in time.Duration) bool {
	return time.Duration(polls)*pollEvery >= max(in, 1)
}

// sleepAndProgress makes progress until there is nothing to do, sleeps until there
// is, and reports whether to go on.
func (c *Context) sleepAndProgress() bool {
	for idle := 0; idle < idleBeforeSleep; idle++ {
		if c.progressAll() {
			idle = 0
		}
	}
	before, begun := c.polls.Load(), clock()
	// Whoever posts from here on sees the flag, or is seen.
	bell := atomic.LoadUint32(c.own.bell)
	atomic.StoreUint32(c.own.sleeping, 1)
	if c.progressAll() || c.stopping() {
		atomic.StoreUint32(c.own.sleeping, 0)
		return true
	}
	_ = arena.Wait(c.own.bell, bell, c.untilDue())
	atomic.StoreUint32(c.own.sleeping, 0)
	return !polled(c.polls.Load()-before, time.Duration(clock()-begun))
}

// progressAll makes a round of progress that leaves nothing unanswered.
func (c *Context) progressAll() (worked bool) {
	for _, q := range *c.qps.Load() {
		q.mu.Lock()
		worked = q.progress(true) || worked
		q.mu.Unlock()
	}
	return worked
}

// untilDue is how long it is until the first timer.
func (c *Context) untilDue() time.Duration {
	sleep := longestSleep
	now := clock()
	for _, q := range *c.qps.Load() {
		if due := q.deadline.Load(); due != 0 {
			sleep = min(sleep, time.Duration(max(0, due-now)))
		}
	}
	return sleep
}

// progress executes, reaps and sends what there is, and reports whether there was
// anything. flush is set if nobody may come again soon. The lock is held.
func (q *qp) progress(flush bool) (worked bool) {
	if q.link != nil {
		worked = q.serve()
		worked = q.reap() || worked
		if q.pump() {
			q.link.dir.wake()
			worked = true
		}
		if q.owed && (flush || !worked || q.served-q.told >= answerEvery) {
			q.settle()
		}
		if !q.paired && !q.facing && !q.looking {
			q.lookAgain()
		}
	}
	q.expire()
	return worked
}
