package verbstest

import (
	"testing"
	"time"

	"ringcli/verbs"
)

func testOrder(t *testing.T, h Harness) {
	t.Run("ManyOutstanding", func(t *testing.T) { testManyOutstanding(t, h) })
	t.Run("MixedChain", func(t *testing.T) { testMixedChain(t, h) })
	t.Run("WriteBeforeSend", func(t *testing.T) { testWriteBeforeSend(t, h) })
	t.Run("Fence", func(t *testing.T) { testFence(t, h) })
	t.Run("ManyReads", func(t *testing.T) { testManyReads(t, h) })
	t.Run("Unsignalled", func(t *testing.T) { testUnsignalled(t, h) })
}

// A full queue of messages arrives complete and in order.
func testManyOutstanding(t *testing.T, h Harness) {
	l := connect(t, h, func(c *config) { c.Cap.MaxSendWR, c.Cap.MaxRecvWR = 128, 128 })
	const rounds, n, size = 4, 128, 1500
	for round := range uint64(rounds) {
		sends := make([]verbs.WorkRequest, n)
		for i := range sends {
			id := round*n + uint64(i)
			at := i * 2 * size
			fill(l.a.buf.Bytes()[at:][:size], id)
			l.receive(l.b, verbs.WorkRequest{ID: id, SGL: []verbs.SGE{l.b.sge(at, size)}})
			sends[i] = send(id, l.a.sge(at, size-i))
		}
		l.post(l.a, sends...)
		for i := range n {
			id := round*n + uint64(i)
			if wc := l.b.recv.one(id, verbs.Success, "receive %d of %d", i, n); int(wc.ByteLen) != size-i {
				t.Fatalf("message %d has %d bytes, want %d", id, wc.ByteLen, size-i)
			}
			l.ok(verify(l.b.buf.Bytes()[i*2*size:][:size-i], id), "message %d", id)
		}
		l.a.send.each(verbs.Success, round*n, round*n+n, "sends of round %d", round)
	}
}

// Operations of all kinds in one chain complete in the order of their posting.
func testMixedChain(t *testing.T, h Harness) {
	l := connect(t, h)
	fill(l.a.buf.Bytes()[:5000], 1)
	fill(l.b.buf.Bytes()[100000:105000], 2)
	l.receives(l.b, 1, 9, l.b.sge(300000, 5000))
	const rounds = 4
	var want []verbs.WCOpcode
	for range rounds {
		chain := []verbs.WorkRequest{
			send(0, l.a.sge(0, 2500)),
			l.b.remote(request(verbs.OpRead, 0, l.a.sge(200000, 5000)), 100000),
			l.b.remote(request(verbs.OpWrite, 0, l.a.sge(0, 5000)), 200000),
			request(verbs.OpSendImm, 0, l.a.sge(0, 1)),
			l.b.remote(request(verbs.OpRead, 0, l.a.sge(210000, 1)), 100000),
		}
		opcodes := []verbs.WCOpcode{verbs.WCSend, verbs.WCRead, verbs.WCWrite, verbs.WCSend, verbs.WCRead}
		if l.a.dev.AtomicCap != verbs.AtomicNone {
			chain = append(chain, l.b.remote(request(verbs.OpFetchAdd, 0, l.a.sge(500000, 8)), 400000),
				l.b.remote(request(verbs.OpCompSwap, 0, l.a.sge(500008, 8)), 400008))
			opcodes = append(opcodes, verbs.WCFetchAdd, verbs.WCCompSwap)
		}
		for i := range chain {
			chain[i].ID = uint64(len(want) + i)
		}
		want = append(want, opcodes...)
		l.post(l.a, chain...)
	}
	for id, op := range want {
		if wc := l.a.send.one(uint64(id), verbs.Success, "the chain"); wc.Opcode != op {
			t.Errorf("request %d completed as %s, want %s", id, wc.Opcode, op)
		}
	}
	l.b.recv.each(verbs.Success, 1, 1+2*rounds, "the chain's SENDs")
	l.ok(verify(l.a.buf.Bytes()[200000:205000], 2), "READ")
	l.ok(verify(l.b.buf.Bytes()[200000:205000], 1), "WRITE")
}

