package shm

import (
	"sync/atomic"
	"time"

	"ringcli/verbs"
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
// anything. flush is set if nobody may come again soon. While the goroutine sleeps, what is
// owed is answered at once: nothing would wake it for that. The lock is held, which the
// goroutine takes once more after it has said that it sleeps.
func (q *qp) progress(flush bool) (worked bool) {
	if q.conn.peer != nil {
		worked = q.responder.serve()
		q.settle()
		worked = q.requester.reap() || worked
		q.settle()
		if q.requester.pump() {
			q.conn.peer.dir.wake()
			worked = true
		}
		q.settle()
		if r := &q.responder; r.owed && (flush || !worked || r.served-r.acknowledged >= answerEvery || atomic.LoadUint32(q.ctx.own.sleeping) != 0) {
			q.responder.acknowledge()
		}
		if !q.requester.paired && !q.responder.bound && !q.looking {
			q.lookAgain()
		}
	}
	q.expire()
	return worked
}

// expire runs the timers, and notes when progress is due though nobody wakes us.
func (q *qp) expire() {
	if q.requester.sqHead != q.requester.sqTail && q.conn.state == verbs.StateRTS {
		q.giveUp()
	} else {
		q.requester.timer, q.requester.rnrUntil = 0, 0
	}
	due := q.requester.timer
	for _, at := range [...]int64{q.requester.rnrUntil, q.conn.doubtful} {
		if at != 0 && (due == 0 || at < due) {
			due = at
		}
	}
	if due != q.deadline.Load() {
		q.deadline.Store(due)
		q.ctx.own.wake() // it may sleep for longer
	}
}

// giveUp runs the timer of a peer that does not answer.
func (q *qp) giveUp() {
	r := &q.requester
	answered := q.answered()
	timeout := verbs.AckTimeout(q.conn.attr.Timeout)
	switch {
	case timeout == 0, answered && q.conn.peer != nil:
		r.timer = 0
	case r.timer == 0:
		r.timer, r.looked = objects.Clock()+int64(timeout)*int64(q.conn.attr.RetryCnt+1), q.looks.Load()
		select {
		case q.look <- struct{}{}: // has the peer looked for, if it is not there
		default:
		}
	case objects.Clock() < r.timer:
	case answered:
		r.timer = objects.Clock() + int64(timeout)
	default:
		q.requester.fail(verbs.RetryExceeded)
		q.settle()
	}
}

// answered reports whether a NIC in the peer's place would answer. While it has not
// been looked for since the timer began, that is not known.
func (q *qp) answered() bool {
	if p := q.conn.peer; p != nil {
		return !p.process.Gone() && p.accepts(&q.conn) && !q.requester.ahead()
	}
	return q.requester.timer != 0 && q.looks.Load() == q.requester.looked
}
