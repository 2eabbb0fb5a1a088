package bootstrap

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"syscall"
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

// liveness is what this rank sees of its neighbours, and is told by the others.
type liveness struct {
	own        *node
	life       *lifetime
	members    *members
	neighbours *neighbours
	outcome    *outcome
	prober     *prober

	mu      sync.Mutex // guards the following; it is taken before the outcome's and the connections'
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

func newLiveness(own *node, opened time.Time) *liveness {
	w := &liveness{own: own, told: make(map[[2]int]verdict.Sighting), looked: opened}
	for _, side := range [2]int{left, right} {
		if peer := own.neighbour(side); peer != own.rank && w.of(peer) == nil {
			w.peers = append(w.peers, &watched{rank: peer, movedAt: opened})
		}
	}
	return w
}

// faulty tells whether an operation has failed and the verdict is not found yet.
func (w *liveness) faulty() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.peers, func(p *watched) bool { return p.fault != nil })
}

func (w *liveness) of(rank int) *watched {
	for _, p := range w.peers {
		if p.rank == rank {
			return p
		}
	}
	return nil
}

// leastSleep is longer than a goroutine of a busy machine waits for a CPU.
const leastSleep = 250 * time.Millisecond

// notice looks at the clock. If this process was stopped itself, others must not pay for
// it: they are heard from now on. It needs the lock.
func (w *liveness) notice(now time.Time) {
	if w.own.cfg.Moved != nil {
		for _, p := range w.peers {
			if m := w.own.cfg.Moved(p.rank); m != p.moved {
				p.moved, p.movedAt = m, now
			}
		}
	}
	gap := now.Sub(w.looked)
	w.looked = now
	if lost := gap - w.own.pace.tick; lost > w.own.pace.tick { // it looked too late: so much is no silence
		for _, p := range w.peers {
			p.movedAt = earlier(now, p.movedAt.Add(lost))
		}
		for _, l := range w.neighbours.all() {
			l.set(func() { l.now.heard = earlier(now, l.now.heard.Add(lost)) })
		}
	}
	if gap < max(4*w.own.pace.tick, w.own.pace.death/4, leastSleep) {
		return
	}
	for _, l := range w.neighbours.all() {
		l.set(func() { l.now.heard = now })
	}
	for _, p := range w.peers {
		p.movedAt, p.call, p.marked = now, "", false
	}
	if gap >= w.own.pace.suspect {
		trace.Debug(trace.Bootstrap, "this process was stopped, or did not get a CPU", slog.Duration("for", gap))
		w.slept, w.sleptAt = verdict.Sighting{By: w.own.rank, About: w.own.rank, Slept: gap}, now
		if w.outcome.phase().sealed {
			w.tell(w.slept, nil)
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// overdue finds neighbours that have said goodbye while the ring is still needed, and, as
// long as the ring comes up, silent ones.
func (w *liveness) overdue(now time.Time) *Verdict {
	sealed := w.outcome.phase().sealed
	for _, l := range w.neighbours.all() {
		state := l.state()
		silent := now.Sub(state.heard)
		switch {
		case !state.used:
		case !state.goodbye.IsZero():
			if now.Sub(state.goodbye) > goodbyeGrace {
				return w.own.gone(l.peer)
			}
		case !sealed && !state.ended && silent >= w.own.pace.silence:
			switch p := l.who.look(&w.own.self, new(uint64)); {
			case p == verdict.ProcessStopped:
				v := w.own.verdict(KindStopped, l.peer, "%s is stopped: its host shows %s so, and it has said nothing for %s", w.own.name(l.peer), l.who, verdict.Span(silent))
				v.Fix = verdict.CureStopped
				return v
			case p != verdict.ProcessRunning || silent >= slowness*w.own.pace.silence:
				return w.own.suspected(KindSilent, l.peer, "%s is silent: nothing heard for %s; is it stopped, or its network down?", w.own.name(l.peer), calls.Ago(silent))
			}
		}
	}
	return nil
}

// silence is how long a neighbour has not been heard while nothing moved between it and this
// rank. A stalled TCP connection alone is no reason: the queue pairs may be at work, or the
// other connection of a ring of two. It needs the lock.
func (w *liveness) silence(p *watched, now time.Time) time.Duration {
	silent := now.Sub(p.movedAt)
	for _, l := range w.neighbours.to(p.rank) {
		state := l.state()
		if state.blocked || !state.goodbye.IsZero() {
			return 0 // it is this rank that does not read, or the neighbour has left
		}
		silent = min(silent, now.Sub(state.heard))
	}
	return silent
}

// see is what this rank sees of a neighbour now. It needs the lock.
func (w *liveness) see(p *watched, now time.Time) verdict.Sighting {
	s := verdict.Sighting{By: w.own.rank, About: p.rank, Call: p.call, Process: p.process, Fault: p.fault}
	pace := &w.own.pace
	if s.Call == verdict.CallMute && w.members.beside(p.rank) {
		s.Call = verdict.CallOpen // the kernel was slow
	}
	silent := w.silence(p, now)
	if silent >= pace.suspect {
		s.Silent = silent
	}
	var packets uint32
	for _, l := range w.neighbours.to(p.rank) {
		if state := l.state(); state.ended && state.goodbye.IsZero() && state.broke != "" {
			s.Ended = state.broke
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
	s.Hush = s.Silent > 0 && slices.ContainsFunc(w.peers, func(other *watched) bool {
		quiet := w.silence(other, now)
		return other != p && quiet >= 2*pace.beat && quiet < pace.suspect
	})
	if w.spoke(p).Before(w.aloneAt) && now.Sub(w.aloneAt) < pace.silence {
		s.Alone = w.alone
	}
	return s
}

// spoke is when the last frame of a neighbour came. It needs the lock.
func (w *liveness) spoke(p *watched) (last time.Time) {
	for _, l := range w.neighbours.to(p.rank) {
		if spoke := l.state().spoke; spoke.After(last) {
			last = spoke
		}
	}
	return last
}

// look looks at the neighbours, tells the others what it sees, and judges if it must. It
// needs the lock.
func (w *liveness) look(now time.Time) {
	w.notice(now) // whoever calls may be the first since this process was stopped
	if p := w.outcome.phase(); !p.sealed || p.over() {
		return
	}
	due := false
	w.listen(now)
	for _, p := range w.peers {
		s := w.see(p, now)
		asked := w.asked(p.rank, now)
		if s.Amiss() || asked {
			w.inspect(p)
			if asked {
				s.Call, s.Process = p.call, p.process
			}
		}
		changed := s.Ended != p.last.Ended || s.Fault != p.last.Fault || s.Call != p.last.Call || s.Arrives != p.last.Arrives || s.Process != p.last.Process ||
			s.Due != p.last.Due || s.Amiss() != p.last.Amiss()
		if changed || (s.Amiss() || asked) && now.Sub(p.lastAt) >= w.own.pace.death/4 {
			p.last, p.lastAt = s, now
			w.tell(s, nil)
		}
		due = due || s.Due
	}
	if !due {
		return
	}
	if v := verdict.Judge(w.panorama(), w.seen(now)); v != nil {
		if v.Doing.IsZero() {
			v = w.outcome.completed(v)
			if text := v.Doing.Told(w.own.rank); text != "" {
				v.Evidence = append(v.Evidence, text)
			}
		}
		w.outcome.propose(v)
	}
}

// listen notes whether this rank hears anybody. It needs the lock.
func (w *liveness) listen(now time.Time) {
	if len(w.peers) < 2 || slices.ContainsFunc(w.peers, func(p *watched) bool { return w.members.beside(p.rank) }) {
		return // who is cut off nobody can tell, or no network is between
	}
	alone := min(w.silence(w.peers[0], now), w.silence(w.peers[1], now))
	if alone >= w.own.pace.suspect {
		w.alone, w.aloneAt = alone, now
	}
}

// asked tells whether another rank wants to know of a neighbour: it misses it, or the
// neighbour misses this one. It needs the lock.
func (w *liveness) asked(rank int, now time.Time) bool {
	for _, s := range w.told {
		if s.Amiss() && now.Sub(s.At) < w.own.pace.suspect && (s.About == rank || s.By == rank && s.About == w.own.rank) {
			return true
		}
	}
	return false
}

// seen is all that has been seen lately, here and by others. It needs the lock.
func (w *liveness) seen(now time.Time) []verdict.Sighting {
	var all []verdict.Sighting
	for _, p := range w.peers {
		all = append(all, w.see(p, now))
	}
	for _, s := range w.told {
		if s.Age = now.Sub(s.At); s.Age < w.own.pace.suspect || s.Slept > 0 && s.Age < w.own.pace.silence {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b verdict.Sighting) int { return (a.By-b.By)*w.own.size + a.About - b.About })
	return all
}

func (w *liveness) panorama() *verdict.Panorama {
	return &verdict.Panorama{Own: w.own.rank, Size: w.own.size, Death: w.own.pace.death, Name: w.own.name, Near: func(rank int) bool { return w.members.of(rank).near(&w.own.self) }, Where: func(rank int) string {
		if m := w.members.of(rank); m.PID != 0 {
			return fmt.Sprintf("process %d on host %s", m.PID, m.Host)
		}
		return ""
	}}
}

// tell tells the others what this rank, or another, has seen. It needs the lock.
func (w *liveness) tell(s verdict.Sighting, from *connection) {
	if s.By == w.own.rank {
		w.seq++
		s.Seq = w.seq
	}
	w.neighbours.tell(TypeSighting, s, from)
}

// takeSighting takes what another rank has seen, and passes it on.
func (w *liveness) takeSighting(l *connection, s verdict.Sighting) error {
	if s.By < 0 || s.By >= w.own.size || s.About < 0 || s.About >= w.own.size {
		return fmt.Errorf("sighting by rank %d about rank %d: expected ranks below %d", s.By, s.About, w.own.size)
	}
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	key := [2]int{s.By, s.About}
	if s.By == w.own.rank || s.Seq <= w.told[key].Seq {
		return nil
	}
	s.At = now
	w.told[key] = s
	w.tell(s, l)
	if s.Amiss() {
		w.look(now)
	}
	return nil
}

// broke notes that the connection to a neighbour has ended without a goodbye.
func (w *liveness) broke(l *connection, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	// Where the network gave up, the neighbour is silent and did not end.
	if !errors.Is(err, syscall.ETIMEDOUT) && !errors.Is(err, syscall.EHOSTUNREACH) && !errors.Is(err, syscall.ENETUNREACH) {
		l.set(func() { l.now.broke = ending(err) })
		p := w.of(l.peer)
		p.call, p.endedAt = "", now
	}
	w.look(now)
}

// suspectedBy is the neighbour that a verdict of this rank suspects, -1 if it suspects none:
// then nothing is left to find out.
func (w *liveness) suspectedBy(v *Verdict) int {
	rank := v.Rank
	if rank < 0 && !v.Edge.IsZero() {
		rank = v.Edge.From + v.Edge.To - w.own.rank
	}
	if v.Told || v.Confidence == Certain || !w.own.isNeighbour(rank) {
		return -1
	}
	return rank
}

// blame notes that an operation with a neighbour has failed: what the others see of it tells
// why. Whoever was stopped itself blames nobody.
func (w *liveness) blame(rank int, v *Verdict) {
	if p := w.outcome.phase(); p.over() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.notice(now)
	if w.slept.Slept > 0 && now.Sub(w.sleptAt) < w.own.pace.death {
		w.outcome.propose(w.own.verdict(KindStopped, w.own.rank, "%s %s, and what it was in failed: %s: %s", w.own.name(w.own.rank), verdict.Stood(w.slept.Slept), v.Text, verdict.CureStood))
		return
	}
	p := w.of(rank)
	if p.fault != nil {
		return
	}
	p.fault, p.faultAt, p.call = w.outcome.completed(v), now, ""
	w.look(now)
}

// sleptLately is how long this process was stopped, and how long ago that ended, if that is
// worth telling.
func (w *liveness) sleptLately() (slept, ago time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.notice(now)
	if ago = now.Sub(w.sleptAt); w.slept.Slept > 0 && ago < w.own.pace.silence {
		return w.slept.Slept, ago
	}
	return 0, 0
}

// catchUp looks at the clock: see notice.
func (w *liveness) catchUp(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notice(now)
}

// tick looks at the neighbours.
func (w *liveness) tick(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.look(now)
}
