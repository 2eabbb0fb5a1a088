package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Outcome is what came of calling a rank anew.
type Outcome string

// The outcomes; "" is none.
const (
	CallRefused  Outcome = "refused"  // its host is up, and nobody listens
	CallOther    Outcome = "other"    // another process has its place
	CallMute     Outcome = "mute"     // nothing comes back
	CallOpen     Outcome = "open"     // its host takes the call, and it says nothing
	CallAnswered Outcome = "answered" // it lives
)

// Process is what a rank of the same host sees of another's process.
type Process string

// The states of a process; "" is not known.
const (
	ProcessDead    Process = "dead"
	ProcessStopped Process = "stopped"
	ProcessRunning Process = "running" // it gets the CPU, or waits for it
)

// Sighting is what a rank has seen of a neighbour, or of itself. Ranks tell each other as
// soon as one of them sees anything amiss, so that all judge by the same.
type Sighting struct {
	By    int    `json:"by"`
	About int    `json:"about"`
	Seq   uint64 `json:"seq"` // counts By's sightings: the latest counts

	Silent  time.Duration `json:"silent_ns,omitempty"` // no frame for so long, and nothing moving
	Ended   string        `json:"ended,omitempty"`     // how a connection ended, without a goodbye
	Fault   *Verdict      `json:"fault,omitempty"`     // of an operation with it that failed
	Slept   time.Duration `json:"slept_ns,omitempty"`  // By itself stood still for so long
	Call    Outcome       `json:"call,omitempty"`      // what came of calls since it is silent
	Arrives bool          `json:"arrives,omitempty"`   // its packets do, although its frames do not
	Process Process       `json:"process,omitempty"`   // as the host that both are on shows it

	// Due is that By has waited for as long as it may: there is to be a verdict now. Late is
	// that it has waited for another rank's, in vain.
	Due  bool `json:"due,omitempty"`
	Late bool `json:"late,omitempty"`

	// The reader's own: when it was received, how long ago that was, and for how long this
	// rank had heard nobody when it last heard that one.
	At    time.Time     `json:"-"`
	Age   time.Duration `json:"-"`
	Alone time.Duration `json:"-"`
	Hush  bool          `json:"-"` // the other neighbour has missed a beat, too: a moment later it is heard, or this rank is alone
}

// during tells whether what a rank has seen of another can come from the other's sleep: it
// has failed, or the silence had begun before half of the sleep was over.
func (s *Sighting) during(slept *Sighting) bool {
	return s.Fault != nil || s.Silent+s.Age >= slept.Age+slept.Slept/2
}

// Stood says for how long a rank stood still by its own clock, which does not tell it why.
func Stood(slept time.Duration) string {
	return fmt.Sprintf("stood still for %s, stopped or without a CPU", Span(slept))
}

// Amiss tells whether there is anything to explain.
func (s *Sighting) Amiss() bool { return s.Silent > 0 || s.Ended != "" || s.Fault != nil }

// Panorama is what a judge knows of the ring besides.
type Panorama struct {
	Own   int // the judge
	Size  int
	Death time.Duration
	Name  func(rank int) string // with its place in the list
	Where func(rank int) string // its process and host, "" if they are not known
	Near  func(rank int) bool   // it runs on the judge's machine
}

// Judge makes a verdict of what the ranks have seen, if somebody must have one now; nil if
// it is for another rank to say. It is the only place that blames a rank for what the
// others hear, or do not hear, of it. What is seen by the rank itself, by its host or by both its
// neighbours is certain, silence alone is not; whoever fails for another's failure is a victim.
func Judge(p *Panorama, seen []Sighting) *Verdict {
	var best *Verdict
	for _, s := range seen {
		if !s.Due || !s.Amiss() {
			continue
		}
		v := p.judgeOne(&s, seen)
		if v == nil {
			continue
		}
		v.By = p.Own
		if best == nil || Better(v, best) {
			best = v
		}
	}
	return best
}

