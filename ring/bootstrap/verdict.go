package bootstrap

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// outcome is what came of calling a rank anew.
type outcome string

const (
	callRefused  outcome = "refused"  // its host is up, and nobody listens
	callOther    outcome = "other"    // another process has its place
	callMute     outcome = "mute"     // nothing comes back
	callOpen     outcome = "open"     // its host takes the call, and it says nothing
	callAnswered outcome = "answered" // it lives
)

// process is what a rank of the same host sees of another's process.
type process string

const (
	processDead    process = "dead"
	processStopped process = "stopped"
	processRunning process = "running" // it gets the CPU, or waits for it
)

// sighting is what a rank has seen of a neighbour, or of itself. Ranks tell each other as
// soon as one of them sees anything amiss, so that all judge by the same.
type sighting struct {
	By    int    `json:"by"`
	About int    `json:"about"`
	Seq   uint64 `json:"seq"` // counts By's sightings: the latest counts

	Silent  time.Duration `json:"silent_ns,omitempty"` // no frame for so long, and nothing moving
	Ended   string        `json:"ended,omitempty"`     // how a connection ended, without a goodbye
	Fault   *Verdict      `json:"fault,omitempty"`     // of an operation with it that failed
	Slept   time.Duration `json:"slept_ns,omitempty"`  // By itself stood still for so long
	Call    outcome       `json:"call,omitempty"`      // what came of calls since it is silent
	Arrives bool          `json:"arrives,omitempty"`   // its packets do, although its frames do not
	Process process       `json:"process,omitempty"`   // as the host that both are on shows it

	// Due is that By has waited for as long as it may: there is to be a verdict now. Late is
	// that it has waited for another rank's, in vain.
	Due  bool `json:"due,omitempty"`
	Late bool `json:"late,omitempty"`

	// The reader's own: when it was received, how long ago that was, and for how long this
	// rank had heard nobody when it last heard that one.
	at    time.Time
	age   time.Duration
	alone time.Duration
	hush  bool // the other neighbour has missed a beat, too: a moment later it is heard, or this rank is alone
}

// during tells whether what a rank has seen of another can come from the other's sleep: it
// has failed, or the silence had begun before half of the sleep was over.
func (s *sighting) during(slept *sighting) bool {
	return s.Fault != nil || s.Silent+s.age >= slept.age+slept.Slept/2
}

// amiss tells whether there is anything to explain.
func (s *sighting) amiss() bool { return s.Silent > 0 || s.Ended != "" || s.Fault != nil }

// panorama is what a judge knows of the ring besides.
type panorama struct {
	own   int // the judge
	size  int
	death time.Duration
	name  func(rank int) string // with its place in the list
	where func(rank int) string // its process and host, "" if they are not known
	near  func(rank int) bool   // it runs on the judge's machine
}

// judge makes a verdict of what the ranks have seen, if somebody must have one now; nil if
// it is for another rank to say. It is the only place that blames a rank for what the
// others hear, or do not hear, of it. What is seen by the rank itself, by its host or by both its
// neighbours is certain, silence alone is not; whoever fails for another's failure is a victim.
func judge(p *panorama, seen []sighting) *Verdict {
	var best *Verdict
	for _, s := range seen {
		if !s.Due || !s.amiss() {
			continue
		}
		v := p.judgeOne(&s, seen)
		if v == nil {
			continue
		}
		v.By = p.own
		if best == nil || better(v, best) {
			best = v
		}
	}
	return best
}

