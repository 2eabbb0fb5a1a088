package bootstrap

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"ringcli/ring/bootstrap/calls"
	"ringcli/ring/bootstrap/kernel"
	"ringcli/ring/bootstrap/verdict"
	"ringcli/trace"
)

// pace is how often the neighbours are looked at. All follows from two bounds.
type pace struct {
	death, silence time.Duration
	beat           time.Duration // between two signs of life
	tick           time.Duration // between two looks at the clock
	suspect        time.Duration // of silence, until a neighbour is called and the others are asked
	call           time.Duration // that a host may take to answer a call: several calls fit before death
	settle         time.Duration // for all ranks to hear of a verdict, before it counts
}

func paceOf(death, silence time.Duration) pace {
	return pace{
		death: death, silence: max(silence, death), beat: min(death/6, maxBeat), tick: min(death/12, maxBeat/2),
		suspect: death / 2, call: death / 6, settle: max(death/15, leastSettle),
	}
}

// slowness is how many times the bound of silence a process may take that its host shows at
// work, or waiting for a CPU.
const slowness = 4

// leastSettle is longer than a frame takes round a ring whose ranks wait for CPUs.
const leastSettle = 100 * time.Millisecond

// watch is what this rank sees of its neighbours, and is told by the others. The Control's
// lock guards it.
type watch struct {
	peers   []*watched
	told    map[[2]int]verdict.Sighting // of others, by who and about whom
	seq     uint64                      // of the own sightings
	looked  time.Time                   // at the clock, last
	slept   verdict.Sighting            // the own sleep that is still worth telling
	sleptAt time.Time
	alone   time.Duration // no neighbour was heard, for so long
	aloneAt time.Time     // until then at least
}

// watched is a neighbour. With two ranks both connections are to one.
type watched struct {
	rank    int
	moved   uint64           // Config.Moved, when the clock was looked at
	movedAt time.Time        // when it last grew
	last    verdict.Sighting // as it was told
	lastAt  time.Time        // so
	calling bool             // a goroutine calls it
	called  bool             // so, and that has come to an end at least once
	half    bool             // calls of its host are not completed
	call    verdict.Outcome  // what came of the last call
	process verdict.Process
	cpu     uint64 // time that its process had used
	packets uint32 // that had come when its silence was certain to be one
	marked  bool   // packets is set
	endedAt time.Time
	fault   *Verdict
	faultAt time.Time
}

func newWatch(c *Control) watch {
	w := watch{told: make(map[[2]int]verdict.Sighting), looked: c.opened}
	for _, side := range [2]int{left, right} {
		if peer := c.neighbour(side); peer != c.rank && !slices.ContainsFunc(w.peers, func(p *watched) bool { return p.rank == peer }) {
			w.peers = append(w.peers, &watched{rank: peer, movedAt: c.opened})
		}
	}
	return w
}

// faulty tells whether an operation has failed and the verdict is not found yet.
func (w *watch) faulty() bool {
	return slices.ContainsFunc(w.peers, func(p *watched) bool { return p.fault != nil })
}

func (w *watch) of(rank int) *watched {
	for _, p := range w.peers {
		if p.rank == rank {
			return p
		}
	}
	return nil
}

// keepTime sends signs of life and looks at the neighbours.
func (c *Control) keepTime() {
	ticker := time.NewTicker(c.pace.tick)
	defer ticker.Stop()
	beat := time.Now()
	for {
		select {
		case <-c.life.Done():
			return
		case <-ticker.C:
		}
		now := time.Now()
		beating := now.Sub(beat) >= c.pace.beat
		if beating {
			beat = now
		}
		c.mu.Lock()
		c.notice(now)
		if beating {
			c.giveSigns()
		}
		for _, op := range c.ops {
			c.release(op)
		}
		if c.untold {
			c.untold = false
			c.notify()
		}
		first := false
		v := c.overdue(now)
		if v != nil {
			first = c.fail(v, nil)
		}
		c.look(now)
		c.mu.Unlock()
		if v != nil {
			c.report(v, first)
		}
	}
}

// leastSleep is longer than a goroutine of a busy machine waits for a CPU.
const leastSleep = 250 * time.Millisecond