// judgeOne explains one Sighting that is due.
func (p *Panorama) judgeOne(s *Sighting, seen []Sighting) *Verdict {
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
	name, who := p.Name(about), p.Where(about)
	slow, still := e.silentTo >= 0 && e.process == ProcessRunning && !e.calls[CallMute], "its host takes a call that it does not answer"
	if slow {
		still = "its host shows its process at work, or waiting for a CPU"
		if s.Fault != nil { // which says more than that it is slow
			e.silentTo = -1
		}
	}
	switch {
	case e.process == ProcessStopped:
		return verdict(KindStopped, Certain, "%s is stopped: its host shows %s so%s%s", name, cmp.Or(who, "its process"), e.silence(), e.faults()).cure(CureStopped)
	case s.Alone > 0 && (e.calls[CallOther] || e.calls[CallRefused] || e.endedTo == by || e.process == ProcessDead):
		v := verdict(KindIsolated, Suspect, "%s heard neither %s nor %s for %s, and then found %s gone: it was cut off, and why that one ended is not known",
			p.Name(by), p.Name(p.beside(by, -1)), p.Name(p.beside(by, 1)), Span(s.Alone), name).cure("look at its network first")
		v.Rank, v.Since = by, s.Alone
		return v
	case e.calls[CallOther]:
		return verdict(KindLost, Certain, "%s was lost: %s is gone, and another process has its place", name, cmp.Or(who, "its process")).cure(p.cureLost(about))
	case e.calls[CallRefused] && e.word != nil && e.word.Ended != "": // which no dead process sees
		return p.broken(&e, edge)
	case e.calls[CallRefused] && e.process != ProcessDead && (e.ended == 0 || p.Size == 2 && !p.Near(about)): // nobody but a firewall may have said so
		return verdict(KindLost, Suspect, "%s was lost: %s and its host refuses a new connection: its process is dead, or a firewall answers for it", name, e.how()).cure(p.cureLost(about))
	case e.calls[CallRefused] || e.process == ProcessDead:
		return verdict(KindLost, Certain, "%s was lost: %s is dead: %s and its host refuses a new one", name, cmp.Or(who, "its process"), e.how()).cure(p.cureLost(about))
	case e.ended > 1 && !e.calls[CallAnswered]:
		return verdict(KindLost, Certain, "%s was lost: %s to both neighbours, and no new one is answered", name, e.how()).cure(p.cureLost(about))
	case e.endedTo >= 0 && e.calls[CallAnswered]:
		return p.broken(&e, edge)
	case e.slept > 0 && (e.fault != nil || e.endedTo >= 0 || e.slept > e.since/4*3): // else it is not heard although it is awake
		sure := Certain
		if s.Fault != nil && e.slept < p.Death {
			sure = Suspect // so little ends no operation by itself
		}
		return verdict(KindStopped, sure, "%s %s, as it says itself%s", name, Stood(e.slept), e.faults()).cure(CureStood)
	case e.endedTo >= 0:
		return verdict(KindLost, Suspect, "%s was lost: %s and its host does not answer any more", name, e.how()).cure(p.cureLost(about))
	case e.silentTo >= 0 && (p.isolated(by, seen) || s.Alone > 0 && (s.Call == CallMute || s.Call == "")):
		v := verdict(KindIsolated, Suspect, "%s hears neither %s nor %s any more, for %s%s: it is cut off, or both are",
			p.Name(by), p.Name(p.beside(by, -1)), p.Name(p.beside(by, 1)), Span(e.since), map[bool]string{true: ", although their packets arrive: what it sends is lost"}[s.Arrives]).cure("look at its network first")
		v.Rank = by
		return v
	case e.silentTo >= 0 && e.alive && (e.calls[CallMute] || e.calls[CallAnswered]):
		return p.cut(&e, edge)
	case e.silentTo >= 0 && (slow || e.calls[CallOpen] || e.calls[CallAnswered]):
		return verdict(KindStopped, Suspect, "%s stands still: it has said nothing for %s and %s", name, Span(e.since), still).cure(CureStopped)
	case e.silentTo >= 0 && e.mute > 1:
		return verdict(KindSilent, Certain, "%s is silent: neither neighbour has heard anything for %s, and no call is answered: its host is down, or cut off from the network%s",
			name, Span(e.since), e.faults()).cure(p.cureSilent(about))
	case e.silentTo >= 0 && p.Size == 2 && e.arrives == by:
		return edge(Direction{by, about, false}, Suspect, "what %s sends does not reach %s over TCP: nothing heard for %s, although its packets arrive",
			p.Name(by), name, Span(e.since)).cure(cureWay(by, about))
	case e.silentTo >= 0 && s.Hush, e.silentTo >= 0 && p.Size > 2 && e.witnesses < 2 && s.Silent < p.Death+p.Death/8:
		return nil // the other neighbour, its or this rank's, is about to say what it sees
	case e.silentTo >= 0:
		return verdict(KindSilent, Suspect, "%s is silent: nothing heard for %s, nothing moving and no call answered: its host is down or the network in between%s%s",
			name, Span(e.since), map[bool]string{true: " (in a ring of two no third rank can tell)"}[p.Size == 2], e.faults()).cure(p.cureSilent(about))
	case s.Fault == nil || e.victim && !s.Late:
		return nil // whom it failed for will be told
	}
	v := *s.Fault
	v.Confidence, v.Since = Suspect, cmp.Or(v.Since, e.since)
	return &v
}

