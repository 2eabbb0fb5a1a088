package rc

import (
	"ringcli/verbs"
	"ringcli/verbs/soft/wire"
)

// stepResponse takes an answer of the peer's responder.
func (q *QP) stepResponse(p *wire.Packet, now int64, out *Output) {
	psn := p.PSN
	if wire.PSNDiff(psn, q.una) < 0 || wire.PSNDiff(psn, q.sent) >= 0 {
		return // answered before, or never sent
	}
	if p.Opcode != wire.Acknowledge {
		q.stepData(p, now, out)
		return
	}
	syndrome := p.AETH.Syndrome()
	if syndrome.IsAck() {
		if !q.ackThrough(psn, now, out) {
			q.impliedNak(now, out)
		}
		return
	}
	// A NAK acknowledges everything before its PSN.
	if !q.ackThrough(wire.PSNAdd(psn, -1), now, out) {
		q.impliedNak(now, out)
		return
	}
	switch {
	case syndrome.IsRNR():
		q.rnr(syndrome.Code(), now, out)
	case syndrome == wire.NakPSNSeq:
		q.cfg.Counters.PacketSeqErr++
		q.retryLoss(now, out)
	case syndrome == wire.NakInvalidRequest:
		q.cfg.Counters.ReqRemoteInvalid++
		q.failSend(verbs.RemoteInvalidRequest, out)
	case syndrome == wire.NakRemoteAccess:
		q.cfg.Counters.ReqRemoteAccessErr++
		q.failSend(verbs.RemoteAccessError, out)
	case syndrome == wire.NakRemoteOp:
		q.failSend(verbs.RemoteOpError, out)
	}
}

// stepData takes a READ response or an atomic ACK.
func (q *QP) stepData(p *wire.Packet, now int64, out *Output) {
	if !q.ackThrough(wire.PSNAdd(p.PSN, -1), now, out) || q.una != p.PSN {
		q.impliedNak(now, out)
		return
	}
	w := q.wqe(q.sqHead)
	if p.Flags&wire.HasAETH != 0 && !p.AETH.Syndrome().IsAck() {
		return
	}
	if !q.localOK(w) {
		q.failSend(verbs.LocalProtectionError, out)
		return
	}
	switch {
	case w.isRead() && p.Flags&wire.IsRead != 0:
		offset := int(wire.PSNDiff(p.PSN, w.first)) * q.mtu
		if len(p.Payload) != min(q.mtu, int(w.length)-offset) {
			q.failSend(verbs.BadResponseError, out)
			return
		}
		out.Orders = appendPlaces(out.Orders, w.sge, offset, p.Payload)
	case w.isAtomic() && p.Opcode == wire.AtomicAck:
		out.Orders = append(out.Orders, Order{Kind: Store64, Addr: w.sge[0].Addr, Value: p.AtomicAck.Orig()})
	default:
		q.failSend(verbs.BadResponseError, out)
		return
	}
	q.una = wire.PSNAdd(q.una, 1)
	if p.PSN == w.last {
		q.completeSend(verbs.Success, out)
	}
	q.progress(1, now)
}

// ackThrough acknowledges everything up to psn. It stops at a READ or an atomic,
// whose answer must have been lost if something after it is acknowledged: false.
func (q *QP) ackThrough(psn uint32, now int64, out *Output) bool {
	before := q.una
	whole := true
	for wire.PSNDiff(psn, q.una) >= 0 {
		w := q.wqe(q.sqHead)
		if w.isRead() || w.isAtomic() {
			whole = false
			break
		}
		if wire.PSNDiff(psn, w.last) < 0 {
			q.una = wire.PSNAdd(psn, 1)
			break
		}
		q.una = wire.PSNAdd(w.last, 1)
		q.completeSend(verbs.Success, out)
	}
	if n := int(wire.PSNDiff(q.una, before)); n > 0 {
		q.progress(n, now)
	}
	return whole
}

