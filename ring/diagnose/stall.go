package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"ringcli/ring/bootstrap/verdict"
)

// Place is where a rank is: as it says itself, or as those found it who asked it in vain.
type Place struct {
	Rank     int      `json:"rank"`
	Node     string   `json:"node"`
	Presence Presence `json:"presence,omitempty"`
	Evidence string   `json:"evidence,omitempty"` // of a presence other than Answers; of Silent, that its process lives
	// Witnesses are the ranks that asked it and heard nothing.
	Witnesses []int `json:"witnesses,omitempty"`
	PID       int   `json:"pid,omitempty"`

	// Slept is how long it was stopped, by its own clock, until Woke ago; 0 is not.
	Slept time.Duration `json:"slept_ns,omitempty"`
	Woke  time.Duration `json:"woke_ns,omitempty"`

	Operation uint64 `json:"operation"`          // that it runs, or ended last
	Running   bool   `json:"running,omitempty"`  // it runs
	Call      string `json:"call,omitempty"`     // what runs, in words
	Activity  string `json:"activity,omitempty"` // what it does else: "idle at its prompt"
	// Awaits is what it has waited for, for long. A rank that runs an operation and awaits
	// nothing works.
	Awaits []Await `json:"awaits,omitempty"`
	// Gave is what it has given others in this operation, if it awaits anything.
	Gave []Given `json:"gave,omitempty"`
}

// Presence is how a rank was found.
type Presence string

// The presences. Of a rank whose presence is "" nobody knows anything.
const (
	Answers Presence = "answers"
	Stopped Presence = "stopped" // its host says that its process is
	Gone    Presence = "gone"    // its host says that its process has ended
	Silent  Presence = "silent"
	Slow    Presence = "slow" // it does not answer, and its host says that its process lives
)

// Item is what ranks give each other in an operation. All but Join are numbered from 0,
// by what gives them.
type Item string

// The items.
const (
	Data    Item = "data"
	RTS     Item = "RTS"
	CTS     Item = "CTS"
	FIN     Item = "FIN"
	Credit  Item = "credit"
	Receipt Item = "acknowledgement" // of the data of the rank that awaits it: given is what has come
	Answer  Item = "read"            // the data of a READ
	Join    Item = "join"            // a step that all ranks take together
)

// Await is one thing that a rank awaits.
type Await struct {
	From    int           `json:"from"`
	Item    Item          `json:"item"`
	Number  int           `json:"number"` // of the item
	Phase   string        `json:"phase,omitempty"`
	Segment int           `json:"segment"` // -1: of none
	What    string        `json:"what"`    // in words: "the data of segment 3"
	For     time.Duration `json:"for_ns"`  // so long
}

// Given is how much of an item a rank has given another.
type Given struct {
	To    int  `json:"to"`
	Item  Item `json:"item"`
	Count int  `json:"count"`
}

// gave tells how much of an item a rank has given another, if it says.
func (p *Place) gave(to int, item Item) (n int, known bool) {
	for _, g := range p.Gave {
		if g.To == to && g.Item == item {
			return g.Count, true
		}
	}
	return 0, false
}

// Who names the rank.
func (p *Place) Who() string { return fmt.Sprintf("rank %d (%s)", p.Rank, p.Node) }

// StallKind is what brings a ring to a stop.
type StallKind string

// The kinds, the gravest first.
const (
	StallGone     StallKind = "lost"
	StallStopped  StallKind = "stopped"
	StallIsolated StallKind = "isolated" // the rank that asks hears nobody
	StallSilent   StallKind = "silent"
	StallEdge     StallKind = "edge"     // what one rank gives another does not arrive
	StallMismatch StallKind = "mismatch" // another call under the same number
	StallIdle     StallKind = "idle"     // it has not begun the operation
	StallBehind   StallKind = "behind"   // it is in an earlier operation
	StallWorks    StallKind = "works"    // it computes, or does not get on
	StallUnknown  StallKind = "unknown"
)

// Decided tells whether waiting any longer is of no use.
func (k StallKind) Decided() bool {
	return slices.Contains([]StallKind{StallGone, StallStopped, StallIsolated, StallSilent, StallEdge, StallMismatch}, k)
}

