package rc

import (
	"ringcli/verbs"
	"ringcli/verbs/soft/wire"
)

// step takes an answer of the peer's responder.
func (r *requester) step(p *wire.Packet, now int64, out *Output) (early bool) {
	psn := p.PSN
	if wire.PSNDiff(psn, r.una) < 0 || wire.PSNDiff(psn, r.sent) >= 0 {
		if r.conn.cfg.KeepEarly {
			r.responseGap.again(psn)
		}
		return false // answered before, or never sent
	}
	if p.Opcode != wire.Acknowledge {
		return r.stepData(p, now, out)
	}
	syndrome := p.AETH.Syndrome()
	if syndrome.IsAck() {
		if !r.ackThrough(psn, now, out) {
			r.missing(psn, now, out)
			return true
		}
		return false
	}
	// A NAK acknowledges everything before its PSN.
	if !r.ackThrough(wire.PSNAdd(psn, -1), now, out) {
		r.missing(psn, now, out)
		return syndrome.IsNAK() && syndrome != wire.NakPSNSeq
	}
	switch {
	case syndrome.IsRNR():
		r.rnr(syndrome.Code(), now, out)
	case syndrome == wire.NakPSNSeq:
		r.conn.cfg.Counters.PacketSeqErr++
		r.retryLoss(r.requestEnd(), now, out)
	case syndrome == wire.NakInvalidRequest:
		r.conn.cfg.Counters.ReqRemoteInvalid++
		r.fail(verbs.RemoteInvalidRequest, out)
	case syndrome == wire.NakRemoteAccess:
		r.conn.cfg.Counters.ReqRemoteAccessErr++
		r.fail(verbs.RemoteAccessError, out)
	case syndrome == wire.NakRemoteOp:
		r.fail(verbs.RemoteOpError, out)
	}
	return false
}

// stepData takes a READ response or an atomic ACK.
func (r *requester) stepData(p *wire.Packet, now int64, out *Output) (early bool) {
	if !r.ackThrough(wire.PSNAdd(p.PSN, -1), now, out) || r.una != p.PSN {
		r.missing(p.PSN, now, out)
		return true
	}
	w := r.wqe(r.sqHead)
	if p.Flags&wire.HasAETH != 0 && !p.AETH.Syndrome().IsAck() {
		return false
	}
	if !r.localOK(w) {
		r.fail(verbs.LocalProtectionError, out)
		return false
	}
	switch {
	case w.isRead() && p.Flags&wire.IsRead != 0:
		offset := int(wire.PSNDiff(p.PSN, w.first)) * r.conn.mtu
		if len(p.Payload) != min(r.conn.mtu, int(w.length)-offset) {
			r.fail(verbs.BadResponseError, out)
			return false
		}
		out.place(w.SGL, offset, p.Payload)
	case w.IsAtomic() && p.Opcode == wire.AtomicAck:
		out.Orders = append(out.Orders, Order{Kind: Store64, Addr: w.SGL[0].Addr, Value: p.AtomicAck.Orig()})
	default:
		r.fail(verbs.BadResponseError, out)
		return false
	}
	r.responseGap.came(p.PSN, now)
	r.una = wire.PSNAdd(r.una, 1)
	if p.PSN == w.last {
		r.complete(verbs.Success, out)
	}
	r.progress(1, now)
	return false
}

// ackThrough acknowledges everything up to psn. It stops at a READ or an atomic,
// whose answer must have been lost if something after it is acknowledged: false.
func (r *requester) ackThrough(psn uint32, now int64, out *Output) bool {
	before := r.una
	whole := true
	for wire.PSNDiff(psn, r.una) >= 0 {
		w := r.wqe(r.sqHead)
		if w.isRead() || w.IsAtomic() {
			whole = false
			break
		}
		if wire.PSNDiff(psn, w.last) < 0 {
			r.una = wire.PSNAdd(psn, 1)
			break
		}
		r.una = wire.PSNAdd(w.last, 1)
		r.complete(verbs.Success, out)
	}
	if n := int(wire.PSNDiff(r.una, before)); n > 0 {
		r.progress(n, now)
	}
	return whole
}

// progress notes that una moved by n.
func (r *requester) progress(n int, now int64) {
	r.retries, r.rnrTries, r.rnrUntil = 0, 0, 0
	if r.wentBack && wire.PSNDiff(r.una, r.recover) >= 0 {
		r.wentBack = false
	}
	again := r.probed && r.una == r.recover
	r.probed = false
	if r.lossy > 0 {
		r.measure(n, now)
	}
	done := 0
	for done < len(r.reads) && wire.PSNDiff(r.reads[done], r.una) < 0 {
		done++
	}
	if done > 0 {
		r.reads = r.reads[:copy(r.reads, r.reads[done:])]
	}
	if wire.PSNDiff(r.cur, r.una) < 0 { // an answer to what was to be sent again
		r.cur, r.sqCur = r.una, r.sqHead
	}
	if r.partial && wire.PSNDiff(r.goOn, r.una) < 0 {
		r.goOn, r.sqOn = r.una, r.sqHead
	}
	if r.window < r.windowMax {
		if r.windowAcked += n; r.windowAcked >= r.window {
			r.windowAcked = 0
			r.window = min(r.windowMax, r.window+max(1, r.window/8))
		}
	}
	r.timer, r.probe = 0, 0
	if r.una != r.sent {
		if again { // the peer took the probe, and nothing after it
			r.goBack()
		}
		r.startTimer(now)
	}
}

