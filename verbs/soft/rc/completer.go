package rc

import (
	"ringcli/verbs"
	"ringcli/verbs/soft/wire"
)

// stepResponse takes an answer of the peer's responder.
func (q *QP) stepResponse(p *wire.Packet, now int64, out *Output) (early bool) {
	psn := p.PSN
	if wire.PSNDiff(psn, q.una) < 0 || wire.PSNDiff(psn, q.sent) >= 0 {
		if q.cfg.KeepEarly {
			q.responseGap.again(psn)
		}
		return false // answered before, or never sent
	}
	if p.Opcode != wire.Acknowledge {
		return q.stepData(p, now, out)
	}
	syndrome := p.AETH.Syndrome()
	if syndrome.IsAck() {
		if !q.ackThrough(psn, now, out) {
			q.missing(psn, now, out)
			return true
		}
		return false
	}
	// A NAK acknowledges everything before its PSN.
	if !q.ackThrough(wire.PSNAdd(psn, -1), now, out) {
		q.missing(psn, now, out)
		return syndrome.IsNAK() && syndrome != wire.NakPSNSeq
	}
	switch {
	case syndrome.IsRNR():
		q.rnr(syndrome.Code(), now, out)
	case syndrome == wire.NakPSNSeq:
		q.cfg.Counters.PacketSeqErr++
		q.retryLoss(q.requestEnd(), now, out)
	case syndrome == wire.NakInvalidRequest:
		q.cfg.Counters.ReqRemoteInvalid++
		q.failSend(verbs.RemoteInvalidRequest, out)
	case syndrome == wire.NakRemoteAccess:
		q.cfg.Counters.ReqRemoteAccessErr++
		q.failSend(verbs.RemoteAccessError, out)
	case syndrome == wire.NakRemoteOp:
		q.failSend(verbs.RemoteOpError, out)
	}
	return false
}

// stepData takes a READ response or an atomic ACK.
func (q *QP) stepData(p *wire.Packet, now int64, out *Output) (early bool) {
	if !q.ackThrough(wire.PSNAdd(p.PSN, -1), now, out) || q.una != p.PSN {
		q.missing(p.PSN, now, out)
		return true
	}
	w := q.wqe(q.sqHead)
	if p.Flags&wire.HasAETH != 0 && !p.AETH.Syndrome().IsAck() {
		return false
	}
	if !q.localOK(w) {
		q.failSend(verbs.LocalProtectionError, out)
		return false
	}
	switch {
	case w.isRead() && p.Flags&wire.IsRead != 0:
		offset := int(wire.PSNDiff(p.PSN, w.first)) * q.mtu
		if len(p.Payload) != min(q.mtu, int(w.length)-offset) {
			q.failSend(verbs.BadResponseError, out)
			return false
		}
		out.place(w.SGL, offset, p.Payload)
	case w.IsAtomic() && p.Opcode == wire.AtomicAck:
		out.Orders = append(out.Orders, Order{Kind: Store64, Addr: w.SGL[0].Addr, Value: p.AtomicAck.Orig()})
	default:
		q.failSend(verbs.BadResponseError, out)
		return false
	}
	q.responseGap.came(p.PSN, now)
	q.una = wire.PSNAdd(q.una, 1)
	if p.PSN == w.last {
		q.completeSend(verbs.Success, out)
	}
	q.progress(1, now)
	return false
}

