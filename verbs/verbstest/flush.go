package verbstest

import (
	"testing"

	"ringcli/verbs"
)

// In ERR everything outstanding completes as flushed, in order, signalled or not.
func testFlush(t *testing.T, h Harness) {
	t.Run("Modify", func(t *testing.T) { testFlushByModify(t, h) })
	t.Run("FirstErrorFirst", func(t *testing.T) { testFirstErrorFirst(t, h) })
	t.Run("UnsignalledFailure", func(t *testing.T) { testUnsignalledFailure(t, h) })
	t.Run("InFlight", func(t *testing.T) { testFlushInFlight(t, h) })
	t.Run("InINIT", func(t *testing.T) {
		l := connect(t, h, func(c *config) { c.StopAt = verbs.StateInit })
		l.receives(l.a, 0, 5)
		l.modify(l.a, verbs.StateErr, 0)
		l.a.recv.each(verbs.FlushError, 0, 5, "receives posted in INIT")
	})
}

func testFlushByModify(t *testing.T, h Harness) {
	l := connect(t, h)
	l.receives(l.a, 100, 120, l.a.sge(0, 64))
	for id := range uint64(20) { // without a receive at b none of them ends
		wr := send(id, l.a.sge(0, 64))
		if id%3 == 1 {
			wr.Flags = 0
		}
		l.post(l.a, wr)
	}
	l.modify(l.a, verbs.StateErr, 0)
	l.a.send.each(verbs.FlushError, 0, 20, "sends in ERR")
	l.a.recv.each(verbs.FlushError, 100, 120, "receives in ERR")
	for id := range uint64(5) {
		l.post(l.a, send(id, l.a.sge(0, 64)))
		l.receives(l.a, id, id+1, l.a.sge(0, 64))
	}
	l.a.send.each(verbs.FlushError, 0, 5, "sends posted in ERR")
	if h.hasA(LateReceivesStay) {
		l.a.recv.none(brief, "receives posted in ERR, with the quirk %s", LateReceivesStay)
	} else {
		l.a.recv.each(verbs.FlushError, 0, 5, "receives posted in ERR")
	}
	if got := l.b.state(t); got != verbs.StateRTS {
		t.Errorf("the peer is in %s, want RTS", got)
	}
}

// One request fails: those before it succeed, it comes next with its own status,
// and all behind it are flushed.
func testFirstErrorFirst(t *testing.T, h Harness) {
	l := connect(t, h)
	l.receives(l.b, 0, 4, l.b.sge(0, 64))
	l.receives(l.a, 50, 55, l.a.sge(0, 64))
	wrong := l.b.remote(request(verbs.OpWrite, 2, l.a.sge(0, 64)), 0)
	wrong.RKey ^= 0x5a5a5a5a
	l.post(l.a,
		send(0, l.a.sge(0, 64)),
		l.b.remote(request(verbs.OpWrite, 1, l.a.sge(0, 3000)), 100),
		wrong,
		send(3, l.a.sge(0, 64)),
		l.b.remote(request(verbs.OpRead, 4, l.a.sge(0, 64)), 0),
		l.b.remote(request(verbs.OpWrite, 5, l.a.sge(0, 64)), 0))
	l.a.send.each(verbs.Success, 0, 2, "what stands before the failure")
	l.a.send.one(2, verbs.RemoteAccessError, "a WRITE with a wrong rkey")
	l.a.send.each(verbs.FlushError, 3, 6, "what stands behind the failure")
	l.a.recv.each(verbs.FlushError, 50, 55, "the requester's receives")
	l.b.recv.one(0, verbs.Success, "the SEND before the failure")
	l.b.recv.each(verbs.FlushError, 1, 4, "the responder's receives")
}

// A request that fails completes even if it is unsignalled, and so do those
// flushed behind it; the unsignalled ones before it stay silent.
func testUnsignalledFailure(t *testing.T, h Harness) {
	l := connect(t, h)
	good := l.b.remote(request(verbs.OpWrite, 1, l.a.sge(0, 64)), 0)
	bad := good
	bad.ID, bad.RKey = 2, bad.RKey^0x5a5a5a5a
	behind := good
	behind.ID = 3
	for _, wr := range []*verbs.WorkRequest{&good, &bad, &behind} {
		wr.Flags = 0
	}
	l.post(l.a, good, bad, behind)
	l.a.send.one(2, verbs.RemoteAccessError, "an unsignalled WRITE with a wrong rkey")
	l.a.send.one(3, verbs.FlushError, "an unsignalled WRITE behind it")
	l.a.send.none(brief, "nothing more")
}

// A long transfer is cut off; its completion, whichever, is the only one, and
// when it has come the memory is the caller's again.
func testFlushInFlight(t *testing.T, h Harness) {
	const size = 512 << 10
	for _, op := range []verbs.Opcode{verbs.OpWrite, verbs.OpRead} {
		l := connect(t, h)
		l.post(l.a, l.b.remote(request(op, 1, l.a.sge(0, size)), 0))
		l.modify(l.a, verbs.StateErr, 0)
		wc := l.a.send.take(1, "%s cut off by ERR", op)[0]
		if wc.ID != 1 || wc.Status != verbs.FlushError && wc.Status != verbs.Success {
			t.Errorf("%s cut off by ERR: got {%d %s}, want it flushed, or done", op, wc.ID, wc.Status)
		}
		if op == verbs.OpRead {
			blank(l.a.buf.Bytes()[:size])
			l.a.send.none(brief, "nothing more")
			l.ok(untouchedIn(l.a.buf.Bytes()[:size]), "the target of a READ that was flushed")
		}
	}
}
