package soft

import (
	"testing"
	"time"

	"ringcli/verbs"
	"ringcli/verbs/objects"
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
		e.waitsForEver(t) // what b leaves unanswered does not come again, however slow the machine is
	}
	c := &talk{t: t, a: a, b: b, q: b.qp.(*qp), now: objects.Clock()}
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
	if got := c.q.counts.AckPkts; got != n {
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

// idle lets many rounds in a row pass that find nothing, and nothing more is to come.
func (c *talk) idle() {
	c.t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for c.round(); c.q.ep.idle < 2*ackRounds || !c.q.rc.Idle(); c.round() {
		if time.Now().After(deadline) {
			c.t.Fatal("an answer was not acknowledged")
		}
	}
}

// converse has n messages asked and answered, each answer with an ACK: acks of them
// have been before.
func (c *talk) converse(n int, acks *uint64) {
	c.t.Helper()
	for range n {
		c.ask()
		c.answer()
		*acks++
		c.wantAcks(*acks, "behind an answer")
	}
}

// waitInVain has an ACK wait for an answer that does not come.
func (c *talk) waitInVain(acks *uint64) {
	c.t.Helper()
	c.ask()
	c.idle()
	c.now += ackLongest
	c.round()
	*acks++
	c.wantAcks(*acks, "long after a message that was not answered")
}

// In a conversation it stays for the answer, and for ackLongest if there is none.
func TestAckWaitsForAnswer(t *testing.T) {
	c := newTalk(t)
	acks := uint64(0)
	c.converse(conversation, &acks)
	c.ask()
	c.idle()
	c.wantAcks(acks, "in a conversation")
	c.answer()
	acks++
	c.wantAcks(acks, "behind an answer")

	c.waitInVain(&acks)
	c.answer()
	c.now += ackLongest
	c.ask()
	c.idle()
	acks++
	c.wantAcks(acks, "when the conversation had ended")

	c.answer()
	c.converse(conversation, &acks)
	c.ask()
	for range ackPackets - 1 {
		c.idle()
		c.wantAcks(acks, "while the peer goes on")
		c.ask()
	}
	c.idle()
	c.wantAcks(acks+1, "when the peer has sent much")
}

// A peer that went on as soon as it had the ACK had waited for it: that is not to
// happen again soon.
func TestAckIsWaitedFor(t *testing.T) {
	c := newTalk(t)
	acks := uint64(0)
	c.converse(conversation, &acks)
	c.waitInVain(&acks)
	c.ask()
	c.idle()
	acks++
	c.wantAcks(acks, "when the conversation had ended")
	c.answer()
	c.converse(conversation, &acks)
	c.ask()
	c.idle()
	acks++
	c.wantAcks(acks, "after as many answers as made a conversation before")
	c.answer()
	c.converse(4*conversation, &acks)
	c.ask()
	c.idle()
	c.wantAcks(acks, "after four times as many")
}

// Where answers take their time, as between ranks that take turns on a CPU, an ACK waits for the
// next one: for a few times as long as they take, and not for ever.
func TestAckWaitsAsLongAsAnswersTake(t *testing.T) {
	c := newTalk(t)
	c.q.rc.Modify(&verbs.QPAttr{Timeout: 20}, verbs.AttrTimeout, &c.q.ep.out)
	const took, pause = 2 * int64(time.Millisecond), 100 * int64(time.Millisecond)
	for range 5 * conversation {
		c.now += pause
		c.ask()
		c.now += took
		c.answer()
	}
	c.now += pause
	before := c.q.counts.AckPkts
	c.ask()
	c.now += took + took/2
	for range 2 * ackRounds {
		c.round()
	}
	c.wantAcks(before, "when an answer may still come")
	c.now += pause
	c.round()
	c.wantAcks(before+1, "when none came")
}
