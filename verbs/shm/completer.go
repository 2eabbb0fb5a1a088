package shm

import (
	"cmp"
	"sync/atomic"

	"ringcli/verbs"
	"ringcli/verbs/memory"
	"ringcli/verbs/objects"
)

// reap takes the peer's answers, and reports whether there were any.
func (r *requester) reap() (worked bool) {
	answer := atomic.LoadUint64(r.conn.own.answer)
	count, code := answer>>8, uint8(answer)
	if count == r.acked && code == 0 || r.conn.state != verbs.StateRTS && r.conn.state != verbs.StateSQD {
		return false
	}
	if count < r.acked || count > r.posted || count == r.posted && code != 0 {
		r.fail(verbs.BadResponseError)
		return true
	}
	for ; r.acked < count; r.acked++ {
		s, f := r.conn.own.slot(r.acked), r.flight(r.acked)
		w := r.wqe(f.wqe)
		switch {
		case w.isRead():
			if status, finished := r.collect(w, s, f); status != verbs.Success {
				r.fail(status)
				return true
			} else if !finished {
				r.retire()
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
			r.reads--
		}
		r.stageHead, f.source = f.stage, 0
		worked = true
	}
	r.retire()
	switch {
	case code == notReady:
		return r.notReady() || worked
	case code != 0:
		status := verbs.Status(code)
		if status > verbs.GeneralError || status == verbs.FlushError {
			status = verbs.BadResponseError
		}
		r.fail(status)
		return true
	}
	return worked
}

// notReady handles a request that waits for a receive of the peer's, which will
// execute it as soon as it can. What a wire would take for its retries is how long
// this end waits.
func (r *requester) notReady() (worked bool) {
	const forever = 7
	if r.refused != r.acked+1 {
		r.refused, r.rnrUntil = r.acked+1, 0
		r.conn.counters.RNRs++
		if r.conn.attr.RNRRetry != forever {
			timer := verbs.RNRTimer(uint8(atomic.LoadUint32(&r.conn.peer.rnrTimer)))
			r.rnrUntil = objects.Clock() + int64(r.conn.attr.RNRRetry)*int64(timer)
		}
	}
	if r.rnrUntil == 0 || objects.Clock() < r.rnrUntil ||
		!atomic.CompareAndSwapUint32(&r.conn.own.slot(r.acked).claim, claim(r.acked, open), claim(r.acked, revoked)) {
		return false
	}
	r.fail(verbs.RNRRetryExceeded)
	return true
}

// retire completes what is done, in order.
func (r *requester) retire() {
	for r.sqHead != r.sqTail {
		w := r.wqe(r.sqHead)
		if !w.done {
			return
		}
		r.sqHead++
		r.sqCur = max(r.sqCur, r.sqHead)
		if r.conn.qp.InitAttr.SigAll || w.Flags&verbs.FlagSignaled != 0 {
			r.complete(w, verbs.Success)
		}
	}
}

func (r *requester) flush() {
	for ; r.sqHead != r.sqTail; r.sqHead++ {
		w := r.wqe(r.sqHead)
		r.complete(w, cmp.Or(w.fault, verbs.FlushError))
	}
	r.sqCur, r.acked, r.reads = r.sqHead, r.posted, 0
	r.timer, r.rnrUntil = 0, 0
}

func (r *requester) complete(w *sendWQE, status verbs.Status) {
	wc := verbs.Completion{ID: w.ID, Status: status, Opcode: w.Opcode.Completed(), QPN: r.conn.qp.QPN, ByteLen: w.length}
	if status != verbs.Success {
		objects.TraceFailed(r.conn.qp.QPN, r.conn.state, &wc, false)
	}
	r.conn.qp.SendCQ.Push(wc, status != verbs.Success)
}
