package collective

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"ringcli/collective/sharedmem"
	"ringcli/ring"
	"ringcli/ring/diagnose"
)

// This file is where a rank is in its operations, for whoever asks, and who is at fault
// when that has not changed for long. While an operation gets on nothing is written but
// what is announced.

// longWait is a place where an operation has waited for long.
type longWait struct {
	diagnose.Place
	since, until time.Time // nothing has moved; it counts
}

const (
	// longLasts is for how long a place counts: it is noted again each time that a waiting
	// rank looks around, and not when it gets on.
	longLasts = 10 * lookAround
	// failedLasts is the same of an operation that has failed, while the others are asked why.
	failedLasts = 10 * time.Second
)

// note notes where the operation that runs waits.
func (c *Comm) note(p diagnose.Place, since time.Time, lasts time.Duration) {
	c.long.Store(&longWait{p, since, time.Now().Add(lasts)})
}

// place is where this rank is.
func (c *Comm) place() diagnose.Place {
	var p diagnose.Place
	c.answering.Lock()
	p.Operation, p.Running = c.announced.Load().At()
	c.answering.Unlock()
	if !p.Running {
		return p
	}
	p.Call = c.called(p.Operation)
	if l := c.long.Load(); l != nil && l.Operation == p.Operation && time.Now().Before(l.until) {
		p.Gave = l.Gave
		for _, a := range l.Awaits {
			a.For = time.Since(l.since)
			p.Awaits = append(p.Awaits, a)
		}
	}
	return p
}

// place is where the operation waits.
func (f *flow) place() diagnose.Place {
	p := diagnose.Place{Operation: f.seq}
	f.engine.where(&p)
	return p
}

// failed keeps where the operation was while others are asked why it failed.
func (f *flow) failed(idleSince time.Time) {
	if idleSince.IsZero() {
		idleSince = time.Now()
	}
	f.c.note(f.place(), idleSince, failedLasts)
}

// lookAround finds out whether another rank is in another operation with the number
// of this one, whose signature is mine, or makes its edges for another algorithm: it
// would wait for this rank, and this one for it.
func (c *Comm) lookAround(mine sharedmem.Signature) error {
	if c.shared != nil {
		if peer, theirs := c.shared.elsewhere(mine); peer >= 0 {
			return c.disagreement(mine, peer, theirs)
		}
	}
	if a, ok := c.ring.Awaited(); ok && a.Call == c.seq {
		return c.ring.Disagreement(c.seq, map[int]string{c.rank: callOf(mine).String()}, a.String())
	}
	return nil
}

// disagreement is that a peer runs something else as the present operation.
func (c *Comm) disagreement(mine sharedmem.Signature, peer int, theirs sharedmem.Signature) error {
	return c.ring.Disagreement(c.seq, map[int]string{c.rank: callOf(mine).String(), peer: callOf(theirs).String()}, "")
}

// called tells other ranks what this one calls as an operation.
func (c *Comm) called(number uint64) string {
	c.answering.Lock()
	defer c.answering.Unlock()
	if s, ok := c.announced.Load().Call(number); ok {
		return callOf(s).String()
	}
	return ""
}

// awaitedText says what a rank awaits.
func awaitedText(awaits []diagnose.Await) string {
	var b strings.Builder
	for _, a := range awaits {
		fmt.Fprintf(&b, "; awaited from rank %d: %s", a.From, a.What)
	}
	return b.String()
}

// inquiry asks the other ranks who is at fault, beside an operation that waits. But for the
// answers, it belongs to the holder of the lock of the Comm.
type inquiry struct {
	life    context.Context // ends with the Comm
	end     context.CancelFunc
	running sync.WaitGroup
	answers chan inquired // of capacity 1: one is asked at a time
	asking  bool
	asked   time.Time
	last    inquired // of the wait that lasts
}

// inquired is what was found of a wait.
type inquired struct {
	number uint64 // of the operation that waits
	since  time.Time
	found  []diagnose.Blame // the gravest first; nil if nothing was found yet
}

func (a *inquired) of(number uint64, since time.Time) bool {
	return a.number == number && a.since.Equal(since)
}

func newInquiry() inquiry {
	life, end := context.WithCancel(context.Background())
	return inquiry{life: life, end: end, answers: make(chan inquired, 1)}
}

// close ends what is being asked.
func (q *inquiry) close() {
	q.end()
	q.running.Wait()
}

// take takes an answer if there is one about this wait, and returns the answer before it.
func (q *inquiry) take(number uint64, since time.Time) (before inquired, ok bool) {
	if !q.last.of(number, since) {
		q.last = inquired{number: number, since: since}
	}
	select {
	case a := <-q.answers:
		q.asking = false
		if before = q.last; a.of(number, since) {
			q.last = a
			return before, before.found != nil
		}
	default:
	}
	return before, false
}

// stalled is to be called now and then while nothing has moved in the present operation
// since then. It begins to ask before the wait is too long, and asks on while it lasts; the
// error is that two answers in a row agree that to wait is of no use.
func (c *Comm) stalled(since time.Time) error {
	q := &c.inquiry
	bound, waited := c.ring.StallBound(), time.Since(since)
	if before, ok := q.take(c.seq, since); ok && waited >= bound {
		switch b := q.last.found[0]; {
		case !b.Kind.Decided() || !b.Same(&before.found[0]):
		case b.Kind == diagnose.StallMismatch:
			return c.ring.Disagreement(c.seq, nil, "")
		default:
			return &ring.StallError{Blame: b}
		}
	}
	if !q.asking && waited > bound/2 && time.Since(q.asked) > bound/8 {
		q.asking, q.asked = true, time.Now()
		a := inquired{number: c.seq, since: since}
		q.running.Go(func() {
			a.found = c.ring.Stalls(q.life)
			q.answers <- a
		})
	}
	return nil
}

// blamed adds who is at fault, if that is known, to the error of a wait that was given up.
func (c *Comm) blamed(err error, since time.Time) error {
	c.inquiry.take(c.seq, since)
	if found := c.inquiry.last.found; found != nil && found[0].Kind != diagnose.StallUnknown {
		return fmt.Errorf("%w; %w", err, &ring.StallError{Blame: found[0]})
	}
	return err
}