// Blame is who or what brings a ring to a stop.
type Blame struct {
	Kind     StallKind
	Rank     int  // the culprit, or -1
	From, To int  // the direction that does not carry, with StallEdge; else -1
	Both     bool // nor does the other
	Certain  bool
	Text     string // what happened, and the evidence
	Fix      string
	Tested   *verdict.Verdict // on tests of edges, which it comes from; or nil
	Waiter   int              // a rank that waits for it directly, or -1
	Await    *Await           // what for
	Waiting  int              // how many ranks wait for it, directly or not
}

// Same tells whether two blame the same for the same.
func (b *Blame) Same(other *Blame) bool {
	return b.Kind == other.Kind && b.Rank == other.Rank && b.From == other.From && b.To == other.To
}

// String is one line.
func (b Blame) String() string {
	if b.Fix == "" {
		return b.Text
	}
	return b.Text + ": " + b.Fix
}

// Stall finds out of where all ranks are, by rank, who keeps them waiting; asker is the
// rank that has asked. The gravest comes first. It follows who waits for whom: whoever
// waits is a victim, and what stands at the end of its chain is at fault: a rank that is
// stopped, gone or silent, that is not in the operation or does not wait itself, or a
// direction in which something was given that has not come.
func Stall(places []Place, asker int) []Blame {
	s := stall{places: places, asker: asker}
	s.absent()
	s.edges()
	s.mismatches()
	if len(s.found) == 0 {
		s.ends()
	}
	if len(s.found) == 0 {
		s.add(Blame{Kind: StallUnknown, Rank: -1, Text: "every rank waits for another one, and nothing that one has given the other is missing", Waiter: -1})
	}
	order := []StallKind{StallGone, StallStopped, StallIsolated, StallSilent, StallEdge, StallMismatch, StallIdle, StallBehind, StallWorks, StallUnknown}
	slices.SortStableFunc(s.found, func(a, b Blame) int {
		return cmp.Or(-cmp.Compare(truth(a.Certain), truth(b.Certain)), cmp.Compare(slices.Index(order, a.Kind), slices.Index(order, b.Kind)), -cmp.Compare(a.Waiting, b.Waiting))
	})
	return s.found
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}

type stall struct {
	places []Place
	asker  int
	found  []Blame
}

// add notes a blame. An edge is blamed once.
func (s *stall) add(b Blame) {
	if b.Kind != StallEdge {
		b.From, b.To = -1, -1
	} else if slices.ContainsFunc(s.found, func(x Blame) bool {
		return x.Kind == StallEdge && (x.From == b.From && x.To == b.To || !b.Certain && x.From == b.To && x.To == b.From)
	}) {
		return
	}
	s.found = append(s.found, b)
}

// answers tells whether a rank says itself where it is.
func (s *stall) answers(rank int) bool {
	return rank >= 0 && rank < len(s.places) && s.places[rank].Presence == Answers
}

// waiter returns a rank that waits for another directly, the one that has waited longest.
func (s *stall) waiter(rank int) (waiter int, await *Await) {
	waiter = -1
	for i := range s.places {
		for j := range s.places[i].Awaits {
			if a := &s.places[i].Awaits[j]; a.From == rank && s.answers(i) && (await == nil || a.For > await.For) {
				waiter, await = i, a
			}
		}
	}
	return waiter, await
}

// waiting counts those that wait for a rank, directly or not.
func (s *stall) waiting(rank int) int {
	seen := map[int]bool{rank: true}
	for queue := []int{rank}; len(queue) > 0; queue = queue[1:] {
		for i := range s.places {
			if !seen[i] && slices.ContainsFunc(s.places[i].Awaits, func(a Await) bool { return a.From == queue[0] }) {
				seen[i] = true
				queue = append(queue, i)
			}
		}
	}
	return len(seen) - 1
}

// blame blames a rank.
func (s *stall) blame(kind StallKind, rank int, certain bool, text, fix string) {
	b := Blame{Kind: kind, Rank: rank, Certain: certain, Text: text, Fix: fix, Waiting: s.waiting(rank)}
	b.Waiter, b.Await = s.waiter(rank)
	if b.Await != nil {
		b.Text += "; " + s.told(b.Waiter, b.Await)
	}
	s.add(b)
}

