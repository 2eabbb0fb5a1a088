package bootstrap

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"ringcli/ring/bootstrap/hosts"
	"ringcli/ring/bootstrap/verdict"
	"ringcli/trace"
)

// outcome is how far the ring has come, and the verdict that it ends with.
type outcome struct {
	own        *node
	life       *lifetime
	members    *members
	neighbours *neighbours
	changes    *changes
	slept      func() time.Duration // of this process lately, if that is worth telling

	mu         sync.Mutex   // guards the following
	sealed     bool         // the exchange is over: a newcomer is not for us
	leaving    bool         // Goodbye or Close was called
	doing      func() Doing // nil: idle
	proposal   *Verdict     // the best verdict yet, which is the failure once it has settled
	proposedAt time.Time    // when there was the first
	failure    *Verdict
}

// phase is how far the ring has come.
type phase struct {
	sealed, leaving bool
	proposed        bool     // a verdict is about to settle
	failure         *Verdict // nil: the ring has not failed
}

// over tells whether nothing that this rank finds matters to the ring any more.
func (p *phase) over() bool { return p.failure != nil || p.leaving }

func (o *outcome) phase() phase {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.now()
}

// now needs the lock.
func (o *outcome) now() phase { return phase{o.sealed, o.leaving, o.proposal != nil, o.failure} }

// seal notes that the exchange is over, and reports whether it was not yet.
func (o *outcome) seal() (first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	first = !o.sealed && !o.life.over()
	o.sealed = true
	return first
}

// leave notes that this rank leaves the ring, and returns the phase before.
func (o *outcome) leave() phase {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.now()
	o.leaving = true
	return before
}

func (o *outcome) setDoing(doing func() Doing) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.doing = doing
}

// report is called without the lock.
func (o *outcome) report(v *Verdict) {
	trace.Debug(trace.Bootstrap, "the ring failed", slog.String("kind", string(v.Kind)),
		slog.Int("fault", v.Rank), slog.String("why", v.Text))
	if o.own.cfg.OnFailure != nil {
		o.own.cfg.OnFailure(v)
	}
}

// fail fails the ring, unless it has failed or this rank leaves. Once the ring is connected, a
// verdict settles before it counts. from is the connection that it came over, nil if it is this
// rank's.
func (o *outcome) fail(v *Verdict, from *connection) {
	o.failIf(v, from, func() bool { return true })
}

// failForming fails a ring that still comes up, and reports whether it does: one that runs is
// not for a newcomer to break.
func (o *outcome) failForming(v *Verdict) (forming bool) {
	o.failIf(v, nil, func() bool {
		forming = !o.sealed
		return forming
	})
	return forming
}

func (o *outcome) failIf(v *Verdict, from *connection, still func() bool) {
	slept := o.slept()
	o.mu.Lock()
	first := false
	switch {
	case !still() || o.failure != nil || o.leaving:
	case o.sealed:
		o.proposeLocked(v, from)
	default:
		first = true
		o.complete(v)
		o.neighbours.tell(TypeVerdict, v, from)
		o.conclude(v, slept)
	}
	o.mu.Unlock()
	if first {
		o.report(v)
	}
}

// regroup ends a bring-up that the leader has decided otherwise about.
func (o *outcome) regroup(g *Group) {
	v := o.own.verdict(KindRegrouped, -1, "the leader goes on without %s", hosts.Names(o.own.cfg.Whole, g.Without))
	v.Group = g
	o.failForming(v)
}

// conclude needs the lock.
func (o *outcome) conclude(v *Verdict, slept time.Duration) {
	if v.Told && v.Rank == o.own.rank && len(v.Tests) == 0 {
		v.Slept = slept
	}
	o.failure = v
	o.life.fail(v)
	o.changes.notify()
}

// propose is for what this rank finds itself.
func (o *outcome) propose(v *Verdict) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p := o.now(); !p.over() { // it may have ended since the caller looked
		o.proposeLocked(v, nil)
	}
}

// proposeLocked takes the better one of verdicts that are found at once, tells it on, and makes
// it the failure once all ranks have had the time to hear of it. It needs the lock. This rank
// adds none of its own that says the same, or that comes so late that others have settled when
// it reaches them: survivors would end with different ones.
func (o *outcome) proposeLocked(v *Verdict, from *connection) {
	now := time.Now()
	if v.Told && v.Kind == KindLost && v.Rank == o.own.rank && o.own.isNeighbour(v.By) {
		v, from = o.refuteDeath(v), nil
	}
	if own := from == nil; own && o.proposal != nil && (verdict.Alike(v, o.proposal) || now.Sub(o.proposedAt) > o.own.pace.settle/2) {
		return
	}
	o.complete(v)
	settling := o.proposal != nil
	if settling {
		if all := verdict.Combine(v, o.proposal, o.own.name); all == o.proposal || all == nil && !verdict.Better(v, o.proposal) {
			return
		} else if all != nil && all != v {
			v, from = all, nil
		}
	}
	if o.proposal = v; !settling {
		o.proposedAt = now
	}
	o.neighbours.tell(TypeVerdict, v, from)
	if !settling {
		o.life.start(o.settle)
	}
}

// settle makes the proposal the failure once all ranks have had the time to hear of it.
func (o *outcome) settle() {
	settled, cancel := awake(o.life.ctx, o.own.pace.settle)
	defer cancel()
	if <-settled.Done(); o.life.over() {
		return
	}
	slept := o.slept()
	o.mu.Lock()
	v, first := o.proposal, o.failure == nil && !o.leaving
	if first {
		o.conclude(v, slept)
	}
	o.mu.Unlock()
	if first {
		o.report(v)
	}
}

// refuteDeath makes what this rank has to say to a neighbour that has found it dead: something
// between the two resets connections and refuses new ones, as a firewall may.
func (o *outcome) refuteDeath(v *Verdict) *Verdict {
	cut := o.own.verdict(KindEdge, -1, "rank %d has found %s dead, which lives: the control connection between them was cut, and a new one refused", v.By, o.own.name(o.own.rank))
	cut.Fix = verdict.CureCut
	cut.Edge, cut.Doing, cut.Since = Direction{From: min(v.By, o.own.rank), To: max(v.By, o.own.rank), Both: true}, v.Doing, v.Since
	return cut
}

// complete adds to a verdict who the culprit is, and to one of this rank what ran. It needs
// the lock.
func (o *outcome) complete(v *Verdict) {
	if m := o.members.of(v.Rank); m.PID != 0 && v.PID == 0 { // also for who did not meet the culprit
		v.Host, v.PID = m.Host, m.PID
	}
	if v.Told {
		return
	}
	if v.Confidence == "" {
		v.Confidence = Suspect
	}
	if v.Doing.IsZero() && o.doing != nil {
		v.Doing = o.doing()
	}
}

// completed adds to a verdict what is known of the culprit, and what ran here.
func (o *outcome) completed(v *Verdict) *Verdict {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.complete(v)
	return v
}

// settled returns the verdict, and waits for it while failing tells that one is about to come;
// nil if none is.
func (o *outcome) settled(ctx context.Context, failing func() bool) *Verdict {
	ctx, cancel := context.WithTimeout(ctx, o.own.pace.death+o.own.pace.silence)
	defer cancel()
	var p phase
	if !o.changes.until(ctx, func() bool { p = o.phase(); return p.over() || !failing() }) {
		return nil
	}
	return p.failure
}
