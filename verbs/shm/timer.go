package shm

import (
	"ringcli/verbs"
	"ringcli/verbs/objects"
)

// expire runs the timers, and notes when progress is due though nobody wakes us.
func (q *qp) expire() {
	if q.sqHead != q.sqTail && q.state == verbs.StateRTS {
		q.giveUp()
	} else {
		q.timer, q.rnrUntil = 0, 0
	}
	due := q.timer
	for _, at := range [...]int64{q.rnrUntil, q.doubtful} {
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
	answered := q.answered()
	timeout := verbs.AckTimeout(q.attr.Timeout)
	switch {
	case timeout == 0, answered && q.peer != nil:
		q.timer = 0
	case q.timer == 0:
		q.timer, q.looked = objects.Clock()+int64(timeout)*int64(q.attr.RetryCnt+1), q.looks.Load()
		select {
		case q.look <- struct{}{}: // has the peer looked for, if it is not there
		default:
		}
	case objects.Clock() < q.timer:
	case answered:
		q.timer = objects.Clock() + int64(timeout)
	default:
		q.failSend(verbs.RetryExceeded)
	}
}

// answered reports whether a NIC in the peer's place would answer. While it has not
// been looked for since the timer began, that is not known.
func (q *qp) answered() bool {
	if p := q.peer; p != nil {
		return !p.process.Gone() && p.accepts(q) && !q.ahead()
	}
	return q.timer != 0 && q.looks.Load() == q.looked
}
