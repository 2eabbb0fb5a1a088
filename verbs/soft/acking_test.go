package soft

import (
	"testing"
	"time"

	"ringcli/verbs"
)

// talk is a conversation in which one end's time is the test's own, and nobody else
// polls there.
type talk struct {
	t    *testing.T
	a, b *end
	q    *qp // b's
	now  int64
}

// newTalk holds the lock of b's endpoint until the test ends.
func newTalk(t *testing.T) *talk {
	a, b := pair(t, 4096)
	for _, e := range []*end{a, b} {
		for range 100 {
			if _, err := e.qp.PostRecv([]verbs.WorkRequest{{ID: 9}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	c := &talk{t: t, a: a, b: b, q: b.qp.(*qp), now: clock()}
	c.q.ep.mu.Lock()
	t.Cleanup(c.q.ep.mu.Unlock)
	return c
}

// ask has a send a message, which b takes.
func (c *talk) ask() {
	c.t.Helper()
	if _, err := c.a.qp.PostSend(request(verbs.OpWriteImm, c.a, c.b, 64)); err != nil {
		c.t.Fatal(err)
	}
	// An ACK of a's may come before it.
	before := c.q.rc.Unacknowledged()
	for deadline := time.Now().Add(10 * time.Second); c.q.rc.Unacknowledged() == before; c.round() {
		if time.Now().After(deadline) {
			c.t.Fatal("the message has not come")
		}
	}
}

// round is one of b's polls.
func (c *talk) round() { c.q.ep.progress(c.now) }

// answer has b send a message.
func (c *talk) answer() {
	c.t.Helper()
	if err := c.q.rc.PostSend(&request(verbs.OpWriteImm, c.b, c.a, 64)[0], &c.q.ep.out); err != nil {
		c.t.Fatal(err)
	}
	c.q.ep.sendFor(c.q, c.now, false)
}

// wantAcks checks how many ACKs b has sent.
func (c *talk) wantAcks(n uint64, when string) {
	c.t.Helper()
	if got := c.q.ep.counters.AckPkts; got != n {
		c.t.Fatalf("%s: %d ACKs, expected %d", when, got, n)
	}
}

// An ACK stays for one round that finds nothing, and leaves with the next.
func TestAckWaitsForAMoment(t *testing.T) {
	c := newTalk(t)
	c.ask()
	for range ackIdle {
		c.wantAcks(0, "before so many rounds found nothing")
		c.round()
	}
	c.wantAcks(1, "after them")
}

// In a conversation it stays for the answer, and for ackLongest if there is none.
func TestAckWaitsForAnswer(t *testing.T) {
	c := newTalk(t)
	answers := uint64(0)
	converse := func() {
		for range conversation {
			c.ask()
			c.answer()
			answers++
			c.wantAcks(answers, "behind an answer")
		}
	}
	idle := func() {
		for range 10 * ackIdle {
			c.round()
		}
	}
	converse()
	c.ask()
	idle()
	c.wantAcks(answers, "in a conversation")
	c.answer()
	answers++
	c.wantAcks(answers, "behind an answer")

	c.ask()
	c.now += ackLongest
	c.round()
	answers++
	c.wantAcks(answers, "long after a message that was not answered")
	c.answer()
	c.ask()
	idle()
	answers++
	c.wantAcks(answers, "when the conversation had ended")

	c.answer()
	converse()
	c.ask()
	for n := 1; n < ackPackets; n++ {
		idle()
		c.wantAcks(answers, "while the peer goes on")
		c.ask()
	}
	idle()
	c.wantAcks(answers+1, "when the peer has sent much")
}