// judgeOne explains one sighting that is due.
func (p *panorama) judgeOne(s *sighting, seen []sighting) *Verdict {
	about, by := s.About, s.By
	e := p.evidence(about, by, seen)
	verdict := func(k Kind, c Confidence, format string, args ...any) *Verdict {
		return &Verdict{Kind: k, Rank: about, Confidence: c, Since: e.since, Text: fmt.Sprintf(format, args...)}
	}
	edge := func(d Direction, c Confidence, format string, args ...any) *Verdict {
		v := verdict(KindEdge, c, format, args...)
		v.Rank, v.Edge = -1, d
		return v
	}
	name, who := p.name(about), p.where(about)
	slow, still := e.silentTo >= 0 && e.process == processRunning && !e.calls[callMute], "its host takes a call that it does not answer"
	if slow {
		still = "its host shows its process at work, or waiting for a CPU"
		if s.Fault != nil { // which says more than that it is slow
			e.silentTo = -1
		}
	}
	switch {
	case e.process == processStopped:
		return verdict(KindStopped, Certain, "%s is stopped: its host shows %s so%s%s: %s", name, cmp.Or(who, "its process"), e.silence(), e.faults(), cureStopped)
	case s.alone > 0 && (e.calls[callOther] || e.calls[callRefused] || e.endedTo == by || e.process == processDead):
		v := verdict(KindIsolated, Suspect, "%s heard neither %s nor %s for %s, and then found %s gone: it was cut off, and they have most likely given it up: look at its network first",
			p.name(by), p.name(p.beside(by, -1)), p.name(p.beside(by, 1)), span(s.alone), name)
		v.Rank, v.Since = by, s.alone
		return v
	case e.calls[callOther]:
		return verdict(KindLost, Certain, "%s was lost: %s is gone, and another process has its place: %s", name, cmp.Or(who, "its process"), p.cureLost(about))
	case e.calls[callRefused] && e.word != nil && e.word.Ended != "": // which no dead process sees
		return p.broken(&e, edge)
	case e.calls[callRefused] && e.process != processDead && (e.ended == 0 || p.size == 2 && !p.near(about)): // nobody but a firewall may have said so
		return verdict(KindLost, Suspect, "%s was lost: %s and its host refuses a new connection: its process is dead, or a firewall answers for it: %s", name, e.how(), p.cureLost(about))
	case e.calls[callRefused] || e.process == processDead:
		return verdict(KindLost, Certain, "%s was lost: %s is dead: %s and its host refuses a new one: %s", name, cmp.Or(who, "its process"), e.how(), p.cureLost(about))
	case e.ended > 1 && !e.calls[callAnswered]:
		return verdict(KindLost, Certain, "%s was lost: %s to both neighbours, and no new one is answered: %s", name, e.how(), p.cureLost(about))
	case e.endedTo >= 0 && e.calls[callAnswered]:
		return p.broken(&e, edge)
	case e.slept > 0 && (e.fault != nil || e.endedTo >= 0 || e.slept > e.since/4*3): // else it is not heard although it is awake
		sure := Certain
		if s.Fault != nil && e.slept < p.death {
			sure = Suspect // so little ends no operation by itself
		}
		return verdict(KindStopped, sure, "%s was stopped for %s, as it says itself%s: %s", name, span(e.slept), e.faults(), cureStopped)
	case e.endedTo >= 0:
		return verdict(KindLost, Suspect, "%s was lost: %s and its host does not answer any more: %s", name, e.how(), p.cureLost(about))
	case e.silentTo >= 0 && (p.isolated(by, seen) || s.alone > 0 && (s.Call == callMute || s.Call == "")):
		v := verdict(KindIsolated, Suspect, "%s hears neither %s nor %s any more, for %s%s: it is cut off, or both are: look at its network first",
			p.name(by), p.name(p.beside(by, -1)), p.name(p.beside(by, 1)), span(e.since), map[bool]string{true: ", although their packets arrive: what it sends is lost"}[s.Arrives])
		v.Rank = by
		return v
	case e.silentTo >= 0 && e.alive && (e.calls[callMute] || e.calls[callAnswered]):
		return p.cut(&e, edge)
	case e.silentTo >= 0 && (slow || e.calls[callOpen] || e.calls[callAnswered]):
		return verdict(KindStopped, Suspect, "%s stands still: it has said nothing for %s and %s: %s", name, span(e.since), still, cureStopped)
	case e.silentTo >= 0 && e.mute > 1:
		return verdict(KindSilent, Certain, "%s is silent: neither neighbour has heard anything for %s, and no call is answered: its host is down, or cut off from the network: see whether %s answers anybody else%s",
			name, span(e.since), p.host(about), e.faults())
	case e.silentTo >= 0 && p.size == 2 && e.arrives == by:
		return edge(Direction{by, about, false}, Suspect, "what %s sends does not reach %s over TCP: nothing heard for %s, although its packets arrive: look at the route and the firewalls from rank %d to rank %d",
			p.name(by), name, span(e.since), by, about)
	case e.silentTo >= 0 && s.hush, e.silentTo >= 0 && p.size > 2 && e.witnesses < 2 && s.Silent < p.death+p.death/8:
		return nil // the other neighbour, its or this rank's, is about to say what it sees
	case e.silentTo >= 0:
		return verdict(KindSilent, Suspect, "%s is silent: nothing heard for %s, nothing moving and no call answered: its host is down or the network in between%s: see whether %s answers anybody else%s",
			name, span(e.since), map[bool]string{true: " (in a ring of two no third rank can tell)"}[p.size == 2], p.host(about), e.faults())
	case s.Fault == nil || e.victim && !s.Late:
		return nil // whom it failed for will be told
	}
	v := *s.Fault
	v.Confidence, v.Since = Suspect, cmp.Or(v.Since, e.since)
	return &v
}