// When a SEND has arrived, so has the WRITE before it.
func testWriteBeforeSend(t *testing.T, h Harness) {
	const n, size = 40, 10000
	l := connect(t, h)
	blank(l.b.buf.Bytes()[:size])
	for id := range uint64(n) {
		fill(l.a.buf.Bytes()[:size], id)
		l.receives(l.b, id, id+1)
		write := l.b.remote(request(verbs.OpWrite, 0, l.a.sge(0, size)), 0)
		write.Flags = 0
		l.post(l.a, write, send(id))
		l.b.recv.one(id, verbs.Success, "the SEND behind WRITE %d", id)
		l.ok(verify(l.b.buf.Bytes()[:size], id), "WRITE %d when the SEND behind it has arrived", id)
		l.a.send.one(id, verbs.Success, "SEND %d", id)
	}
}

// A fenced request waits for the READ before it, whose data it may then send.
func testFence(t *testing.T, h Harness) {
	const n, size = 30, 20000
	l := connect(t, h)
	for id := range uint64(n) {
		fill(l.b.buf.Bytes()[:size], id)
		blank(l.a.buf.Bytes()[:size])
		l.receives(l.b, id, id+1, l.b.sge(100000, size))
		back := send(2*id+1, l.a.sge(0, size))
		back.Flags |= verbs.FlagFence
		l.post(l.a, l.b.remote(request(verbs.OpRead, 2*id, l.a.sge(0, size)), 0), back)
		l.b.recv.one(id, verbs.Success, "the fenced SEND")
		l.ok(verify(l.b.buf.Bytes()[100000:][:size], id), "what READ %d brought, sent behind a fence", id)
		l.a.send.each(verbs.Success, 2*id, 2*id+2, "READ and fenced SEND")
	}
}

// More READs are posted than the queue pair may have in flight.
func testManyReads(t *testing.T, h Harness) {
	for _, depth := range []uint8{1, 2, 4} {
		l := connect(t, h, func(c *config) {
			c.A.MaxRDAtomic, c.B.MaxDestRDAtomic = depth, depth
			c.B.MaxRDAtomic, c.A.MaxDestRDAtomic = 1, 1
		})
		const n, size = 32, 3001
		for id := range uint64(n) {
			fill(l.b.buf.Bytes()[id*size:][:size], id)
			l.post(l.a, l.b.remote(request(verbs.OpRead, id, l.a.sge(int(id)*size, size)), int(id)*size))
		}
		l.a.send.each(verbs.Success, 0, n, "READs with max_rd_atomic %d", depth)
		for id := range uint64(n) {
			l.ok(verify(l.a.buf.Bytes()[id*size:][:size], id), "READ %d with max_rd_atomic %d", id, depth)
		}
	}
}

// Unsignalled requests complete silently, unless the queue pair signals all.
func testUnsignalled(t *testing.T, h Harness) {
	for _, all := range []bool{false, true} {
		l := connect(t, h, func(c *config) { c.SigAll = all })
		l.receives(l.b, 0, 20)
		for id := range uint64(20) {
			wr := send(id)
			if id%10 != 9 {
				wr.Flags = 0
			}
			l.post(l.a, wr)
		}
		l.b.recv.each(verbs.Success, 0, 20, "receives")
		if all {
			l.a.send.each(verbs.Success, 0, 20, "sends of a queue pair that signals all")
		} else {
			l.a.send.one(9, verbs.Success, "the first signalled send")
			l.a.send.one(19, verbs.Success, "the second signalled send")
		}
		l.a.send.none(2*time.Millisecond, "nothing more")
	}
}
