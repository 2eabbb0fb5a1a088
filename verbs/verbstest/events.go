package verbstest

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"ringcli/verbs"
)

// brief is how long a test waits for an event that must not come.
const brief = 10 * time.Millisecond

func testEvents(t *testing.T, h Harness) {
	t.Run("Timeout", func(t *testing.T) { testEventTimeout(t, h) })
	t.Run("OnePerArming", func(t *testing.T) { testEventOnce(t, h) })
	t.Run("AlreadyQueued", func(t *testing.T) { testEventAlreadyQueued(t, h) })
	t.Run("Solicited", func(t *testing.T) { testEventSolicited(t, h) })
	t.Run("Failure", func(t *testing.T) { testEventFailure(t, h) })
	t.Run("WhichQueue", func(t *testing.T) { testEventWhichQueue(t, h) })
	t.Run("Waiter", func(t *testing.T) { testWaiter(t, h) })
}

// event waits for the next event, which must be this queue's. Nobody polls
// meanwhile: progress is the provider's own.
func (l *pair) event(s *side, q *queue, why string) {
	l.t.Helper()
	cq, err := s.ch.GetEvent(l.h.Deadline)
	if err != nil {
		l.t.Fatalf("waiting %v for an event of %s, %s: %v", l.h.Deadline, q.name, why, err)
	}
	if cq != q.cq {
		l.t.Fatalf("%s: the event is another queue's, want %s", why, q.name)
	}
}

func (l *pair) noEvent(s *side, why string) {
	l.t.Helper()
	if _, err := s.ch.GetEvent(brief); !errors.Is(err, verbs.ErrTimeout) {
		l.t.Fatalf("%s: got %v, want no event", why, err)
	}
}

func (l *pair) arm(q *queue, solicitedOnly bool) {
	l.t.Helper()
	l.ok(q.cq.ReqNotify(solicitedOnly), "arm %s", q.name)
}

func testEventTimeout(t *testing.T, h Harness) {
	l := connect(t, h)
	l.arm(l.a.recv, false)
	for _, d := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond} {
		start := time.Now()
		_, err := l.a.ch.GetEvent(d)
		if took := time.Since(start); !errors.Is(err, verbs.ErrTimeout) || took < d || took > d+h.Deadline {
			t.Errorf("waiting %v for an event that doesn't come: got %v after %v", d, err, took)
		}
	}
}

func testEventOnce(t *testing.T, h Harness) {
	l := connect(t, h)
	l.receives(l.b, 0, 10)
	l.post(l.a, send(0))
	l.b.recv.one(0, verbs.Success, "not armed")
	l.noEvent(l.b.side, "a completion of a queue that is not armed")
	for id := uint64(1); id < 7; id += 2 {
		l.arm(l.b.recv, false)
		l.post(l.a, send(id))
		l.event(l.b.side, l.b.recv, "an armed queue")
		l.b.recv.one(id, verbs.Success, "armed")
		l.post(l.a, send(id+1))
		l.b.recv.one(id+1, verbs.Success, "no longer armed")
		l.noEvent(l.b.side, "a second completion after one arming")
	}
}

// What is already queued makes no event: the caller that arms must poll once more.
func testEventAlreadyQueued(t *testing.T, h Harness) {
	l := connect(t, h)
	l.receives(l.b, 0, 2)
	l.post(l.a, send(0))
	l.a.send.one(0, verbs.Success, "a SEND, so that its receive is queued")
	l.arm(l.b.recv, false)
	l.noEvent(l.b.side, "a completion queued before the arming")
	l.post(l.a, send(1))
	l.event(l.b.side, l.b.recv, "a completion after the arming")
	l.b.recv.each(verbs.Success, 0, 2, "both")
}

