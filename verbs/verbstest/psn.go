package verbstest

import (
	"fmt"
	"testing"
	"time"

	"ringcli/verbs"
)

// Packet sequence numbers wrap at 2^24: between messages, inside a message,
// inside the responses of a READ, at atomics; in both directions.
func testPSNWrap(t *testing.T, h Harness) {
	for _, before := range []uint32{1, 2, 3, 8, 20} {
		t.Run(fmt.Sprintf("%dBeforeWrap", before), func(t *testing.T) {
			l := connect(t, h, func(c *config) {
				first := 1<<24 - before
				c.A.SQPSN, c.B.RQPSN, c.B.SQPSN, c.A.RQPSN = first, first, first, first
			})
			back := &pair{rig: l.rig, a: l.b, b: l.a}
			id := uint64(0)
			for _, op := range operations {
				for _, n := range []int{0, 1, 7*l.mtu() + 5} {
					id++
					l.transfer(op, n, id)
					back.transfer(op, n, id)
				}
				if l.a.dev.AtomicCap != verbs.AtomicNone {
					l.atomic(verbs.OpFetchAdd, 4096, 1, 0)
				}
			}
		})
	}
	// The first message of all ends exactly at, or crosses, the wrap.
	for _, op := range operations {
		t.Run("Across/"+op.name, func(t *testing.T) {
			l := connect(t, h, func(c *config) { c.A.SQPSN, c.B.RQPSN = 0xfffffd, 0xfffffd })
			for id := range uint64(4) {
				l.transfer(op, 5*l.mtu(), id)
			}
		})
	}
}

// What becomes of a pair whose ends disagree about the first PSN.
func testPSNMismatch(t *testing.T, h Harness) {
	// The sender runs ahead: the receiver waits for packets that never come.
	t.Run("Ahead", func(t *testing.T) {
		l := connect(t, h, func(c *config) {
			quick(&c.A)
			c.B.RQPSN = (c.A.SQPSN - 5) & 0xffffff
		})
		l.receives(l.b, 1, 2, l.b.sge(0, 64))
		l.post(l.a, send(1, l.a.sge(0, 64)))
		l.a.send.one(1, verbs.RetryExceeded, "a SEND ahead of what the peer expects")
		l.awaitState(l.a, verbs.StateErr, "its SEND failed")
		l.b.recv.none(brief, "a SEND ahead of what the peer expects")
	})
	// The sender is behind: the receiver takes its packets for duplicates, so
	// the sender sees success and the data is gone.
	for _, behind := range []uint32{1, 5} {
		t.Run(fmt.Sprintf("Behind%d", behind), func(t *testing.T) {
			if h.hasB(DuplicatesUnacked) {
				t.Skipf("the responder has the quirk %s", DuplicatesUnacked)
			}
			l := connect(t, h, func(c *config) { c.B.RQPSN = (c.A.SQPSN + behind) & 0xffffff })
			n := uint64(behind)
			blank(l.b.buf.Bytes()[:4096])
			l.receives(l.b, 1, 2, l.b.sge(0, 64))
			var lost []verbs.WorkRequest
			for id := range n {
				lost = append(lost, send(id, l.a.sge(0, 64)))
			}
			if behind > 1 {
				lost[2] = l.b.remote(request(verbs.OpWrite, 2, l.a.sge(0, 64)), 1024)
			}
			l.post(l.a, lost...)
			l.a.send.each(verbs.Success, 0, n, "requests taken for duplicates")
			l.b.recv.none(brief, "requests taken for duplicates")
			l.ok(untouchedIn(l.b.buf.Bytes()[:4096]), "what duplicates must not touch")
			fill(l.a.buf.Bytes()[:64], 3)
			l.post(l.a, send(n, l.a.sge(0, 64)))
			l.a.send.one(n, verbs.Success, "the first SEND that is new")
			l.b.recv.one(1, verbs.Success, "the first SEND that is new")
			l.ok(verify(l.b.buf.Bytes()[:64], 3), "the first SEND that is new")
		})
	}
}

// quick makes a requester give up on a silent peer after a tenth of a second: one that is there
// may have no CPU for a part of it.
func quick(a *verbs.QPAttr) { a.Timeout, a.RetryCnt = 12, 5 }