// span is a time near the bounds, for people.
func span(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }

const cureStopped = "continue it (fg, kill -CONT, the debugger), then connect again"

// evidence is what all ranks together have seen of one.
type evidence struct {
	calls             map[outcome]bool
	process           process
	slept, since      time.Duration
	witnesses         int    // neighbours that have said something of it
	ended, mute       int    // by so many neighbours
	endedTo, silentTo int    // one that tells so, or -1
	arrives           int    // the rank at which its packets arrive, or -1
	text              string // how its connection ended
	alive             bool   // it has spoken since, or another neighbour has its answer
	fault             *Verdict
	victim            bool // of another
	about             int
	word              *sighting // of it about the one that does not hear it
}

func (p *panorama) evidence(about, by int, seen []sighting) evidence {
	e := evidence{calls: map[outcome]bool{}, endedTo: -1, silentTo: -1, arrives: -1, about: about}
	for i := range seen {
		s := &seen[i]
		switch {
		case s.By == about && s.About == about:
			if slices.ContainsFunc(seen, func(o sighting) bool { return o.By != about && o.About == about && o.during(s) }) {
				e.slept = s.Slept
			}
		case s.By == about:
			e.alive = true
			if s.About == by {
				e.word = s
			}
			if s.amiss() && s.About != by {
				e.victim = true
			}
		case s.About == about:
			e.take(s, by)
		}
	}
	return e
}

// take adds what another rank has seen of it.
func (e *evidence) take(s *sighting, by int) {
	e.witnesses++
	if s.Call != "" {
		e.calls[s.Call] = true
	}
	if s.Process == processStopped || s.Process == processDead || e.process == "" {
		e.process = s.Process
	}
	if s.Ended != "" {
		e.ended++
		if e.text = s.Ended; e.endedTo < 0 || s.By == by {
			e.endedTo = s.By
		}
	}
	if s.Silent > 0 {
		if e.silentTo < 0 || s.By == by {
			e.silentTo = s.By
		}
		e.since = max(e.since, s.Silent)
		if s.Call == callMute {
			e.mute++
		}
		if s.Arrives {
			e.arrives = s.By
		}
	}
	if s.By != by && s.Call == callAnswered {
		e.alive = true
	}
	if s.Fault != nil && (e.fault == nil || s.By == by) {
		e.fault = s.Fault
	}
}

// how is how it was lost.
func (e *evidence) how() string {
	if e.text == "" {
		return "nothing was heard of it"
	}
	return "its control connection ended without a goodbye (" + e.text + ")"
}

// silence is for how long it has said nothing, if that is long.
func (e *evidence) silence() string {
	if e.since == 0 {
		return ""
	}
	return fmt.Sprintf(", and it has said nothing for %s", span(e.since))
}

