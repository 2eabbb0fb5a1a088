// Package watch is where a rank is in its operations, for whoever asks, and who is at fault when
// that has not changed for long. While an operation gets on nothing is written but what is
// announced.
package watch

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ringcli/collective/lateness"
	"ringcli/collective/plan"
	"ringcli/collective/sharedmem"
	"ringcli/ring"
	"ringcli/ring/diagnose"
)

// LookAround is how long nothing may move before a rank looks whether the others are somewhere
// else, and the pause between two looks: longer than the normal skew of ranks, and short enough to
// report a mistake promptly.
const LookAround = 100 * time.Millisecond

const (
	// longLasts is for how long a place counts: it is noted again each time that a waiting
	// rank looks around, and not when it gets on.
	longLasts = 10 * LookAround
	// failedLasts is the same of an operation that has failed, while the others are asked why.
	failedLasts = 10 * time.Second
)

// Watch is of one rank. The exported fields belong to whoever holds the lock of the operations, as do
// the methods without another note.
type Watch struct {
	Ring  *ring.Ring
	Seq   uint64     // number of the operation that runs, or that ran last
	Token ring.Token // of the operation that runs
	Times lateness.Counter
	Teams []Team // who shares memory with this rank
	// Shared is how many operations ran over shared memory; who counts them publishes it.
	Shared uint64

	// announced is what this rank calls and where it is: in its board, if it has one. Who answers
	// other ranks reads it with answering held, which keeps the board. The control ring waits
	// for that: nothing else is done with it held.
	announced atomic.Pointer[sharedmem.Announcement]
	answering sync.Mutex
	long      atomic.Pointer[longWait] // where the operation waits; as announced
	inquiry   inquiry
}

// Team is ranks of whom each sees what the others announce.
type Team interface {
	// Elsewhere returns a rank that is, or was, in another operation of that number than mine; -1 is
	// none.
	Elsewhere(number uint64, mine sharedmem.Signature) (peer int, theirs sharedmem.Signature)
}

// longWait is a place where an operation has waited for long.
type longWait struct {
	diagnose.Place
	since, until time.Time // nothing has moved; it counts
}

// New makes the watch of this rank of a ring, which answers the others from now on.
func New(r *ring.Ring) *Watch {
	w := &Watch{Ring: r, inquiry: newInquiry()}
	w.announced.Store(new(sharedmem.Announcement))
	r.Stalls().SetCalls(w.Called)
	r.Stalls().SetPlace(w.place)
	return w
}

// Close ends it. What was announced in a board is nowhere from now on. Any goroutine may call it.
func (w *Watch) Close() {
	w.Ring.Stalls().SetPlace(nil)
	w.AnnounceIn(new(sharedmem.Announcement))
	w.inquiry.close()
}

// AnnounceIn has the operations be announced there.
func (w *Watch) AnnounceIn(a *sharedmem.Announcement) {
	w.answering.Lock()
	defer w.answering.Unlock()
	w.announced.Store(a)
}

// Announce announces an operation that is about to begin.
func (w *Watch) Announce(number uint64, s sharedmem.Signature) {
	w.announced.Load().Announce(number, s)
}

// Begin begins the next operation.
func (w *Watch) Begin(s sharedmem.Signature) {
	w.Seq++
	w.announced.Load().Begin(w.Seq, s)
}

// End ends the operation that runs.
func (w *Watch) End() { w.announced.Load().End(w.Seq) }

// Stopped returns why the operation must end now, if it must.
func (w *Watch) Stopped(ctx context.Context) error {
	if w.Ring.Failed() {
		return w.Ring.Err()
	}
	select {
	case <-ctx.Done():
		return fmt.Errorf("cancelled: %w", context.Cause(ctx))
	default:
		return nil
	}
}

// Waits notes where the operation has waited since then, for other ranks, and returns why it is of no
// use to wait on, if that is known.
func (w *Watch) Waits(p diagnose.Place, since time.Time, peers []int) error {
	w.Ring.Stalls().Waiting(fmt.Sprintf("go on with operation %d", w.Seq), peers, since)
	w.note(p, since, longLasts)
	return w.stalled(since)
}

