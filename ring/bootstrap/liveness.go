package bootstrap

import "time"

// keepTime sends signs of life and notices neighbours that give none.
func (c *Control) keepTime() {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	last, beat := time.Now(), time.Now()
	var moved uint64
	movedAt := last
	for {
		select {
		case <-c.life.Done():
			return
		case <-ticker.C:
		}
		now := time.Now()
		if c.cfg.Moved != nil {
			if m := c.cfg.Moved(); m != moved {
				moved, movedAt = m, now
			}
		}
		// If this process was stopped itself, others must not pay for it.
		slept := now.Sub(last) > 10*tick
		last = now
		beating := now.Sub(beat) >= heartbeat
		if beating {
			beat = now
		}
		if slept {
			movedAt = now
		}
		if beating {
			c.lookForHalfOpen()
		}
		c.mu.Lock()
		var v *Verdict
		for _, l := range c.connections {
			if l == nil || l.ended {
				continue
			}
			if slept {
				l.heard = now
			}
			if beating && len(l.out) == 0 {
				if c.sealed {
					c.send(l, TypeHeartbeat, nil)
				} else {
					c.send(l, TypeHeartbeat, c.attempts())
				}
			}
			if v == nil {
				v = c.overdue(l, now, movedAt)
			}
		}
		// A neighbour that said goodbye may have ended since.
		for _, l := range c.connections {
			if v == nil && l != nil && l.used && !l.goodbye.IsZero() && now.Sub(l.goodbye) > goodbyeGrace {
				v = c.gone(l)
			}
		}
		first := v != nil && c.fail(v, nil)
		c.mu.Unlock()
		c.report(v, first)
	}
}

// overdue gives up a neighbour that is silent while nothing else moves either.
// A stalled TCP connection alone is no reason: the queue pairs may be at work.
func (c *Control) overdue(l *connection, now, movedAt time.Time) *Verdict {
	silent := min(now.Sub(l.heard), now.Sub(movedAt))
	if !l.used || silent < c.cfg.Silence {
		return nil
	}
	return c.verdict(KindSilent, l.peer, "%s is silent: nothing heard for %s and nothing moving on the queue pairs; is it stopped, or its network down?",
		c.name(l.peer), silent.Round(time.Second))
}