// Span is a time near the bounds, for people.
func Span(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }

// CureStopped is what to do about a process that is stopped.
const CureStopped = "continue it (fg, kill -CONT, the debugger), then connect again"

// CureStood is what to do about a process that stood still, and goes on.
const CureStood = "see who stops processes there (SIGSTOP, a debugger, a frozen cgroup, a suspended VM), or takes their CPU (cpu.stat of the control group)"

// CureCut is what to do about a TCP connection that ended between two ranks that live.
const CureCut = "look at what lies between them: a firewall, a proxy, an address that moved"

func cureWay(from, to int) string {
	return fmt.Sprintf("look at the route and the firewalls from rank %d to rank %d", from, to)
}

func (p *Panorama) cureSilent(rank int) string {
	return fmt.Sprintf("see whether %s answers anybody else", p.host(rank))
}

// cure says what to do.
func (v *Verdict) cure(fix string) *Verdict {
	v.Fix = fix
	return v
}

// evidence is what all ranks together have seen of one.
type evidence struct {
	calls             map[Outcome]bool
	process           Process
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
	word              *Sighting // of it about the one that does not hear it
}

func (p *Panorama) evidence(about, by int, seen []Sighting) evidence {
	e := evidence{calls: map[Outcome]bool{}, endedTo: -1, silentTo: -1, arrives: -1, about: about}
	for i := range seen {
		s := &seen[i]
		switch {
		case s.By == about && s.About == about:
			if slices.ContainsFunc(seen, func(o Sighting) bool { return o.By != about && o.About == about && o.during(s) }) {
				e.slept = s.Slept
			}
		case s.By == about:
			e.alive = true
			if s.About == by {
				e.word = s
			}
			if s.Amiss() && s.About != by {
				e.victim = true
			}
		case s.About == about:
			e.take(s, by)
		}
	}
	return e
}

