package bootstrap

import (
	"context"
	"time"

	"ringcli/ring/bootstrap/verdict"
)

// Fail fails the ring: the verdict goes round, and every wait on any rank ends with it. Of
// verdicts that are found at once the one that explains most counts, on all ranks; later
// ones are dropped. A verdict that suspects a neighbour waits for what the others see
// of that: Settled returns what came of it.
func (c *Control) Fail(v *Verdict) {
	c.mu.Lock()
	if suspect := c.suspectedBy(v); c.sealed && suspect >= 0 && c.proposal == nil {
		c.blame(suspect, v)
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	c.failFrom(v, nil)
}

func (c *Control) failFrom(v *Verdict, from *connection) {
	c.mu.Lock()
	first := c.fail(v, from)
	c.mu.Unlock()
	c.report(v, first)
}

// fail needs the lock; if it returns true the caller calls report without it. Once the ring
// is connected, a verdict settles before it counts.
func (c *Control) fail(v *Verdict, from *connection) bool {
	if c.failure != nil || c.leaving {
		return false
	}
	if c.sealed {
		c.propose(v, from)
		return false
	}
	c.complete(v)
	c.tellVerdict(v, from)
	c.conclude(v)
	return true
}

// tellVerdict needs the lock.
func (c *Control) tellVerdict(v *Verdict, from *connection) {
	for _, l := range c.connections {
		if l != nil && l != from {
			c.send(l, TypeVerdict, v)
		}
	}
}

// conclude needs the lock.
func (c *Control) conclude(v *Verdict) {
	now := time.Now()
	c.notice(now)
	if w := &c.watch; v.Told && v.Rank == c.rank && len(v.Tests) == 0 && now.Sub(w.sleptAt) < c.pace.silence {
		v.Slept = w.slept.Slept
	}
	c.failure = v
	c.kill(v)
	c.notify()
}

// propose takes the better one of verdicts that are found at once, tells it on, and makes
// it the failure once all ranks have had the time to hear of it. It needs the lock. This rank
// adds none of its own that says the same, or that comes so late that others have settled when
// it reaches them: survivors would end with different ones.
func (c *Control) propose(v *Verdict, from *connection) {
	now := time.Now()
	if v.Told && v.Kind == KindLost && v.Rank == c.rank && c.watch.of(v.By) != nil {
		v, from = c.contradict(v), nil
	}
	if own := from == nil; own && c.proposal != nil && (verdict.Alike(v, c.proposal) || now.Sub(c.proposedAt) > c.pace.settle/2) {
		return
	}
	c.complete(v)
	settling := c.proposal != nil
	if settling {
		if all := verdict.Combine(v, c.proposal, c.name); all == c.proposal || all == nil && !verdict.Better(v, c.proposal) {
			return
		} else if all != nil && all != v {
			v, from = all, nil
		}
	}
	if c.proposal = v; !settling {
		c.proposedAt = now
	}
	c.tellVerdict(v, from)
	if settling {
		return
	}
	c.running.Go(func() {
		settled, cancel := awake(c.life, c.pace.settle)
		defer cancel()
		if <-settled.Done(); c.life.Err() != nil {
			return
		}
		c.mu.Lock()
		v, first := c.proposal, c.failure == nil && !c.leaving
		if first {
			c.conclude(v)
		}
		c.mu.Unlock()
		c.report(v, first)
	})
}

// contradict makes what this rank has to say to a neighbour that has found it dead: something
// between the two resets connections and refuses new ones, as a firewall may.
func (c *Control) contradict(v *Verdict) *Verdict {
	cut := c.verdict(KindEdge, -1, "rank %d has found %s dead, which lives: the control connection between them was cut, and a new one refused", v.By, c.name(c.rank))
	cut.Fix = verdict.CureCut
	cut.Edge, cut.Doing, cut.Since = Direction{From: min(v.By, c.rank), To: max(v.By, c.rank), Both: true}, v.Doing, v.Since
	return cut
}

// failing tells whether the ring has failed, or is about to. It needs the lock.
func (c *Control) failing() bool {
	return c.failure != nil || c.proposal != nil || c.watch.faulty()
}

// Settled returns the verdict, and waits for it if one is about to come; nil if none is.
func (c *Control) Settled(ctx context.Context) *Verdict {
	ctx, cancel := context.WithTimeout(ctx, c.pace.death+c.pace.silence)
	defer cancel()
	for {
		c.mu.Lock()
		v, changed := c.failure, c.changed
		over := v != nil || c.leaving || !c.failing()
		c.mu.Unlock()
		if over {
			return v
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// complete adds to a verdict who the culprit is, and to one of this rank what ran. It needs
// the lock.
func (c *Control) complete(v *Verdict) {
	if m, known := c.members[v.Rank]; known && v.PID == 0 { // also for who did not meet the culprit
		v.Host, v.PID = m.Host, m.PID
	}
	if v.Told {
		return
	}
	if v.Confidence == "" {
		v.Confidence = Suspect
	}
	if v.Doing.IsZero() && c.doing != nil {
		v.Doing = c.doing()
	}
}