func (e *evidence) faults() string {
	if e.fault == nil {
		return ""
	}
	return " (" + e.fault.Text + ")"
}

// isolated tells whether a rank hears none of its neighbours, two at least, and no host
// refuses it a call.
func (p *panorama) isolated(rank int, seen []sighting) bool {
	cut := 0
	for _, s := range seen {
		if s.By == rank && s.About != rank && s.Silent > 0 && s.Call == callMute {
			cut++
		}
	}
	return p.size > 2 && cut == 2
}

// beside is the rank so many places on.
func (p *panorama) beside(rank, places int) int { return (rank + places + p.size) % p.size }

// broken explains two neighbours that both live, and whose connection has ended.
func (p *panorama) broken(e *evidence, edge func(Direction, Confidence, string, ...any) *Verdict) *Verdict {
	d := Direction{min(e.endedTo, e.about), max(e.endedTo, e.about), true}
	return edge(d, Certain, "the control connection (TCP) between %s and %s was cut (%s), and both live: look at what lies between them: a firewall, a proxy, an address that moved",
		p.name(d.From), p.name(d.To), e.text)
}

// cut explains two neighbours that both live, of which one does not hear the other.
func (p *panorama) cut(e *evidence, edge func(Direction, Confidence, string, ...any) *Verdict) *Verdict {
	a, b := e.silentTo, e.about
	d := Direction{min(a, b), max(a, b), true}
	switch w := e.word; {
	case e.arrives == a && (w == nil || !w.Arrives):
		d = Direction{a, b, false}
	case w != nil && (w.Arrives || !w.amiss()) && e.arrives != a:
		d = Direction{b, a, false}
	}
	if e.calls[callAnswered] && !e.calls[callMute] {
		return edge(d, Certain, "the control connection (TCP) between %s and %s has carried nothing for %s, and no data moved meanwhile, although rank %d answers a new call: a firewall or a proxy between them has lost it",
			p.name(a), p.name(b), span(e.since), b)
	}
	if d.Both {
		return edge(d, Certain, "nothing passes between %s and %s over TCP, for %s, no data moved meanwhile, and both live: look at the link, the route and the firewalls between them", p.name(d.From), p.name(d.To), span(e.since))
	}
	return edge(d, Certain, "what %s sends does not reach %s over TCP, for %s, and no data moved meanwhile, although both live and packets come the other way: look at the route and the firewalls from rank %d to rank %d",
		p.name(d.From), p.name(d.To), span(e.since), d.From, d.To)
}

// host is the host of a rank, for people.
func (p *panorama) host(rank int) string {
	if _, host, ok := strings.Cut(p.where(rank), "on host "); ok {
		return host
	}
	return fmt.Sprintf("the host of rank %d", rank)
}

func (p *panorama) cureLost(rank int) string {
	return fmt.Sprintf("see what %s last said of it (its own output, dmesg), then connect again", p.host(rank))
}

// explains are the kinds from the one that explains most: of two verdicts that were found at
// once, the one on a rank's own word comes before those on what others see of it.
var explains = []Kind{KindCanceled, KindCorrupt, KindMismatch, KindStopped, KindEdge, KindLost, KindLeft, KindSilent, KindIsolated, KindFailed, KindTimeout}

// alike tells whether two verdicts say the same of the same.
func alike(a, b *Verdict) bool {
	return a.Kind == b.Kind && a.Rank == b.Rank && a.Edge == b.Edge && a.Confidence == b.Confidence
}

// better is the order of verdicts that were found at once, the same on all ranks: the
// certain one first, then what explains more, then the lower rank.
func better(a, b *Verdict) bool {
	certain := func(v *Verdict) int {
		if v.Confidence == Certain {
			return 0
		}
		return 1
	}
	return cmp.Or(certain(a)-certain(b), slices.Index(explains, a.Kind)-slices.Index(explains, b.Kind),
		cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.By, b.By), cmp.Compare(a.Text, b.Text)) < 0
}
