package shm

import (
	"sync/atomic"
	"testing"
	"time"

	"ringcli/verbs"
	"ringcli/verbs/memory"
	"ringcli/verbs/objects"
	"ringcli/verbs/shm/memfd"
)

// hostile is a queue pair whose peer's memory the test writes.
type hostile struct {
	ctx  *Context
	qp   *qp
	cq   *objects.CQ
	key  uint32 // of the only region
	peer *block
}

func newHostile(t testing.TB, mem []byte) *hostile {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	c, err := newContext()
	must(err)
	p, err := c.AllocPD()
	must(err)
	cq, err := c.CreateCQ(64, nil)
	must(err)
	const rights = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic
	mr, err := p.RegMR(memory.Addr(mem), uint64(len(mem)), rights)
	must(err)
	v, err := p.CreateQP(verbs.QPInitAttr{SendCQ: cq, RecvCQ: cq, Type: verbs.RC,
		Cap: verbs.QPCap{MaxSendWR: 8, MaxRecvWR: 8, MaxSendSGE: 1, MaxRecvSGE: 1}})
	must(err)
	q := v.(*qp)
	m, err := memfd.Create(blockSize)
	must(err)
	n, err := c.attach(t.Context(), c.key)
	must(err)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.conn.attr = verbs.QPAttr{PathMTU: verbs.MTU4096, Access: rights, MaxRDAtomic: 4, MaxDestRDAtomic: 4, RNRRetry: 7, Timeout: 14, RetryCnt: 7}
	must(q.publish())
	q.conn.enter(verbs.StateRTS)
	h := &hostile{ctx: c, qp: q, cq: cq.(*objects.CQ), key: mr.RKey(), peer: blockOf(m.Addr())}
	q.conn.peer = &peer{remote: n, block: h.peer, id: m.ID()}
	h.peer.setState(verbs.StateRTS)
	h.peer.mtu, h.peer.destKey, h.peer.destQPN = uint32(verbs.MTU4096), c.key, q.QPN
	atomic.StoreUint64(&h.peer.bound, q.conn.memory.ID())
	t.Cleanup(func() {
		must(q.Close())
		must(mr.Close())
		must(cq.Close())
		must(p.Close())
		must(c.Close())
		must(m.Free())
	})
	return h
}

// FuzzRequest has a peer write anything into a slot: it must not crash, write
// beside the region, or keep the queue pair from being closed.
func FuzzRequest(f *testing.F) {
	f.Add(uint8(verbs.OpSend), uint8(first|last), uint8(inSlot), uint32(8), uint32(8), true, uint64(0), uint64(0), uint64(0), uint64(0))
	f.Add(uint8(verbs.OpWrite), uint8(first), uint8(inStage), uint32(1<<20), uint32(1<<31), true, uint64(0), uint64(stageBytes), uint64(1), uint64(0))
	f.Add(uint8(verbs.OpRead), uint8(first|last|readable), uint8(9), uint32(4096), uint32(4096), true, uint64(0), uint64(1<<63), uint64(1<<63), uint64(0))
	f.Add(uint8(verbs.OpWriteImm), uint8(first|last), uint8(inArena), uint32(4096), uint32(4096), true, uint64(0), uint64(1), ^uint64(0), uint64(0))
	f.Add(uint8(verbs.OpWrite), uint8(first|last), uint8(inProcess), uint32(4096), uint32(4096), true, uint64(0), uint64(8), uint64(0), uint64(0))
	f.Add(uint8(verbs.OpFetchAdd), uint8(first|last), uint8(inSlot), uint32(8), uint32(8), false, uint64(8), uint64(3), uint64(0), uint64(0))
	f.Add(uint8(255), uint8(255), uint8(255), ^uint32(0), ^uint32(0), false, ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0))
	f.Fuzz(func(t *testing.T, op, flags, kind uint8, length, total uint32, rightKey bool, remote, d0, d1, answer uint64) {
		const size, guard = 8192, 4096
		m, err := memory.Alloc(size + 2*guard)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Free() })
		all := m.Bytes()
		for i := range all {
			all[i] = 0xee
		}
		h := newHostile(t, all[guard:guard+size])
		q := h.qp
		base := m.Addr() + guard
		sge := []verbs.SGE{{Addr: base, Length: size, LKey: h.key}}
		if _, err := q.PostRecv([]verbs.WorkRequest{{SGL: sge}}); err != nil {
			t.Fatal(err)
		}
		if _, err := q.PostSend([]verbs.WorkRequest{{Opcode: verbs.OpRead, SGL: sge}}); err != nil {
			t.Fatal(err)
		}
		for n := range uint64(2) { // the second is as likely as not the rest of the first
			s := h.peer.slot(n)
			*s = slot{op: op, flags: flags >> n, kind: kind, length: length, total: total, remote: base + remote, data: [3]uint64{d0, d1}}
			if rightKey {
				s.rkey = h.key
			}
			s.claim = claim(n, open)
			atomic.StoreUint32(&s.seq, uint32(n+1))
		}
		q.mu.Lock()
		own := q.conn.own.slot(0)
		own.kind, own.length, own.data = kind, length, [3]uint64{d0, d1}
		q.mu.Unlock()
		atomic.StoreUint64(q.conn.own.answer, answer)
		for range 3 {
			h.ctx.Progress(true)
			time.Sleep(100 * time.Microsecond) // views are mapped meanwhile
		}
		for i, x := range all {
			if (i < guard || i >= guard+size) && x != 0xee {
				t.Fatalf("byte %d beside the region was written", i-guard)
			}
		}
	})
}