// ackThrough acknowledges everything up to psn. It stops at a READ or an atomic,
// whose answer must have been lost if something after it is acknowledged: false.
func (q *QP) ackThrough(psn uint32, now int64, out *Output) bool {
	before := q.una
	whole := true
	for wire.PSNDiff(psn, q.una) >= 0 {
		w := q.wqe(q.sqHead)
		if w.isRead() || w.IsAtomic() {
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
	q.retries, q.rnrTries, q.rnrUntil = 0, 0, 0
	if q.wentBack && wire.PSNDiff(q.una, q.recover) >= 0 {
		q.wentBack = false
	}
	again := q.probed && q.una == q.recover
	q.probed = false
	if q.lossy > 0 {
		q.measure(n, now)
	}
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
	if q.partial && wire.PSNDiff(q.goOn, q.una) < 0 {
		q.goOn, q.sqOn = q.una, q.sqHead
	}
	if q.window < q.windowMax {
		if q.windowAcked += n; q.windowAcked >= q.window {
			q.windowAcked = 0
			q.window = min(q.windowMax, q.window+max(1, q.window/8))
		}
	}
	q.timer, q.probe = 0, 0
	if q.una != q.sent {
		if again { // the peer took the probe, and nothing after it
			q.goBack()
		}
		q.startTimer(now)
	}
}

// completeSend retires the oldest work request.
func (q *QP) completeSend(s verbs.Status, out *Output) {
	w := q.wqe(q.sqHead)
	if s != verbs.Success || q.cfg.SigAll || w.Flags&verbs.FlagSignaled != 0 {
		out.complete(verbs.Completion{ID: w.ID, Status: s, Opcode: w.Opcode.Completed(), ByteLen: w.length, QPN: q.cfg.QPN}, false, s != verbs.Success)
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
	q.timer, q.probe, q.rnrUntil = 0, 0, 0
	q.responseGap.since = 0
	q.reads = q.reads[:0]
}

// goBack makes the oldest unacknowledged packet the next to send.
func (q *QP) goBack() {
	q.cur, q.sqCur = q.una, q.sqHead
	q.reads = q.reads[:0]
	q.sinceAckReq = 0
	q.timedOut, q.partial = false, false
	q.rttAt = 0
}

// missing notices that a response has passed over those of READs and atomics.
func (q *QP) missing(end uint32, now int64, out *Output) {
	if q.wentBack || q.rnrUntil != 0 {
		return
	}
	q.responseGap.notice(q.una, end, now)
	q.askMissing(now, out)
}

// askMissing asks for the missing responses again when that is due: the implied NAK.
func (q *QP) askMissing(now int64, out *Output) {
	if !q.responseGap.due(now) {
		return
	}
	q.responseGap.ask()
	q.cfg.Counters.ImpliedNakSeqErr++
	q.retryLoss(q.responseGap.end, now, out)
}

// retryLoss sends again once for each loss: the NAKs that follow before end is
// acknowledged tell of the same one.
func (q *QP) retryLoss(end uint32, now int64, out *Output) {
	if q.wentBack || q.rnrUntil != 0 {
		return
	}
	q.wentBack, q.recover = true, end
	q.lossy = lossyFor
	q.retry(end, now, out)
}

// retry sends again up to end, if the peer keeps what comes early, else all.
func (q *QP) retry(end uint32, now int64, out *Output) {
	if q.retries >= q.attr.RetryCnt {
		q.cfg.Counters.RetryExceededErr++
		q.failSend(verbs.RetryExceeded, out)
		return
	}
	q.retries++
	q.probed = false
	q.cfg.Counters.WindowReductions++
	least := minWindow
	if q.kept {
		least = minWindowKept
	}
	q.window = max(min(least, q.windowMax), q.window/2)
	q.windowAcked = 0
	q.sendAgain(end)
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
	q.timer, q.probe = 0, 0
	q.rnrUntil = now + int64(verbs.RNRTimer(code))
}

// Tick does what the clock demands. Call Emit afterwards.
func (q *QP) Tick(now int64, out *Output) {
	if q.rnrUntil != 0 && now >= q.rnrUntil {
		q.rnrUntil = 0
	}
	q.nakGap(now)
	q.askMissing(now, out)
	switch {
	case q.timer != 0 && now >= q.timer:
		q.cfg.Counters.LocalAckTimeoutErr++
		q.wentBack = false
		q.retry(q.una, now, out)
		q.timedOut = true
	case q.probe != 0 && now >= q.probe:
		q.sendProbe(now)
	}
}