// Failed keeps where the operation was while others are asked why it failed.
func (w *Watch) Failed(p diagnose.Place, since time.Time) { w.note(p, since, failedLasts) }

func (w *Watch) note(p diagnose.Place, since time.Time, lasts time.Duration) {
	w.long.Store(&longWait{p, since, time.Now().Add(lasts)})
}

// place is where this rank is, for any goroutine.
func (w *Watch) place() diagnose.Place {
	var p diagnose.Place
	w.answering.Lock()
	p.Operation, p.Running = w.announced.Load().At()
	w.answering.Unlock()
	if !p.Running {
		return p
	}
	p.Call = w.Called(p.Operation)
	if l := w.long.Load(); l != nil && l.Operation == p.Operation && time.Now().Before(l.until) {
		p.Gave = l.Gave
		for _, a := range l.Awaits {
			a.For = time.Since(l.since)
			p.Awaits = append(p.Awaits, a)
		}
	}
	return p
}

// Look finds out whether another rank is in another operation with the number
// of this one, whose signature is mine, or makes its edges for another algorithm: it
// would wait for this rank, and this one for it.
func (w *Watch) Look(mine sharedmem.Signature) error {
	for _, t := range w.Teams {
		if peer, theirs := t.Elsewhere(w.Seq, mine); peer >= 0 {
			return w.Disagreement(mine, peer, theirs)
		}
	}
	if a, ok := w.Ring.Stalls().Awaited(); ok && a.Call == w.Seq {
		return w.Ring.Stalls().Disagreement(w.Seq, map[int]string{w.Ring.Rank(): plan.CallOf(mine).String()}, a.String())
	}
	return nil
}

// Disagreement is that a peer runs something else as the present operation.
func (w *Watch) Disagreement(mine sharedmem.Signature, peer int, theirs sharedmem.Signature) error {
	return w.Ring.Stalls().Disagreement(w.Seq, map[int]string{w.Ring.Rank(): plan.CallOf(mine).String(), peer: plan.CallOf(theirs).String()}, "")
}

// Called tells other ranks what this one calls as an operation; any goroutine asks.
func (w *Watch) Called(number uint64) string {
	w.answering.Lock()
	defer w.answering.Unlock()
	if s, ok := w.announced.Load().Call(number); ok {
		return plan.CallOf(s).String()
	}
	return ""
}

// Awaited says what a rank awaits.
func Awaited(p diagnose.Place) string {
	var b strings.Builder
	for _, a := range p.Awaits {
		fmt.Fprintf(&b, "; awaited from rank %d: %s", a.From, a.What)
	}
	return b.String()
}

// stalled is to be called now and then while nothing has moved in the present operation
// since then. It begins to ask before the wait is too long, and asks on while it lasts; the
// error is that two answers in a row agree that to wait is of no use.
func (w *Watch) stalled(since time.Time) error {
	q := &w.inquiry
	bound, waited := w.Ring.Stalls().Bound(), time.Since(since)
	if found, before := q.take(w.Seq, since); before != nil && waited >= bound {
		switch b := found[0]; {
		case !b.Kind.Decided() || !b.Same(&before[0]):
		case b.Kind == diagnose.StallMismatch:
			return w.Ring.Stalls().Disagreement(w.Seq, nil, "")
		default:
			return &ring.StallError{Blame: b}
		}
	}
	if waited > bound/2 {
		q.ask(w.Seq, since, bound/8, w.Ring.Stalls().Find)
	}
	return nil
}

// Blamed adds who is at fault, if that is known, to the error of a wait that was given up.
func (w *Watch) Blamed(err error, since time.Time) error {
	if found, _ := w.inquiry.take(w.Seq, since); found != nil && found[0].Kind != diagnose.StallUnknown {
		return fmt.Errorf("%w; %w", err, &ring.StallError{Blame: found[0]})
	}
	return err
}
