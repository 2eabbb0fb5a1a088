package bootstrap

import "time"

// inspect calls a neighbour anew, again and again, for as long as anybody misses it. It needs
// the lock.
func (w *liveness) inspect(p *watched) {
	if p.calling {
		return
	}
	p.calling = true
	w.life.start(func() {
		for w.inspectOnce(p) {
			select {
			case <-time.After(w.own.pace.tick):
			case <-w.life.ring.Done():
			}
		}
	})
}

// inspectOnce tells whether to go on.
func (w *liveness) inspectOnce(p *watched) bool {
	begun, half := time.Now(), w.own.callsHere(p.rank)
	w.mu.Lock()
	p.half = half
	p.process = w.members.of(p.rank).look(&w.own.self, &p.cpu)
	w.look(begun)
	w.mu.Unlock()
	call := w.prober.callAgain(p.rank)
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.notice(now)
	if phase := w.outcome.phase(); phase.over() {
		p.calling = false
		return false
	}
	if begun.After(p.endedAt) {
		p.call, p.called = call, true
	}
	s := w.see(p, now)
	if !s.Amiss() && !w.asked(p.rank, now) {
		p.calling, p.called, p.half, p.call, p.process, p.cpu = false, false, false, "", "", 0
		return false
	}
	w.look(now)
	return true
}
