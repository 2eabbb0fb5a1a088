package verbstest

import (
	"testing"
	"time"

	"ringcli/verbs"
)

// No receive is posted: the sender is told to come again.
func testReceiverNotReady(t *testing.T, h Harness) {
	ops := []operation{operations[0], operations[1], operations[3]} // those that take a receive
	for _, op := range ops {
		t.Run("Exceeded/"+op.name, func(t *testing.T) {
			l := connect(t, h, func(c *config) { c.A.RNRRetry = 2 })
			l.post(l.a, l.b.remote(request(op.op, 1, l.a.sge(0, 3000)), 0), send(2))
			l.a.send.one(1, verbs.RNRRetryExceeded, "%s without a receive", op.name)
			l.a.send.one(2, verbs.FlushError, "behind it")
			l.awaitState(l.a, verbs.StateErr, "its request failed")
			if got := l.b.state(t); got != verbs.StateRTS {
				t.Errorf("the receiver is in %s, want RTS", got)
			}
		})
		t.Run("Late/"+op.name, func(t *testing.T) { testLateReceive(t, h, op) })
	}
	t.Run("NoRetry", func(t *testing.T) {
		l := connect(t, h, func(c *config) { c.A.RNRRetry = 0 })
		l.post(l.a, send(1))
		l.a.send.one(1, verbs.RNRRetryExceeded, "a SEND with rnr_retry 0")
	})
	t.Run("OthersGoOn", func(t *testing.T) { testOthersGoOn(t, h) })
}

// A receive that is posted late gets the message, once.
func testLateReceive(t *testing.T, h Harness, op operation) {
	const size = 5000
	l := connect(t, h)
	for id := range uint64(3) {
		fill(l.a.buf.Bytes()[:size], id)
		l.post(l.a, l.b.remote(request(op.op, id, l.a.sge(0, size)), 0))
		l.a.send.none(5*time.Millisecond, "no receive posted")
		l.receives(l.b, id, id+1, l.b.sge(0, size))
		if wc := l.b.recv.one(id, verbs.Success, "a late receive"); wc.ByteLen != size {
			t.Errorf("received %d bytes, want %d", wc.ByteLen, size)
		}
		l.a.send.one(id, verbs.Success, "a late receive")
		l.ok(verify(l.b.buf.Bytes()[:size], id), "message %d", id)
	}
}

// What was sent before a SEND that must wait is done; what comes behind it waits
// too, and then everything arrives in order.
func testOthersGoOn(t *testing.T, h Harness) {
	l := connect(t, h)
	fill(l.a.buf.Bytes()[:2000], 1)
	blank(l.b.buf.Bytes()[10000:12000])
	l.post(l.a,
		l.b.remote(request(verbs.OpWrite, 1, l.a.sge(0, 2000)), 0),
		send(2, l.a.sge(0, 2000)),
		l.b.remote(request(verbs.OpWrite, 3, l.a.sge(0, 2000)), 10000),
		l.b.remote(request(verbs.OpRead, 4, l.a.sge(20000, 2000)), 10000))
	l.a.send.one(1, verbs.Success, "the WRITE before")
	l.a.send.none(brief, "a SEND without a receive, and what is behind it")
	l.ok(untouchedIn(l.b.buf.Bytes()[10000:12000]), "the WRITE behind")
	l.receives(l.b, 2, 3, l.b.sge(30000, 2000))
	l.a.send.each(verbs.Success, 2, 5, "once a receive is posted")
	l.b.recv.one(2, verbs.Success, "once a receive is posted")
	for _, off := range []int{0, 10000, 30000} {
		l.ok(verify(l.b.buf.Bytes()[off:][:2000], 1), "b's bytes at %d", off)
	}
	l.ok(verify(l.a.buf.Bytes()[20000:22000], 1), "READ behind")
}