// notice looks at the clock. If this process was stopped itself, others must not pay for
// it: they are heard from now on. It needs the lock.
func (c *Control) notice(now time.Time) {
	w := &c.watch
	if c.cfg.Moved != nil {
		for _, p := range w.peers {
			if m := c.cfg.Moved(p.rank); m != p.moved {
				p.moved, p.movedAt = m, now
			}
		}
	}
	gap := now.Sub(w.looked)
	w.looked = now
	if lost := gap - c.pace.tick; lost > c.pace.tick { // it looked too late: so much is no silence
		for _, p := range w.peers {
			p.movedAt = earlier(now, p.movedAt.Add(lost))
		}
		for _, l := range c.connections {
			if l != nil {
				l.heard = earlier(now, l.heard.Add(lost))
			}
		}
	}
	if gap < max(4*c.pace.tick, c.pace.death/4, leastSleep) {
		return
	}
	for _, l := range c.connections {
		if l != nil {
			l.heard = now
		}
	}
	for _, p := range w.peers {
		p.movedAt, p.call, p.marked = now, "", false
	}
	if gap >= c.pace.suspect {
		trace.Debug(trace.Bootstrap, "this process was stopped, or did not get a CPU", slog.Duration("for", gap))
		w.slept, w.sleptAt = verdict.Sighting{By: c.rank, About: c.rank, Slept: gap}, now
		if c.sealed {
			c.tell(w.slept, nil)
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// giveSigns sends a sign of life to the neighbours. It needs the lock.
func (c *Control) giveSigns() {
	for _, l := range c.connections {
		switch {
		case l == nil || l.ended || len(l.out) > 0:
		case c.sealed:
			c.send(l, TypeHeartbeat, nil)
		default:
			c.send(l, TypeHeartbeat, c.attempts())
		}
	}
}

// overdue finds neighbours that have said goodbye while the ring is still needed, and, as
// long as the ring comes up, silent ones. It needs the lock.
func (c *Control) overdue(now time.Time) *Verdict {
	for _, l := range c.connections {
		switch {
		case l == nil || !l.used:
		case !l.goodbye.IsZero():
			if now.Sub(l.goodbye) > goodbyeGrace {
				return c.gone(l)
			}
		case !c.sealed && !l.ended && now.Sub(l.heard) >= c.pace.silence:
			who := l.who
			p := who.look(&c.self, new(uint64))
			if p == verdict.ProcessRunning && now.Sub(l.heard) < slowness*c.pace.silence {
				continue
			}
			v := c.verdict(KindSilent, l.peer, "%s is silent: nothing heard for %s; is it stopped, or its network down?", c.name(l.peer), calls.Ago(now.Sub(l.heard)))
			v.Confidence = Suspect
			if p == verdict.ProcessStopped {
				v = c.verdict(KindStopped, l.peer, "%s is stopped: its host shows %s so, and it has said nothing for %s", c.name(l.peer), who, verdict.Span(now.Sub(l.heard)))
				v.Fix = verdict.CureStopped
			}
			return v
		}
	}
	return nil
}

// silence is how long a neighbour has not been heard while nothing moved between it and this
// rank. A stalled TCP connection alone is no reason: the queue pairs may be at work, or the
// other connection of a ring of two. It needs the lock.
func (c *Control) silence(p *watched, now time.Time) time.Duration {
	silent := now.Sub(p.movedAt)
	for _, l := range c.connections {
		switch {
		case l == nil || l.peer != p.rank:
		case l.blocked || !l.goodbye.IsZero():
			return 0 // it is this rank that does not read, or the neighbour has left
		default:
			silent = min(silent, now.Sub(l.heard))
		}
	}
	return silent
}

// see is what this rank sees of a neighbour now. It needs the lock.
func (c *Control) see(p *watched, now time.Time) verdict.Sighting {
	s := verdict.Sighting{By: c.rank, About: p.rank, Call: p.call, Process: p.process, Fault: p.fault}
	pace := &c.pace
	if s.Call == verdict.CallMute && c.members[p.rank].beside(&c.self) {
		s.Call = verdict.CallOpen // the kernel was slow
	}
	silent := c.silence(p, now)
	if silent >= pace.suspect {
		s.Silent = silent
	}
	var packets uint32
	for _, l := range c.connections {
		if l == nil || l.peer != p.rank {
			continue
		}
		if l.ended && l.goodbye.IsZero() && l.broke != "" {
			s.Ended = l.broke
		}
		packets += kernel.PacketsIn(l.conn)
	}
	switch {
	case silent < 2*pace.beat:
		p.marked = false
	case !p.marked: // what was under way when it was last heard is here by now
		p.marked, p.packets = true, packets
	default:
		s.Arrives = s.Silent > 0 && (packets > p.packets || p.half)
	}
	dead := s.Call == verdict.CallRefused || s.Call == verdict.CallOther || s.Process == verdict.ProcessDead
	switch {
	case s.Silent == 0:
	case s.Process == verdict.ProcessStopped:
		s.Due = silent >= pace.silence
	case dead:
		s.Due = true
	case s.Call == verdict.CallMute:
		s.Due = silent >= pace.death
	case s.Process == verdict.ProcessRunning:
		s.Due = silent >= slowness*pace.silence
	default: // what a call finds out says more than the silence
		s.Due = silent >= pace.silence && (p.called || silent >= 2*pace.silence)
	}
	// The sockets of a process that dies are closed one after the other.
	if s.Ended != "" && s.Call != "" && (s.Call != verdict.CallOpen || now.Sub(p.endedAt) >= pace.suspect) {
		s.Due = true
	}
	// Where no call can be made, for want of descriptors, the bound is what is left.
	if age := now.Sub(p.faultAt); s.Fault != nil && (s.Call != "" || s.Process != "" || age >= pace.death) {
		s.Due = s.Due || dead || age >= pace.suspect || s.Process == verdict.ProcessStopped || s.Call == verdict.CallAnswered && age >= pace.settle
		s.Late = age >= pace.death
	}
	if !s.Amiss() {
		s.Call, s.Process = "", ""
	}
	s.Hush = s.Silent > 0 && slices.ContainsFunc(c.watch.peers, func(other *watched) bool {
		quiet := c.silence(other, now)
		return other != p && quiet >= 2*pace.beat && quiet < pace.suspect
	})
	if c.spoke(p).Before(c.watch.aloneAt) && now.Sub(c.watch.aloneAt) < pace.silence {
		s.Alone = c.watch.alone
	}
	return s
}

// spoke is when the last frame of a neighbour came. It needs the lock.
func (c *Control) spoke(p *watched) (last time.Time) {
	for _, l := range c.connections {
		if l != nil && l.peer == p.rank && l.spoke.After(last) {
			last = l.spoke
		}
	}
	return last
}

// look looks at the neighbours, tells the others what it sees, and judges if it must. It
// needs the lock.
func (c *Control) look(now time.Time) {
	c.notice(now) // whoever calls may be the first since this process was stopped
	if !c.sealed || c.failure != nil || c.leaving {
		return
	}
	due := false
	c.listen(now)
	for _, p := range c.watch.peers {
		s := c.see(p, now)
		asked := c.asked(p.rank, now)
		if s.Amiss() || asked {
			c.inspect(p)
			if asked {
				s.Call, s.Process = p.call, p.process
			}
		}
		changed := s.Ended != p.last.Ended || s.Fault != p.last.Fault || s.Call != p.last.Call || s.Arrives != p.last.Arrives || s.Process != p.last.Process ||
			s.Due != p.last.Due || s.Amiss() != p.last.Amiss()
		if changed || (s.Amiss() || asked) && now.Sub(p.lastAt) >= c.pace.death/4 {
			p.last, p.lastAt = s, now
			c.tell(s, nil)
		}
		due = due || s.Due
	}
	if !due {
		return
	}
	if v := verdict.Judge(c.panorama(), c.seen(now)); v != nil {
		if v.Doing.IsZero() {
			c.complete(v)
			if text := v.Doing.Told(c.rank); text != "" {
				v.Evidence = append(v.Evidence, text)
			}
		}
		c.propose(v, nil)
	}
}

// listen notes whether this rank hears anybody. It needs the lock.
func (c *Control) listen(now time.Time) {
	w := &c.watch
	if len(w.peers) < 2 || slices.ContainsFunc(w.peers, func(p *watched) bool { return c.members[p.rank].beside(&c.self) }) {
		return // who is cut off nobody can tell, or no network is between
	}
	alone := min(c.silence(w.peers[0], now), c.silence(w.peers[1], now))
	if alone >= c.pace.suspect {
		w.alone, w.aloneAt = alone, now
	}
}

// asked tells whether another rank wants to know of a neighbour: it misses it, or the
// neighbour misses this one. It needs the lock.
func (c *Control) asked(rank int, now time.Time) bool {
	for _, s := range c.watch.told {
		if s.Amiss() && now.Sub(s.At) < c.pace.suspect && (s.About == rank || s.By == rank && s.About == c.rank) {
			return true
		}
	}
	return false
}

// seen is all that has been seen lately, here and by others. It needs the lock.
func (c *Control) seen(now time.Time) []verdict.Sighting {
	var all []verdict.Sighting
	for _, p := range c.watch.peers {
		all = append(all, c.see(p, now))
	}
	for _, s := range c.watch.told {
		if s.Age = now.Sub(s.At); s.Age < c.pace.suspect || s.Slept > 0 && s.Age < c.pace.silence {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b verdict.Sighting) int { return (a.By-b.By)*c.size + a.About - b.About })
	return all
}

func (c *Control) panorama() *verdict.Panorama {
	return &verdict.Panorama{Own: c.rank, Size: c.size, Death: c.pace.death, Name: c.name, Near: func(rank int) bool { return c.members[rank].near(&c.self) }, Where: func(rank int) string {
		if m := c.members[rank]; m.PID != 0 {
			return fmt.Sprintf("process %d on host %s", m.PID, m.Host)
		}
		return ""
	}}
}

// tell tells the others what this rank, or another, has seen. It needs the lock.
func (c *Control) tell(s verdict.Sighting, from *connection) {
	if s.By == c.rank {
		c.watch.seq++
		s.Seq = c.watch.seq
	}
	for _, l := range c.connections {
		if l != nil && l != from {
			c.send(l, TypeSighting, s)
		}
	}
}

// takeSighting takes what another rank has seen, and passes it on.
func (c *Control) takeSighting(l *connection, s verdict.Sighting) error {
	if s.By < 0 || s.By >= c.size || s.About < 0 || s.About >= c.size {
		return fmt.Errorf("sighting by rank %d about rank %d: expected ranks below %d", s.By, s.About, c.size)
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	key := [2]int{s.By, s.About}
	if s.By == c.rank || s.Seq <= c.watch.told[key].Seq {
		return nil
	}
	s.At = now
	c.watch.told[key] = s
	c.tell(s, l)
	if s.Amiss() {
		c.look(now)
	}
	return nil
}

// suspectedBy is the neighbour that a verdict of this rank suspects, -1 if it suspects none:
// then nothing is left to find out.
func (c *Control) suspectedBy(v *Verdict) int {
	rank := v.Rank
	if rank < 0 && !v.Edge.IsZero() {
		rank = v.Edge.From + v.Edge.To - c.rank
	}
	if v.Told || v.Confidence == Certain || rank < 0 || rank == c.rank || c.watch.of(rank) == nil {
		return -1
	}
	return rank
}

// blame notes that an operation with a neighbour has failed: what the others see of it tells
// why. Whoever was stopped itself blames nobody. It needs the lock.
func (c *Control) blame(rank int, v *Verdict) {
	if c.failure != nil || c.leaving {
		return
	}
	now := time.Now()
	c.notice(now)
	w := &c.watch
	if w.slept.Slept > 0 && now.Sub(w.sleptAt) < c.pace.death {
		c.fail(c.verdict(KindStopped, c.rank, "%s %s, and what it was in failed: %s: %s", c.name(c.rank), verdict.Stood(w.slept.Slept), v.Text, verdict.CureStood), nil)
		return
	}
	p := w.of(rank)
	if p.fault != nil {
		return
	}
	c.complete(v)
	p.fault, p.faultAt, p.call = v, now, ""
	c.look(now)
}
