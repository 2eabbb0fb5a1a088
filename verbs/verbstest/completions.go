package verbstest

import (
	"errors"
	"testing"
	"time"

	"ringcli/verbs"
)

func testCompletions(t *testing.T, h Harness) {
	t.Run("Batches", func(t *testing.T) { testBatches(t, h) })
	t.Run("SharedQueue", func(t *testing.T) { testSharedQueue(t, h) })
	t.Run("OneQueueForTwoPairs", func(t *testing.T) { testQueueOfTwoPairs(t, h) })
	t.Run("Overrun", func(t *testing.T) { testOverrun(t, h) })
}

// Poll returns at most as many as asked for, and loses none.
func testBatches(t *testing.T, h Harness) {
	const n = 30
	l := connect(t, h)
	l.queues = []*queue{l.b.recv} // this test polls a's queue by itself
	l.receives(l.b, 0, n)
	for id := range uint64(n) {
		l.post(l.a, send(id))
	}
	l.b.recv.each(verbs.Success, 0, n, "receives")
	next, deadline := uint64(0), time.Now().Add(h.Deadline)
	for _, size := range []int{1, 4, 7, 0, 3, 64} {
		wc := make([]verbs.Completion, size)
		for {
			got, err := l.a.send.cq.Poll(wc)
			l.ok(err, "poll")
			if got > size {
				t.Fatalf("polled for %d, got %d", size, got)
			}
			for _, c := range wc[:got] {
				if c.ID != next || c.Status != verbs.Success {
					t.Fatalf("completion {%d %s}, want {%d success}", c.ID, c.Status, next)
				}
				next++
			}
			if size < 64 && (got > 0 || size == 0) || next == n {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("waited %v for %d completions in batches; had %d", h.Deadline, n, next)
			}
		}
	}
}

// One queue for both directions of a queue pair.
func testSharedQueue(t *testing.T, h Harness) {
	const n = 20
	l := connect(t, h, func(c *config) { c.SharedCQ = true })
	for id := range uint64(n) {
		l.receives(l.a, 1000+id, 1001+id, l.a.sge(0, 8))
		l.receives(l.b, 1000+id, 1001+id, l.b.sge(0, 8))
		l.post(l.a, send(id, l.a.sge(8, 8)))
		l.post(l.b, send(id, l.b.sge(8, 8)))
	}
	for _, e := range []*end{l.a, l.b} {
		sends, receives := uint64(0), uint64(1000)
		for _, wc := range e.send.take(2*n, "sends and receives of %s", e.name) {
			next, opcode := &sends, verbs.WCSend
			if wc.ID >= 1000 {
				next, opcode = &receives, verbs.WCRecv
			}
			if wc.ID != *next || wc.Opcode != opcode || wc.Status != verbs.Success {
				t.Errorf("%s: completion {%d %s %s}, want %d, %s", e.name, wc.ID, wc.Opcode, wc.Status, *next, opcode)
			}
			*next++
		}
	}
}

// Two queue pairs complete into one queue, which tells them apart.
func testQueueOfTwoPairs(t *testing.T, h Harness) {
	const n = 20
	c := newConfig(t, h, nil)
	r := open(t, h, 4096, rightsAll)
	first := r.connect(r.a, r.b)
	second := &pair{rig: r, a: &end{side: r.a, attr: c.A, send: first.a.send, recv: first.a.recv}, b: r.end(r.b, c, c.B)}
	second.a.qp = r.newQP(second.a, c.Cap, false)
	r.address(second.a, second.b)
	r.address(second.b, second.a)
	r.up(second.a, verbs.StateRTS)
	r.up(second.b, verbs.StateRTS)
	for id := range uint64(n) {
		for _, l := range []*pair{first, second} {
			r.receives(l.b, id, id+1)
			r.post(l.a, send(id))
		}
	}
	next := map[uint32]uint64{}
	for _, wc := range first.a.send.take(2*n, "the SENDs of two queue pairs") {
		if wc.ID != next[wc.QPN] || wc.Status != verbs.Success {
			t.Errorf("completion {%d %s} of QP %#x, want %d", wc.ID, wc.Status, wc.QPN, next[wc.QPN])
		}
		next[wc.QPN]++
	}
	for _, l := range []*pair{first, second} {
		if got := next[l.a.qp.Num()]; got != n {
			t.Errorf("QP %#x has %d completions, want %d", l.a.qp.Num(), got, n)
		}
		l.b.recv.each(verbs.Success, 0, n, "receives")
	}
}

// More completions than a queue holds are not lost in silence.
func testOverrun(t *testing.T, h Harness) {
	h.skip(t, NoOverrun)
	if h.Impaired {
		t.Skip("what is lost on the way must not hide what is lost in the queue")
	}
	l := connect(t, h, func(c *config) { c.CQE, c.Cap.MaxSendWR = 1, 512 })
	l.queues = nil // nobody polls
	for id := range uint64(512) {
		l.post(l.a, request(verbs.OpWrite, id))
	}
	deadline := time.Now().Add(h.Deadline)
	time.Sleep(20 * time.Millisecond) // completions arrive while nobody looks
	wc, got := make([]verbs.Completion, 1), 0
	for {
		n, err := l.a.send.cq.Poll(wc)
		if errors.Is(err, verbs.ErrOverrun) {
			return
		}
		l.ok(err, "poll")
		if got += n; got == 512 {
			t.Skip("the queue of 1 holds 512 completions: no overrun to be had")
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %v; had polled %d of 512 completions", h.Deadline, verbs.ErrOverrun, got)
		}
	}
}