// A peer that is gone, or was never there, is noticed in time.
func testPeerGone(t *testing.T, h Harness) {
	for _, c := range []struct {
		name string
		gone func(l *pair)
	}{
		{"QPClosed", func(l *pair) { l.ok(l.b.qp.Close(), "close") }},
		{"QPInReset", func(l *pair) { l.modify(l.b, verbs.StateReset, 0) }},
		{"QPInError", func(l *pair) { l.modify(l.b, verbs.StateErr, 0) }},
		{"ContextClosed", func(l *pair) {
			l.queues = []*queue{l.a.send, l.a.recv}
			for _, o := range []interface{ Close() error }{
				l.b.qp, l.b.send.cq, l.b.recv.cq, l.b.mr, l.b.ch, l.b.pd, l.b.Context,
			} {
				l.ok(o.Close(), "close")
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := connect(t, h, func(c *config) { quick(&c.A) })
			// A WRITE before, so that the peer was there.
			l.post(l.a, l.b.remote(request(verbs.OpWrite, 1, l.a.sge(0, 64)), 0))
			l.a.send.one(1, verbs.Success, "while the peer is there")
			l.receives(l.a, 7, 9)
			c.gone(l)
			start := time.Now()
			l.post(l.a, l.b.remote(request(verbs.OpWrite, 2, l.a.sge(0, 64)), 0), send(3), send(4))
			l.a.send.one(2, verbs.RetryExceeded, "the peer is gone")
			l.a.send.each(verbs.FlushError, 3, 5, "behind the failed WRITE")
			l.a.recv.each(verbs.FlushError, 7, 9, "receives of a queue pair in ERR")
			l.awaitState(l.a, verbs.StateErr, "its WRITE failed")
			// At least one time-out; at most four times what the codes say, which
			// the specification allows, and some seconds for a busy machine.
			least := verbs.AckTimeout(l.a.attr.Timeout)
			most := 4*6*least + 5*time.Second
			if took := time.Since(start); took < least || took > most {
				t.Errorf("noticed after %v, want %v to %v", took, least, most)
			}
		})
	}
	t.Run("NoSuchQP", func(t *testing.T) {
		l := connect(t, h, func(c *config) { quick(&c.A); c.A.DestQPN = 0xfedcba })
		l.post(l.a, request(verbs.OpWrite, 1))
		l.a.send.one(1, verbs.RetryExceeded, "a queue pair that does not exist")
	})
	t.Run("Late", func(t *testing.T) { testPeerLate(t, h) })
	t.Run("NoTimeout", func(t *testing.T) { testNoTimeout(t, h) })
}

// A peer that reaches RTR late is found by a retry.
func testPeerLate(t *testing.T, h Harness) {
	l := connect(t, h, func(c *config) {
		c.StopAt = verbs.StateInit
		c.A.Timeout, c.A.RetryCnt = 14, 7 // half a second, in which this process may have no CPU
	})
	l.receives(l.b, 5, 6, l.b.sge(0, 64))
	l.modify(l.a, verbs.StateRTR, maskRTR)
	l.modify(l.a, verbs.StateRTS, maskRTS)
	fill(l.a.buf.Bytes()[:64], 1)
	l.post(l.a, send(1, l.a.sge(0, 64)))
	l.a.send.none(brief, "the peer is in INIT")
	l.modify(l.b, verbs.StateRTR, maskRTR)
	l.a.send.one(1, verbs.Success, "the peer is in RTR now")
	l.b.recv.one(5, verbs.Success, "a SEND sent again")
	l.ok(verify(l.b.buf.Bytes()[:64], 1), "data")
}

// Timeout 0 waits for ever, until somebody takes the queue pair to ERR.
func testNoTimeout(t *testing.T, h Harness) {
	l := connect(t, h, func(c *config) { c.A.Timeout, c.A.RetryCnt = 0, 0 })
	l.modify(l.b, verbs.StateErr, 0)
	l.post(l.a, request(verbs.OpWrite, 1))
	l.a.send.none(50*time.Millisecond, "timeout 0")
	l.modify(l.a, verbs.StateErr, 0)
	l.a.send.one(1, verbs.FlushError, "taken to ERR")
}
