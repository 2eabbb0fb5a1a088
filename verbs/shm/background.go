package shm

import (
	"sync/atomic"
	"time"

	"ringcli/verbs/objects"
	"ringcli/verbs/shm/memfd"
)

// idleBeforeSleep is how many rounds in a row find nothing before the goroutine sleeps:
// some microseconds, since a wake-up costs tens.
const idleBeforeSleep = 100

// sleepAndProgress makes progress until there is nothing to do, sleeps until there
// is, and reports whether to go on.
func (c *Context) sleepAndProgress() bool {
	for idle := 0; idle < idleBeforeSleep; idle++ {
		if c.progressAll() {
			idle = 0
		}
	}
	before, begun := c.background.Polls(), objects.Clock()
	// A request that is posted from here on sees the flag, or is seen.
	bell := atomic.LoadUint32(c.own.doorbell)
	atomic.StoreUint32(c.own.sleeping, 1)
	if c.progressAll() || c.background.Stopping() {
		atomic.StoreUint32(c.own.sleeping, 0)
		return true
	}
	_ = memfd.Wait(c.own.doorbell, bell, c.untilDue())
	atomic.StoreUint32(c.own.sleeping, 0)
	return !c.background.PolledSince(before, time.Duration(objects.Clock()-begun))
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
	sleep := objects.LongestSleep
	now := objects.Clock()
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
	if q.peer != nil {
		worked = q.serve()
		worked = q.reap() || worked
		if q.pump() {
			q.peer.dir.wake()
			worked = true
		}
		if q.owed && (flush || !worked || q.served-q.acknowledged >= answerEvery) {
			q.acknowledge()
		}
		if !q.paired && !q.bound && !q.looking {
			q.lookAgain()
		}
	}
	q.expire()
	return worked
}
