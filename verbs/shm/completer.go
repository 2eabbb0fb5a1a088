package shm

import (
	"cmp"
	"sync/atomic"

	"ringcli/verbs"
	"ringcli/verbs/memory"
	"ringcli/verbs/objects"
)

// reap takes the peer's answers, and reports whether there were any.
func (q *qp) reap() (worked bool) {
	answer := atomic.LoadUint64(q.own.answer)
	count, code := answer>>8, uint8(answer)
	if count == q.acked && code == 0 || q.state != verbs.StateRTS && q.state != verbs.StateSQD {
		return false
	}
	if count < q.acked || count > q.posted || count == q.posted && code != 0 {
		q.failSend(verbs.BadResponseError)
		return true
	}
	for ; q.acked < count; q.acked++ {
		s, f := q.own.slot(q.acked), q.flight(q.acked)
		w := q.wqe(f.wqe)
		switch {
		case w.isRead():
			if status, finished := q.collect(w, s, f); status != verbs.Success {
				q.failSend(status)
				return true
			} else if !finished {
				q.retire()
				return worked
			}
			w.asked = false
			w.done = w.moved == w.length
		case w.IsAtomic():
			memory.Store64(w.SGL[0].Addr, s.data[0])
			w.done = true
		default:
			w.done = f.ends
		}
		if w.done && (w.isRead() || w.IsAtomic()) {
			q.reads--
		}
		q.stageHead, f.source = f.stage, 0
		worked = true
	}
	q.retire()
	switch {
	case code == notReady:
		return q.notReady() || worked
	case code != 0:
		status := verbs.Status(code)
		if status > verbs.GeneralError || status == verbs.FlushError {
			status = verbs.BadResponseError
		}
		q.failSend(status)
		return true
	}
	return worked
}

// notReady handles a request that waits for a receive of the peer's, which will
// execute it as soon as it can. What a wire would take for its retries is how long
// this end waits.
func (q *qp) notReady() (worked bool) {
	const forever = 7
	if q.refused != q.acked+1 {
		q.refused, q.rnrUntil = q.acked+1, 0
		q.counters.RNRs++
		if q.attr.RNRRetry != forever {
			timer := verbs.RNRTimer(uint8(atomic.LoadUint32(&q.peer.rnrTimer)))
			q.rnrUntil = objects.Clock() + int64(q.attr.RNRRetry)*int64(timer)
		}
	}
	if q.rnrUntil == 0 || objects.Clock() < q.rnrUntil ||
		!atomic.CompareAndSwapUint32(&q.own.slot(q.acked).claim, claim(q.acked, open), claim(q.acked, revoked)) {
		return false
	}
	q.failSend(verbs.RNRRetryExceeded)
	return true
}

// retire completes what is done, in order.
func (q *qp) retire() {
	for q.sqHead != q.sqTail {
		w := q.wqe(q.sqHead)
		if !w.done {
			return
		}
		q.sqHead++
		q.sqCur = max(q.sqCur, q.sqHead)
		if q.InitAttr.SigAll || w.Flags&verbs.FlagSignaled != 0 {
			q.complete(w, verbs.Success)
		}
	}
}

func (q *qp) flushSends() {
	for ; q.sqHead != q.sqTail; q.sqHead++ {
		w := q.wqe(q.sqHead)
		q.complete(w, cmp.Or(w.fault, verbs.FlushError))
	}
	q.sqCur, q.acked, q.reads = q.sqHead, q.posted, 0
	q.timer, q.rnrUntil = 0, 0
}

func (q *qp) complete(w *sendWQE, status verbs.Status) {
	wc := verbs.Completion{ID: w.ID, Status: status, Opcode: w.Opcode.Completed(), QPN: q.QPN, ByteLen: w.length}
	if status != verbs.Success {
		objects.TraceFailed(q.QPN, q.state, &wc, false)
	}
	q.SendCQ.Push(wc, status != verbs.Success)
}
