package verbstest

import (
	"fmt"
	"testing"

	"ringcli/verbs"
)

// guard bytes before and after a target must stay as they are.
const guard = 64

// operation is how one kind of message moves n bytes from the requester a to the
// responder b, or back for a READ.
type operation struct {
	name    string
	op      verbs.Opcode
	wc      verbs.WCOpcode // at the requester
	recv    verbs.WCOpcode // at the responder; 0 if it gets no completion
	imm     bool
	fromB   bool // the data flows from b to a
	oneSide bool // it names remote memory
}

var operations = []operation{
	{name: "SEND", op: verbs.OpSend, wc: verbs.WCSend, recv: verbs.WCRecv},
	{name: "SEND_IMM", op: verbs.OpSendImm, wc: verbs.WCSend, recv: verbs.WCRecv, imm: true},
	{name: "WRITE", op: verbs.OpWrite, wc: verbs.WCWrite, oneSide: true},
	{name: "WRITE_IMM", op: verbs.OpWriteImm, wc: verbs.WCWrite, recv: verbs.WCRecvWriteImm, imm: true, oneSide: true},
	{name: "READ", op: verbs.OpRead, wc: verbs.WCRead, fromB: true, oneSide: true},
}

// Every operation, at every path MTU, in sizes around its packets' boundaries,
// from and to odd addresses.
func testTransfer(t *testing.T, h Harness) {
	const largest = 1<<20 + 3
	r := open(t, h, 2<<20, rightsAll)
	for _, mtu := range r.mtus() {
		ok := r.sub(fmt.Sprintf("MTU%s", mtu), func(t *testing.T) {
			l := r.connect(r.a, r.b, func(c *config) { c.A.PathMTU, c.B.PathMTU = mtu, mtu })
			m := mtu.Bytes()
			sizes := []int{0, 1, 3, 4, 5, m - 1, m, m + 1, 2 * m, 3*m - 1, 3 * m, 3*m + 2}
			if mtu == verbs.MTU1024 || mtu == r.mtus()[len(r.mtus())-1] {
				sizes = append(sizes, 65*m+1, largest)
			}
			id := uint64(mtu) << 16
			for _, op := range operations {
				r.sub(op.name, func(t *testing.T) {
					for _, n := range sizes {
						id++
						l.transfer(op, n, id)
					}
				})
			}
		})
		if !ok {
			return
		}
	}
	t.Run("ZeroLengthNeedsNoKey", func(t *testing.T) { testZeroLength(t, h) })
	t.Run("BothDirections", func(t *testing.T) { testBothDirections(t, h) })
	t.Run("ReceiveOfWriteImm", func(t *testing.T) { testWriteImmTakesReceive(t, h) })
	t.Run("Unattended", func(t *testing.T) { testUnattended(t, h) })
}

// transfer runs one message of n bytes and checks the data, what lies around it,
// and the completions.
func (l *pair) transfer(op operation, n int, id uint64) {
	l.t.Helper()
	what := fmt.Sprintf("%s of %d bytes at MTU %d", op.name, n, l.mtu())
	from, to := l.a, l.b
	if op.fromB {
		from, to = l.b, l.a
	}
	srcOff, dstOff := guard+int(id)%7, guard+int(id/7)%11
	src := from.buf.Bytes()[srcOff : srcOff+n]
	dst := to.buf.Bytes()[:dstOff+n+guard]
	fill(src, id)
	blank(dst)

	wr := request(op.op, id, l.a.sge(srcOff, n))
	if op.fromB {
		wr.SGL[0] = l.a.sge(dstOff, n)
		wr = l.b.remote(wr, srcOff)
	} else if op.oneSide {
		wr = l.b.remote(wr, dstOff)
	}
	if op.imm {
		wr.Imm = 0x80000001 + uint32(id)
	}
	if op.recv == verbs.WCRecv {
		l.receive(l.b, verbs.WorkRequest{ID: ^id, SGL: []verbs.SGE{l.b.sge(dstOff, n+guard/2)}})
	} else if op.recv != 0 {
		l.receive(l.b, verbs.WorkRequest{ID: ^id})
	}
	l.post(l.a, wr)

	if op.recv != 0 {
		wc := l.b.recv.one(^id, verbs.Success, "%s", what)
		if wc.Opcode != op.recv || int(wc.ByteLen) != n || wc.QPN != l.b.qp.Num() {
			l.t.Fatalf("%s: receive completed as %s with %d bytes on QP %#x", what, wc.Opcode, wc.ByteLen, wc.QPN)
		}
		if hasImm := wc.Flags&verbs.WCWithImm != 0; hasImm != op.imm || op.imm && wc.Imm != wr.Imm {
			l.t.Fatalf("%s: receive completed with imm %#x (flag %v), want %#x (flag %v)", what, wc.Imm, hasImm, wr.Imm, op.imm)
		}
	}
	wc := l.a.send.one(id, verbs.Success, "%s", what)
	if wc.Opcode != op.wc || wc.QPN != l.a.qp.Num() {
		l.t.Fatalf("%s: completed as %s on QP %#x", what, wc.Opcode, wc.QPN)
	}
	l.ok(verify(dst[dstOff:dstOff+n], id), "%s", what)
	l.ok(untouchedIn(dst[:dstOff]), "%s: before the target", what)
	l.ok(untouchedIn(dst[dstOff+n:]), "%s: behind the target", what)
}