// take adds what another rank has seen of it.
func (e *evidence) take(s *Sighting, by int) {
	e.witnesses++
	if s.Call != "" {
		e.calls[s.Call] = true
	}
	if s.Process == ProcessStopped || s.Process == ProcessDead || e.process == "" {
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
		if s.Call == CallMute {
			e.mute++
		}
		if s.Arrives {
			e.arrives = s.By
		}
	}
	if s.By != by && s.Call == CallAnswered {
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
	return fmt.Sprintf(", and it has said nothing for %s", Span(e.since))
}

func (e *evidence) faults() string {
	if e.fault == nil {
		return ""
	}
	return " (" + e.fault.Text + ")"
}

// isolated tells whether a rank hears none of its neighbours, two at least, and no host
// refuses it a call.
func (p *Panorama) isolated(rank int, seen []Sighting) bool {
	cut := 0
	for _, s := range seen {
		if s.By == rank && s.About != rank && s.Silent > 0 && s.Call == CallMute {
			cut++
		}
	}
	return p.Size > 2 && cut == 2
}

// beside is the rank so many places on.
func (p *Panorama) beside(rank, places int) int { return (rank + places + p.Size) % p.Size }

// broken explains two neighbours that both live, and whose connection has ended.
func (p *Panorama) broken(e *evidence, edge func(Direction, Confidence, string, ...any) *Verdict) *Verdict {
	d := Direction{min(e.endedTo, e.about), max(e.endedTo, e.about), true}
	return edge(d, Certain, "the control connection (TCP) between %s and %s was cut (%s), and both live",
		p.Name(d.From), p.Name(d.To), e.text).cure(CureCut)
}

// cut explains two neighbours that both live, of which one does not hear the other.
func (p *Panorama) cut(e *evidence, edge func(Direction, Confidence, string, ...any) *Verdict) *Verdict {
	a, b := e.silentTo, e.about
	d := Direction{min(a, b), max(a, b), true}
	switch w := e.word; {
	case e.arrives == a && (w == nil || !w.Arrives):
		d = Direction{a, b, false}
	case w != nil && (w.Arrives || !w.Amiss()) && e.arrives != a:
		d = Direction{b, a, false}
	}
	if e.calls[CallAnswered] && !e.calls[CallMute] {
		return edge(d, Certain, "the control connection (TCP) between %s and %s has carried nothing for %s, and no data moved meanwhile, although rank %d answers a new call",
			p.Name(a), p.Name(b), Span(e.since), b).cure(CureCut)
	}
	if d.Both {
		return edge(d, Certain, "nothing passes between %s and %s over TCP, for %s, no data moved meanwhile, and both live", p.Name(d.From), p.Name(d.To), Span(e.since)).cure("look at the link, the route and the firewalls between them")
	}
	return edge(d, Certain, "what %s sends does not reach %s over TCP, for %s, and no data moved meanwhile, although both live and packets come the other way",
		p.Name(d.From), p.Name(d.To), Span(e.since)).cure(cureWay(d.From, d.To))
}

// host is the host of a rank, for people.
func (p *Panorama) host(rank int) string {
	if _, host, ok := strings.Cut(p.Where(rank), "on host "); ok {
		return host
	}
	return fmt.Sprintf("the host of rank %d", rank)
}

func (p *Panorama) cureLost(rank int) string {
	return fmt.Sprintf("see what %s last said of it (its own output, dmesg), then connect again", p.host(rank))
}

// explains are the kinds from the one that explains most: of two verdicts that were found at
// once, the one on a rank's own word comes before those on what others see of it.
var explains = []Kind{KindCanceled, KindCorrupt, KindMismatch, KindStopped, KindEdge, KindLost, KindLeft, KindSilent, KindIsolated, KindFailed, KindTimeout}

// Alike tells whether two verdicts say the same of the same.
func Alike(a, b *Verdict) bool {
	return a.Kind == b.Kind && a.Rank == b.Rank && a.Edge == b.Edge && a.Confidence == b.Confidence
}

// Better is the order of verdicts that were found at once, the same on all ranks: the
// certain one first, then what explains more, then the lower rank.
func Better(a, b *Verdict) bool {
	certain := func(v *Verdict) int {
		if v.Confidence == Certain {
			return 0
		}
		return 1
	}
	return cmp.Or(certain(a)-certain(b), slices.Index(explains, a.Kind)-slices.Index(explains, b.Kind),
		cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.By, b.By), cmp.Compare(a.Text, b.Text)) < 0
}
