package collective

import (
	"fmt"
	"strings"
	"time"

	"ringcli/collective/plan"
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
	for _, s := range c.teams() {
		if peer, theirs := s.elsewhere(mine); peer >= 0 {
			return c.disagreement(mine, peer, theirs)
		}
	}
	if a, ok := c.ring.Awaited(); ok && a.Call == c.seq {
		return c.ring.Disagreement(c.seq, map[int]string{c.rank: plan.CallOf(mine).String()}, a.String())
	}
	return nil
}

// disagreement is that a peer runs something else as the present operation.
func (c *Comm) disagreement(mine sharedmem.Signature, peer int, theirs sharedmem.Signature) error {
	return c.ring.Disagreement(c.seq, map[int]string{c.rank: plan.CallOf(mine).String(), peer: plan.CallOf(theirs).String()}, "")
}

// called tells other ranks what this one calls as an operation.
func (c *Comm) called(number uint64) string {
	c.answering.Lock()
	defer c.answering.Unlock()
	if s, ok := c.announced.Load().Call(number); ok {
		return plan.CallOf(s).String()
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

// stalled is to be called now and then while nothing has moved in the present operation
// since then. It begins to ask before the wait is too long, and asks on while it lasts; the
// error is that two answers in a row agree that to wait is of no use.
func (c *Comm) stalled(since time.Time) error {
	q := &c.inquiry
	bound, waited := c.ring.StallBound(), time.Since(since)
	if found, before := q.Take(c.seq, since); before != nil && waited >= bound {
		switch b := found[0]; {
		case !b.Kind.Decided() || !b.Same(&before[0]):
		case b.Kind == diagnose.StallMismatch:
			return c.ring.Disagreement(c.seq, nil, "")
		default:
			return &ring.StallError{Blame: b}
		}
	}
	if waited > bound/2 {
		q.Ask(c.seq, since, bound/8, c.ring.Stalls)
	}
	return nil
}

// blamed adds who is at fault, if that is known, to the error of a wait that was given up.
func (c *Comm) blamed(err error, since time.Time) error {
	if found, _ := c.inquiry.Take(c.seq, since); found != nil && found[0].Kind != diagnose.StallUnknown {
		return fmt.Errorf("%w; %w", err, &ring.StallError{Blame: found[0]})
	}
	return err
}