func testEventSolicited(t *testing.T, h Harness) {
	l := connect(t, h)
	solicited := func(wr verbs.WorkRequest) verbs.WorkRequest {
		wr.Flags |= verbs.FlagSolicited
		return wr
	}
	size := 2*l.mtu() + 1
	for id, op := range []verbs.Opcode{verbs.OpSend, verbs.OpSendImm, verbs.OpWriteImm, verbs.OpSend} {
		l.receives(l.b, uint64(10*id), uint64(10*id+2), l.b.sge(0, size))
		l.arm(l.b.recv, true)
		l.post(l.a, l.b.remote(request(op, 1, l.a.sge(0, size)), 0))
		l.b.recv.one(uint64(10*id), verbs.Success, "%s, not solicited", op)
		l.noEvent(l.b.side, "an unsolicited "+op.String()+" at a queue armed for solicited ones")
		l.post(l.a, solicited(l.b.remote(request(op, 1, l.a.sge(0, size)), 0)))
		l.event(l.b.side, l.b.recv, "a solicited "+op.String())
		l.b.recv.one(uint64(10*id+1), verbs.Success, "%s, solicited", op)
	}
	// Armed for any completion, then for solicited ones: the wider one stays.
	l.receives(l.b, 100, 101, l.b.sge(0, size))
	l.arm(l.b.recv, false)
	l.arm(l.b.recv, true)
	l.post(l.a, send(1))
	l.event(l.b.side, l.b.recv, "a queue armed for all, then for solicited ones")
}

// A failure wakes also those who wait for solicited completions.
func testEventFailure(t *testing.T, h Harness) {
	l := connect(t, h)
	l.receives(l.b, 1, 2)
	l.arm(l.b.recv, true)
	l.modify(l.b, verbs.StateErr, 0)
	l.event(l.b.side, l.b.recv, "a flushed receive")
	l.b.recv.one(1, verbs.FlushError, "a flushed receive")
}

// Two queues on one channel.
func testEventWhichQueue(t *testing.T, h Harness) {
	l := connect(t, h)
	l.receives(l.b, 1, 2)
	l.receives(l.a, 1, 2)
	l.arm(l.a.send, false)
	l.arm(l.a.recv, false)
	l.post(l.b, send(1))
	l.event(l.a.side, l.a.recv, "a SEND from b")
	l.post(l.a, send(1))
	l.event(l.a.side, l.a.send, "a SEND to b")
}

// Waiter, as everything above the verbs waits: no policy misses a completion.
func testWaiter(t *testing.T, h Harness) {
	for _, policy := range []verbs.WaitPolicy{verbs.WaitGosched, verbs.WaitYield, verbs.WaitBlock} {
		t.Run(policy.String(), func(t *testing.T) {
			n := uint64(200)
			if runtime.GOMAXPROCS(0) == 1 {
				n = 20 // a waiter that yields to processes has the other end's goroutine wait for a tick
			}
			l := connect(t, h)
			done := make(chan error, 1)
			go func() { done <- echo(l.b, policy, n, h.Deadline) }()
			w := verbs.Waiter{CQ: l.a.recv.cq, Channel: l.a.ch, Policy: policy}
			l.queues = []*queue{l.a.send}
			for id := range n {
				l.receives(l.a, id, id+1, l.a.sge(0, 8))
				l.post(l.a, send(id, l.a.sge(8, 8)))
				if err := next(&w, id, h.Deadline); err != nil {
					t.Fatalf("a's receive %d: %v", id, err)
				}
				l.a.send.one(id, verbs.Success, "SEND %d", id)
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		})
	}
}

// echo answers n messages. It runs in a goroutine of its own, so it returns errors.
func echo(e *end, policy verbs.WaitPolicy, n uint64, limit time.Duration) error {
	recv := verbs.Waiter{CQ: e.recv.cq, Channel: e.ch, Policy: policy}
	sent := verbs.Waiter{CQ: e.send.cq, Policy: policy} // its time-outs are short sleeps
	for id := range n {
		if _, err := e.qp.PostRecv([]verbs.WorkRequest{{ID: id, SGL: []verbs.SGE{e.sge(0, 8)}}}); err != nil {
			return err
		}
		if err := next(&recv, id, limit); err != nil {
			return errors.Join(errors.New("b's receive"), err)
		}
		if _, err := e.qp.PostSend([]verbs.WorkRequest{send(id, e.sge(8, 8))}); err != nil {
			return err
		}
		if err := next(&sent, id, limit); err != nil {
			return errors.Join(errors.New("b's send"), err)
		}
	}
	return nil
}

// next waits for one successful completion.
func next(w *verbs.Waiter, id uint64, limit time.Duration) error {
	var wc [1]verbs.Completion
	for deadline := time.Now().Add(limit); ; {
		n, err := w.CQ.Poll(wc[:])
		switch {
		case err != nil:
			return err
		case n == 1 && wc[0].ID == id:
			w.Reset()
			return wc[0].Status.Err()
		case n == 1:
			return errors.New("another completion than the next")
		case time.Now().After(deadline):
			return verbs.ErrTimeout
		}
		if err := w.Wait(); err != nil {
			return err
		}
	}
}