// told says who waits for what.
func (s *stall) told(waiter int, a *Await) string {
	p := &s.places[waiter]
	text := fmt.Sprintf("rank %d has waited for %s of rank %d for %s", waiter, a.What, a.From, Round(a.For))
	if a.Item == Join {
		text = fmt.Sprintf("rank %d has waited for rank %d to %s for %s", waiter, a.From, a.What, Round(a.For))
	}
	if p.Running {
		text += fmt.Sprintf(", in operation %d (%s)", p.Operation, strings.Join(slices.DeleteFunc([]string{p.Call, a.Phase}, func(t string) bool { return t == "" }), ", "))
	}
	return text
}

// Round rounds a time for people.
func Round(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}

// absent blames ranks that do not answer, and those that were stopped.
func (s *stall) absent() {
	heard, silent, answer := 0, 0, 0
	for i := range s.places {
		switch s.places[i].Presence {
		case Silent:
			silent++
		case "":
		default:
			if i == s.asker {
				break
			}
			heard++
			if s.places[i].Presence == Answers {
				answer++
			}
		}
	}
	if heard == 0 && silent > 1 {
		s.add(Blame{
			Kind: StallIsolated, Rank: -1, Waiter: -1, Waiting: 0,
			Text: fmt.Sprintf("%s is isolated: no other rank answers it, on either side", s.places[s.asker].Who()),
			Fix:  "look at this node's own network before all others",
		})
		return
	}
	for i := range s.places {
		p := &s.places[i]
		switch {
		case p.Presence == Gone:
			// Where nobody answers, it may have ended since this rank is cut off.
			s.blame(StallGone, i, answer > 0 || len(s.places) == 2, fmt.Sprintf("%s is gone: %s", p.Who(), p.Evidence), "see what it said last, then connect again")
		case p.Presence == Stopped:
			s.blame(StallStopped, i, true, fmt.Sprintf("%s is stopped: %s", p.Who(), p.Evidence), fmt.Sprintf("continue it (kill -CONT %d) or end it", p.PID))
		case p.Presence == Slow:
			s.blame(StallWorks, i, false, fmt.Sprintf("%s does not answer in time: %s", p.Who(), p.Evidence), "see what holds it up: its CPU, its memory")
		case p.Presence == Silent:
			// One that lives may only get no CPU.
			certain := len(p.Witnesses) > 1 && p.Evidence == ""
			text := fmt.Sprintf("%s does not answer over TCP either", p.Who())
			if p.Evidence != "" {
				text += ", although " + p.Evidence
			}
			if len(p.Witnesses) > 1 {
				text += fmt.Sprintf(": ranks %d and %d asked it, from both sides", p.Witnesses[0], p.Witnesses[1])
			} else if len(p.Witnesses) == 1 {
				text += fmt.Sprintf(": rank %d asked it", p.Witnesses[0])
			}
			s.blame(StallSilent, i, certain, text, "see whether that node runs, whether the process is stopped (ps), and whether its network is up")
		case p.Presence == Answers && p.Slept > 0:
			// A wait that began before it was stopped has another cause.
			if _, a := s.waiter(i); a != nil && a.For > p.Woke && a.For < p.Slept+p.Woke+time.Second {
				s.blame(StallStopped, i, true, fmt.Sprintf("%s stood still for %s, until %s ago, by its own clock, stopped or without a CPU", p.Who(), Round(p.Slept), Round(p.Woke)), verdict.CureStood)
			}
		}
	}
}

// edges blames directions in which something was given that has not come.
func (s *stall) edges() {
	for i := range s.places {
		p := &s.places[i]
		if !s.answers(i) {
			continue
		}
		for j := range p.Awaits {
			a := &p.Awaits[j]
			if !s.answers(a.From) || s.places[a.From].Slept > 0 || p.Slept > 0 {
				continue
			}
			if b, ok := s.lost(p, a); ok {
				b.Kind, b.Rank, b.Waiter, b.Await = StallEdge, -1, i, a
				b.Waiting = 1 + s.waiting(i)
				b.Text += "; " + s.told(i, a)
				b.Fix = fmt.Sprintf("look at the path from rank %d to rank %d: counters, UDP port 4791, MTU", b.From, b.To)
				s.add(b)
			}
		}
	}
}