// complete retires the oldest work request.
func (r *requester) complete(s verbs.Status, out *Output) {
	w := r.wqe(r.sqHead)
	if s != verbs.Success || r.conn.cfg.SigAll || w.Flags&verbs.FlagSignaled != 0 {
		out.complete(verbs.Completion{ID: w.ID, Status: s, Opcode: w.Opcode.Completed(), ByteLen: w.length, QPN: r.conn.cfg.QPN}, false, s != verbs.Success)
	}
	if r.sqCur == r.sqHead {
		r.sqCur++
	}
	r.sqHead++
}

// fail completes the oldest work request with an error; the QP goes to ERR.
func (r *requester) fail(s verbs.Status, out *Output) {
	r.conn.cfg.Counters.ReqCQEError++
	r.complete(s, out)
	r.failed = true
}

func (r *requester) flush(out *Output) {
	for r.sqHead != r.sqTail {
		r.complete(verbs.FlushError, out)
	}
	r.timer, r.probe, r.rnrUntil = 0, 0, 0
	r.responseGap.since = 0
	r.reads = r.reads[:0]
}

// goBack makes the oldest unacknowledged packet the next to send.
func (r *requester) goBack() {
	r.cur, r.sqCur = r.una, r.sqHead
	r.reads = r.reads[:0]
	r.sinceAckReq = 0
	r.timedOut, r.partial = false, false
	r.rttAt = 0
}

// missing notices that a response has passed over those of READs and atomics.
func (r *requester) missing(end uint32, now int64, out *Output) {
	if r.wentBack || r.rnrUntil != 0 {
		return
	}
	r.responseGap.notice(r.una, end, now)
	r.askMissing(now, out)
}

// askMissing asks for the missing responses again when that is due: the implied NAK.
func (r *requester) askMissing(now int64, out *Output) {
	if !r.responseGap.due(now) {
		return
	}
	r.responseGap.ask()
	r.conn.cfg.Counters.ImpliedNakSeqErr++
	r.retryLoss(r.responseGap.end, now, out)
}

// retryLoss sends again once for each loss: the NAKs that follow before end is
// acknowledged tell of the same one.
func (r *requester) retryLoss(end uint32, now int64, out *Output) {
	if r.wentBack || r.rnrUntil != 0 {
		return
	}
	r.wentBack, r.recover = true, end
	r.lossy = lossyFor
	r.retry(end, now, out)
}

// retry sends again up to end, if the peer keeps what comes early, else all.
func (r *requester) retry(end uint32, now int64, out *Output) {
	if r.retries >= r.conn.attr.RetryCnt {
		r.conn.cfg.Counters.RetryExceededErr++
		r.fail(verbs.RetryExceeded, out)
		return
	}
	r.retries++
	r.probed = false
	r.conn.cfg.Counters.WindowReductions++
	least := minWindow
	if r.kept {
		least = minWindowKept
	}
	r.window = max(min(least, r.windowMax), r.window/2)
	r.windowAcked = 0
	r.sendAgain(end)
	r.startTimer(now)
}

// rnr handles a receiver-not-ready NAK of the packet at una.
func (r *requester) rnr(code uint8, now int64, out *Output) {
	const forever = 7
	if r.rnrUntil != 0 {
		return // the same one, doubled: nothing was sent since
	}
	r.conn.cfg.Counters.RNRNakRetryErr++
	if r.conn.attr.RNRRetry != forever {
		if r.rnrTries >= r.conn.attr.RNRRetry {
			r.conn.cfg.Counters.RNRRetryExceededErr++
			r.fail(verbs.RNRRetryExceeded, out)
			return
		}
		r.rnrTries++
	}
	r.goBack()
	r.timer, r.probe = 0, 0
	r.rnrUntil = now + int64(verbs.RNRTimer(code))
}

// tick does what the clock demands.
func (r *requester) tick(now int64, out *Output) {
	if r.rnrUntil != 0 && now >= r.rnrUntil {
		r.rnrUntil = 0
	}
	r.askMissing(now, out)
	switch {
	case r.failed:
	case r.timer != 0 && now >= r.timer:
		r.conn.cfg.Counters.LocalAckTimeoutErr++
		r.wentBack = false
		r.retry(r.una, now, out)
		r.timedOut = true
	case r.probe != 0 && now >= r.probe:
		r.sendProbe(now)
	}
}