// READ and WRITE of nothing look at neither address nor rkey.
func testZeroLength(t *testing.T, h Harness) {
	l := connect(t, h)
	for i, op := range []verbs.Opcode{verbs.OpWrite, verbs.OpRead, verbs.OpWriteImm} {
		if op == verbs.OpRead && h.Impaired && h.hasB(ReplayedKeyChecked) {
			t.Logf("left out for %s: the responder has the quirk %s", op, ReplayedKeyChecked)
			continue
		}
		for j, sgl := range [][]verbs.SGE{nil, {}, {l.a.sge(0, 0)}} {
			id := uint64(10*i + j)
			wr := request(op, id, sgl...)
			wr.RKey, wr.RemoteAddr = 0xdeadbeef, 1
			if op == verbs.OpWriteImm {
				l.receives(l.b, id, id+1)
			}
			l.post(l.a, wr)
			l.a.send.one(id, verbs.Success, "%s of nothing", op)
			if op == verbs.OpWriteImm {
				if wc := l.b.recv.one(id, verbs.Success, "%s of nothing", op); wc.ByteLen != 0 {
					t.Errorf("%s of nothing: %d bytes", op, wc.ByteLen)
				}
			}
		}
	}
}

// Both ends send and write at once, over one pair.
func testBothDirections(t *testing.T, h Harness) {
	const n, size = 20, 3000
	l := connect(t, h)
	for _, e := range []*end{l.a, l.b} {
		for i := range n {
			l.receive(e, verbs.WorkRequest{ID: uint64(i), SGL: []verbs.SGE{e.sge(100000+i*size, size)}})
			fill(e.buf.Bytes()[i*size:][:size], uint64(i))
		}
	}
	for i := range n {
		for _, d := range [][2]*end{{l.a, l.b}, {l.b, l.a}} {
			l.post(d[0], send(uint64(2*i), d[0].sge(i*size, size)),
				d[1].remote(request(verbs.OpWrite, uint64(2*i+1), d[0].sge(i*size, size)), 200000+i*size))
		}
	}
	for _, e := range []*end{l.a, l.b} {
		e.recv.each(verbs.Success, 0, n, "%s's receives", e.name)
		e.send.each(verbs.Success, 0, 2*n, "%s's sends", e.name)
	}
	for _, e := range []*end{l.a, l.b} {
		for i := range n {
			l.ok(verify(e.buf.Bytes()[100000+i*size:][:size], uint64(i)), "SEND %d to %s", i, e.name)
			l.ok(verify(e.buf.Bytes()[200000+i*size:][:size], uint64(i)), "WRITE %d to %s", i, e.name)
		}
	}
}

// A WRITE takes no receive, a WRITE_IMM takes one and leaves its memory alone.
func testWriteImmTakesReceive(t *testing.T, h Harness) {
	l := connect(t, h)
	blank(l.b.buf.Bytes()[:100])
	fill(l.a.buf.Bytes()[:3000], 9)
	l.receives(l.b, 1, 3, l.b.sge(0, 100))
	imm := l.b.remote(request(verbs.OpWriteImm, 2, l.a.sge(0, 3000)), 4096)
	imm.Imm = 7
	l.post(l.a, l.b.remote(request(verbs.OpWrite, 1, l.a.sge(0, 3000)), 4096), imm, send(3, l.a.sge(0, 0)))
	l.a.send.each(verbs.Success, 1, 4, "WRITE, WRITE_IMM, SEND")
	wc := l.b.recv.one(1, verbs.Success, "the WRITE_IMM")
	if wc.Opcode != verbs.WCRecvWriteImm || wc.ByteLen != 3000 || wc.Imm != 7 {
		t.Errorf("the first receive completed as %s with %d bytes, imm %d", wc.Opcode, wc.ByteLen, wc.Imm)
	}
	if wc := l.b.recv.one(2, verbs.Success, "the SEND"); wc.Opcode != verbs.WCRecv || wc.ByteLen != 0 {
		t.Errorf("the second receive completed as %s with %d bytes", wc.Opcode, wc.ByteLen)
	}
	l.ok(untouchedIn(l.b.buf.Bytes()[:100]), "the memory of a WRITE_IMM's receive")
	l.ok(verify(l.b.buf.Bytes()[4096:7096], 9), "data")
}

// The responder's process need not poll for one-sided operations to proceed.
func testUnattended(t *testing.T, h Harness) {
	l := connect(t, h)
	l.queues = []*queue{l.a.send} // nobody polls for b
	defer func() { l.queues = append(l.queues, l.a.recv, l.b.send, l.b.recv) }()
	fill(l.a.buf.Bytes()[:100000], 4)
	l.post(l.a, l.b.remote(request(verbs.OpWrite, 1, l.a.sge(0, 100000)), 0))
	l.a.send.one(1, verbs.Success, "a WRITE to an end that does not poll")
	l.ok(verify(l.b.buf.Bytes()[:100000], 4), "WRITE")
	l.post(l.a, l.b.remote(request(verbs.OpRead, 2, l.a.sge(200000, 100000)), 0))
	l.a.send.one(2, verbs.Success, "a READ from an end that does not poll")
	l.ok(verify(l.a.buf.Bytes()[200000:300000], 4), "READ")
}