// lost tells whether what p awaits was given, and so lost between the two.
func (s *stall) lost(p *Place, a *Await) (b Blame, lost bool) {
	q := &s.places[a.From]
	if a.Item == Join || !p.Running {
		return b, false
	}
	here, there := p.Rank, q.Rank
	b.From, b.To = there, here
	if q.Operation > p.Operation || q.Operation == p.Operation && !q.Running {
		b.Text = fmt.Sprintf("what rank %d sends to rank %d does not arrive: it has ended operation %d", there, here, p.Operation)
		return b, true
	}
	if q.Operation < p.Operation || q.Call != p.Call {
		return b, false
	}
	n, known := q.gave(here, a.Item)
	switch {
	case a.Item == Receipt && known && n <= a.Number:
		b.From, b.To = here, there
		b.Text = fmt.Sprintf("what rank %d sends to rank %d does not arrive: it sent number %d, and %d have come", here, there, a.Number+1, n)
	case a.Item == Receipt && known:
		b.Text = fmt.Sprintf("the acknowledgements of rank %d do not arrive at rank %d: %d of its segments have come there", there, here, n)
	case a.Item == Receipt || a.Item == Answer:
		b.From, b.To = here, there
		b.Text = fmt.Sprintf("rank %d answers over TCP, and its device does not answer rank %d", there, here)
	case known && n > a.Number:
		b.Text = fmt.Sprintf("what rank %d sends to rank %d does not arrive: it has sent %d, and this is number %d", there, here, n, a.Number+1)
	default:
		return b, false
	}
	return b, true
}

// mismatches blames ranks that run another call under the number that others run: the
// fewer.
func (s *stall) mismatches() {
	calls := map[uint64]map[string][]int{}
	for i := range s.places {
		p := &s.places[i]
		if !s.answers(i) || !p.Running || p.Call == "" || len(p.Awaits) == 0 {
			continue
		}
		if calls[p.Operation] == nil {
			calls[p.Operation] = map[string][]int{}
		}
		calls[p.Operation][p.Call] = append(calls[p.Operation][p.Call], i)
	}
	for number, by := range calls {
		if len(by) < 2 {
			continue
		}
		var most string
		for call, ranks := range by {
			if len(ranks) > len(by[most]) || len(ranks) == len(by[most]) && call < most {
				most = call
			}
		}
		for call, ranks := range by {
			if call == most {
				continue
			}
			for _, r := range ranks {
				s.blame(StallMismatch, r, true, fmt.Sprintf("%s runs %s as operation %d, where %d others run %s", s.places[r].Who(), call, number, len(by[most]), most),
					"make the same calls in the same order on all ranks")
			}
		}
	}
}

// ends blames those that are awaited and do not wait themselves.
func (s *stall) ends() {
	for i := range s.places {
		p := &s.places[i]
		waiter, await := s.waiter(i)
		if !s.answers(i) || waiter < 0 || len(p.Awaits) > 0 || p.Slept > 0 {
			continue
		}
		number := s.places[waiter].Operation
		doing := ""
		if p.Activity != "" {
			doing = ": " + p.Activity
		}
		switch {
		case await.Item == Join:
			s.blame(StallIdle, i, true, fmt.Sprintf("%s has not come to %s%s", p.Who(), await.What, doing), "see what it does instead")
		case !p.Running && p.Operation < number:
			s.blame(StallIdle, i, true, fmt.Sprintf("%s has not begun operation %d: it ended operation %d%s", p.Who(), number, p.Operation, doing),
				"make the same calls in the same order on all ranks, and see what that one does meanwhile")
		case p.Running && p.Operation < number:
			s.blame(StallBehind, i, false, fmt.Sprintf("%s is still in operation %d (%s), and waits for nobody", p.Who(), p.Operation, p.Call), "see what holds it up: its CPU, its memory")
		default:
			s.blame(StallWorks, i, false, fmt.Sprintf("%s is in the operation and waits for nobody: it is slow, or does not get on", p.Who()), "see what holds it up: its CPU, its memory")
		}
	}
}
