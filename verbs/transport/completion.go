package transport

import (
	"ringcli/verbs"
	"ringcli/verbs/objects"
)

// internal tells whether a future is this package's own.
func (f *Future) internal() bool { return f.t.idle == f }

// cancel resolves a future from outside.
func (t *Transport) cancel(f *Future, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f.isResolved() {
		return
	}
	t.waiters.remove(func(other *Future) bool { return other == f })
	t.waiting.remove(func(x *transfer) bool {
		if &x.Future != f || !x.first { // what has begun goes on
			return false
		}
		x.Local.memory.release()
		return true
	})
	f.resolve(0, err)
}

// completion takes what has completed. The token is held.
func (t *Transport) completion(wc *verbs.Completion) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if uint16(wc.ID>>1) != t.pair.life {
		return // of the queue pair as it was before it began anew
	}
	if wc.ID&idReceive != 0 {
		t.received(wc)
	} else {
		t.sent(wc)
	}
	if t.idle != nil && t.isIdle() {
		t.idle.resolve(0, nil)
	}
}

// sent takes the completion of the first request that is under way.
func (t *Transport) sent(wc *verbs.Completion) {
	if t.flying.len() == 0 {
		return
	}
	if t.flying.first().message == hello && t.again(wc.Status) {
		return
	}
	f := t.flying.pop()
	if wc.Status != verbs.Success {
		t.failLocked(t.why(wc, f))
		f.land(t.err)
		return
	}
	t.heardAt = objects.Clock()
	t.moved = t.heardAt
	if f.message == hello {
		t.greeted = true
	}
	f.land(nil)
	t.pump()
}

// land ends a request; the last one of a transfer resolves it.
func (f flight) land(err error) {
	if f.transfer == nil {
		return
	}
	f.Local.memory.release()
	switch {
	case err != nil:
		f.resolve(0, err)
	case f.last:
		f.resolve(f.Local.Len(), nil)
	}
}

// received takes a message or a notification of the peer.
func (t *Transport) received(wc *verbs.Completion) {
	t.pair.posted--
	if wc.Status != verbs.Success {
		t.failLocked(t.why(wc, flight{}))
		return
	}
	t.heardAt = objects.Clock()
	t.pair.unposted++
	if t.pair.unposted >= t.pair.recvDepth/4 && t.stage == connected {
		if err := t.pair.postReceives(); err != nil {
			t.failLocked(t.pair.peer.failed(ErrInternal, "%v", err))
		}
	}
	if wc.Opcode == verbs.WCRecvWriteImm {
		t.arrived(int(wc.ByteLen))
		return
	}
	switch message(wc.Imm) {
	case hello:
		t.heard = true
		t.pump()
	case goodbye:
		if t.stage == connected {
			t.stage, t.err = parted, t.pair.peer.failed(ErrPeerClosed, "the peer has closed its transport")
			t.drop(t.err)
		}
	}
}

// arrived resolves the first that waits for a write. One whose context has ended leaves its
// turn to the next, even if the context has not told it so far (watch).
func (t *Transport) arrived(length int) {
	for t.waiters.len() > 0 {
		f := t.waiters.pop()
		if f.ctx.Err() == nil {
			f.resolve(length, nil)
			return
		}
		f.resolve(0, ended(f.ctx, waitForWrite))
	}
	t.arrivals.push(length)
}

// again says hello once more, with a queue pair that begins anew, if the peer has not connected
// so far and may do so still. It reports whether it did.
func (t *Transport) again(s verbs.Status) bool {
	if s != verbs.RetryExceeded || t.stage != connected || objects.Clock() > t.since+int64(t.options.Timeout) {
		return false
	}
	t.flying.all()
	t.pair.life++
	err := t.pair.qp.Modify(verbs.QPAttr{State: verbs.StateReset}, verbs.AttrState)
	if err == nil {
		err = t.pair.toInit()
	}
	if err == nil {
		err = t.pair.toRTS(t.options.Service, t.heard)
	}
	if err != nil {
		t.failLocked(t.pair.peer.failed(ErrSystem, "begin anew: %v", err))
		return true
	}
	t.say(hello)
	return true
}

// why is the error of a completion that is no success.
func (t *Transport) why(wc *verbs.Completion, f flight) error {
	status := wc.Status.Err()
	switch wc.Status {
	case verbs.RetryExceeded, verbs.ResponseTimeout:
		if !t.established() {
			return t.pair.peer.failed(ErrPeerAbsent, "the peer has not connected within %v: %v", t.options.Timeout, status)
		}
		return t.pair.peer.failed(ErrPeerLost, "the peer no longer answers: %v", status)
	case verbs.RemoteAccessError, verbs.RemoteInvalidRequest, verbs.RemoteOpError:
		return t.pair.peer.failed(ErrRefused, "the peer refused a request: is its memory still registered?: %v", status)
	case verbs.LocalProtectionError, verbs.LocalLengthError, verbs.LocalQPOpError:
		return t.pair.peer.failed(ErrInternal, "the device refused a request: %v", status)
	case verbs.FlushError:
		if f.transfer == nil && f.message == 0 {
			return t.pair.peer.failed(ErrRefused, "a request of the peer was refused here, as one outside of registered memory is: %v", status)
		}
	}
	return t.pair.peer.failed(ErrRemote, "%v", status)
}

// look ends what is overdue, and asks a silent peer whether it is there.
func (t *Transport) look(now int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stage == parted && now-t.heardAt > int64(parting) {
		t.failLocked(t.err)
	}
	if t.stage != connected {
		return
	}
	switch late := now - int64(t.options.Timeout); {
	case !t.established() && t.since < late:
		t.failLocked(t.pair.peer.failed(ErrPeerAbsent, "the peer has not connected within %v", t.options.Timeout))
	case t.flying.len() > 0 && t.moved < late:
		t.failLocked(t.pair.peer.failed(ErrPeerLost, "a request has been under way for %v", t.options.Timeout))
	case t.established() && t.waiters.len() > 0 && t.flying.len() == 0 && now-t.heardAt > int64(t.options.Heartbeat):
		t.say(heartbeat)
	}
}
