package verbstest

import (
	"errors"
	"testing"

	"ringcli/verbs"
)

func testQueues(t *testing.T, h Harness) {
	t.Run("RefusedChain", func(t *testing.T) { testRefusedChain(t, h) })
	t.Run("RefusedReceiveChain", func(t *testing.T) { testRefusedReceiveChain(t, h) })
	t.Run("SendQueueFull", func(t *testing.T) { testSendQueueFull(t, h) })
	t.Run("ReceiveQueueFull", func(t *testing.T) { testReceiveQueueFull(t, h) })
	t.Run("EmptyChain", func(t *testing.T) { testEmptyChain(t, h) })
}

// A refused chain reports the first bad request; those before it run, those
// behind it don't.
func testRefusedChain(t *testing.T, h Harness) {
	l := connect(t, h)
	_, init, err := l.a.qp.Query()
	l.ok(err, "query")
	tooMany := make([]verbs.SGE, init.Cap.MaxSendSGE+1)
	for i := range tooMany {
		tooMany[i] = l.a.sge(i, 1)
	}
	inline := send(0, l.a.sge(0, init.Cap.MaxInlineData+1))
	inline.Flags |= verbs.FlagInline
	bad := map[string]verbs.WorkRequest{
		"an unknown opcode":      request(99, 0, l.a.sge(0, 8)),
		"too many elements":      request(verbs.OpSend, 0, tooMany...),
		"too much inline":        inline,
		"an atomic of 4 bytes":   l.b.remote(request(verbs.OpFetchAdd, 0, l.a.sge(0, 4)), 0),
		"an atomic of no memory": l.b.remote(request(verbs.OpCompSwap, 0), 0),
	}
	if l.a.dev.AtomicCap == verbs.AtomicNone {
		delete(bad, "an atomic of 4 bytes")
		delete(bad, "an atomic of no memory")
	}
	l.receives(l.b, 0, 50, l.b.sge(0, 16))
	id := uint64(0)
	for name, wr := range bad {
		for _, at := range []int{0, 2, 3} {
			chain := []verbs.WorkRequest{
				send(id, l.a.sge(0, 8)), send(id+1, l.a.sge(0, 8)), send(id+2, l.a.sge(0, 8)), send(id+3, l.a.sge(0, 8)),
			}
			wr.ID = 1000
			chain[at] = wr
			n, err := l.a.qp.PostSend(chain)
			if n != at || !errors.Is(err, verbs.ErrInvalid) {
				t.Fatalf("%s at index %d: got index %d, %v, want an invalid argument", name, at, n, err)
			}
			l.a.send.each(verbs.Success, id, id+uint64(at), "what stands before %s", name)
			l.b.recv.each(verbs.Success, id, id+uint64(at), "what stands before %s", name)
			id += uint64(at)
		}
	}
	l.post(l.a, send(id, l.a.sge(0, 8)))
	l.a.send.one(id, verbs.Success, "a SEND after refused chains")
	l.b.recv.one(id, verbs.Success, "a SEND after refused chains")
}

func testRefusedReceiveChain(t *testing.T, h Harness) {
	l := connect(t, h)
	_, init, err := l.b.qp.Query()
	l.ok(err, "query")
	tooMany := make([]verbs.SGE, init.Cap.MaxRecvSGE+1)
	n, err := l.b.qp.PostRecv([]verbs.WorkRequest{{ID: 1}, {ID: 2}, {ID: 3, SGL: tooMany}, {ID: 4}})
	if n != 2 || !errors.Is(err, verbs.ErrInvalid) {
		t.Fatalf("too many elements at index 2: got %d, %v, want an invalid argument", n, err)
	}
	l.receives(l.b, 5, 6)
	l.post(l.a, send(1), send(2), send(3))
	l.a.send.each(verbs.Success, 1, 4, "three SENDs")
	l.b.recv.each(verbs.Success, 1, 3, "the receives before the refused one")
	l.b.recv.one(5, verbs.Success, "the receive posted later")
}

// A send queue takes as many requests as it says, then no more until some are done.
func testSendQueueFull(t *testing.T, h Harness) {
	const asked = 16
	l := connect(t, h, func(c *config) { c.Cap.MaxSendWR, c.CQE = asked, 4096 })
	_, init, err := l.a.qp.Query()
	l.ok(err, "query")
	// Without a receive at b no SEND ends.
	full := l.untilFull(func(id uint64) (int, error) {
		return l.a.qp.PostSend([]verbs.WorkRequest{send(id, l.a.sge(0, 8))})
	})
	if full < init.Cap.MaxSendWR || init.Cap.MaxSendWR < asked {
		t.Errorf("asked for %d requests, got %d, could post %d", asked, init.Cap.MaxSendWR, full)
	}
	n, err := l.a.qp.PostSend([]verbs.WorkRequest{send(1), send(2)})
	if n != 0 || !errors.Is(err, verbs.ErrNoMemory) {
		t.Errorf("a chain into a full queue: got %d, %v", n, err)
	}
	for id := range uint64(full) {
		l.receives(l.b, id, id+1, l.b.sge(0, 8))
		l.a.send.one(id, verbs.Success, "once receives are posted")
		l.b.recv.one(id, verbs.Success, "once receives are posted")
	}
	l.receives(l.b, 0, uint64(asked), l.b.sge(0, 8))
	for id := range uint64(asked) {
		l.post(l.a, send(id, l.a.sge(0, 8)))
	}
	l.a.send.each(verbs.Success, 0, asked, "after the queue was full")
}

func testReceiveQueueFull(t *testing.T, h Harness) {
	const asked = 16
	l := connect(t, h, func(c *config) { c.Cap.MaxRecvWR, c.CQE = asked, 4096 })
	_, init, err := l.b.qp.Query()
	l.ok(err, "query")
	full := l.untilFull(func(id uint64) (int, error) {
		return l.b.qp.PostRecv([]verbs.WorkRequest{{ID: id, SGL: []verbs.SGE{l.b.sge(0, 8)}}})
	})
	if full < init.Cap.MaxRecvWR || init.Cap.MaxRecvWR < asked {
		t.Errorf("asked for %d requests, got %d, could post %d", asked, init.Cap.MaxRecvWR, full)
	}
	for id := range uint64(full) {
		l.post(l.a, send(id, l.a.sge(0, 8)))
		l.a.send.one(id, verbs.Success, "into a full receive queue")
		l.b.recv.one(id, verbs.Success, "into a full receive queue")
	}
	l.receives(l.b, 0, asked, l.b.sge(0, 8)) // there is room again
}

// untilFull posts until the queue is full and returns how many it took.
func (l *pair) untilFull(post func(id uint64) (int, error)) int {
	l.t.Helper()
	for id := range 1 << 16 {
		n, err := post(uint64(id))
		if errors.Is(err, verbs.ErrNoMemory) && n == 0 {
			return id
		}
		if err != nil || n != 1 {
			l.t.Fatalf("request %d: got %d, %v, want %v when the queue is full", id, n, err, verbs.ErrNoMemory)
		}
	}
	l.t.Fatal("a queue of 16 takes 65536 requests")
	return 0
}

func testEmptyChain(t *testing.T, h Harness) {
	l := connect(t, h)
	if n, err := l.a.qp.PostSend(nil); n != 0 || err != nil {
		t.Errorf("posting no send: got %d, %v", n, err)
	}
	if n, err := l.a.qp.PostRecv(nil); n != 0 || err != nil {
		t.Errorf("posting no receive: got %d, %v", n, err)
	}
}