// progress notes that una moved by n.
func (q *QP) progress(n int, now int64) {
	q.retries, q.rnrTries, q.wentBack = 0, 0, false
	q.rnrUntil = 0
	done := 0
	for done < len(q.reads) && wire.PSNDiff(q.reads[done], q.una) < 0 {
		done++
	}
	if done > 0 {
		q.reads = q.reads[:copy(q.reads, q.reads[done:])]
	}
	if wire.PSNDiff(q.cur, q.una) < 0 { // an answer to what was to be sent again
		q.cur, q.sqCur = q.una, q.sqHead
	}
	if q.window < q.windowMax {
		if q.windowAcked += n; q.windowAcked >= q.window {
			q.windowAcked = 0
			q.window = min(q.windowMax, q.window+max(1, q.window/8))
		}
	}
	q.timer = 0
	if q.una != q.sent {
		q.startTimer(now)
	}
}

// completeSend retires the oldest work request.
func (q *QP) completeSend(s verbs.Status, out *Output) {
	w := q.wqe(q.sqHead)
	if s != verbs.Success || q.cfg.SigAll || w.flags&verbs.FlagSignaled != 0 {
		out.complete(verbs.Completion{ID: w.id, Status: s, Opcode: wcOpcode(w.op), ByteLen: w.length, QPN: q.cfg.QPN}, false, s != verbs.Success)
	}
	if q.sqCur == q.sqHead {
		q.sqCur++
	}
	q.sqHead++
}

// failSend completes the oldest work request with an error; the QP goes to ERR.
func (q *QP) failSend(s verbs.Status, out *Output) {
	q.cfg.Counters.ReqCQEError++
	q.completeSend(s, out)
	q.clear()
	q.becomeErr(out)
}

func (q *QP) flushSends(out *Output) {
	for q.sqHead != q.sqTail {
		q.completeSend(verbs.FlushError, out)
	}
	q.timer, q.rnrUntil = 0, 0
	q.reads = q.reads[:0]
}

// goBack makes the oldest unacknowledged packet the next to send.
func (q *QP) goBack() {
	q.cur, q.sqCur = q.una, q.sqHead
	q.reads = q.reads[:0]
	q.sinceAckReq = 0
	q.timedOut = false
}

// impliedNak handles an answer that passed over a READ or an atomic.
func (q *QP) impliedNak(now int64, out *Output) {
	q.cfg.Counters.ImpliedNakSeqErr++
	q.retryLoss(now, out)
}

// retryLoss goes back once for each loss: the NAKs that follow before there was
// any progress tell of the same one.
func (q *QP) retryLoss(now int64, out *Output) {
	if q.wentBack || q.rnrUntil != 0 {
		return
	}
	q.wentBack = true
	q.retry(now, out)
}

func (q *QP) retry(now int64, out *Output) {
	if q.retries >= q.attr.RetryCnt {
		q.cfg.Counters.RetryExceededErr++
		q.failSend(verbs.RetryExceeded, out)
		return
	}
	q.retries++
	q.cfg.Counters.WindowReductions++
	q.window = max(min(minWindow, q.windowMax), q.window/2)
	q.windowAcked = 0
	q.goBack()
	q.startTimer(now)
}

// rnr handles a receiver-not-ready NAK of the packet at una.
func (q *QP) rnr(code uint8, now int64, out *Output) {
	const forever = 7
	if q.rnrUntil != 0 {
		return // the same one, doubled: nothing was sent since
	}
	q.cfg.Counters.RNRNakRetryErr++
	if q.attr.RNRRetry != forever {
		if q.rnrTries >= q.attr.RNRRetry {
			q.cfg.Counters.RNRRetryExceededErr++
			q.failSend(verbs.RNRRetryExceeded, out)
			return
		}
		q.rnrTries++
	}
	q.goBack()
	q.timer = 0
	q.rnrUntil = now + int64(wire.RNRTimer(code))
}

// Tick does what the clock demands. Call Emit afterwards.
func (q *QP) Tick(now int64, out *Output) {
	if q.rnrUntil != 0 && now >= q.rnrUntil {
		q.rnrUntil = 0
	}
	if q.timer != 0 && now >= q.timer {
		q.cfg.Counters.LocalAckTimeoutErr++
		q.wentBack = false
		q.retry(now, out)
		q.timedOut = true
	}
}
