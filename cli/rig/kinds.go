package main

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"time"
)

// ranks is the size of every ring.
const ranks = 6

// The scripts that a case runs, after a ping.
const (
	reduce  = "all-reduce --size 1M --duration 3s"
	measure = "links --time 100ms --size 16K"
	both    = reduce + "; " + measure // which way a rank is slow only links tells
	racks   = measure + " --groups 0-2,3-5"
	look    = "doctor; path"
	steps   = "reset; init; exchange; rtr; rts; ping; all-reduce --size 1M --iters 3"
)

// kind is a kind of fault.
type kind struct {
	name    string
	cases   int      // of a cycle
	scripts []string // a case runs one of them
	moment  moment
	targets target
	strike  func(r *ring) error
	// judge is what an accusation is in a case of this kind; nil: any is wrong.
	judge func(p *plan, a *accusation) opinion
	codes []int // exit codes that a rank may end with
	// open is why TestRig leaves the kind to `make rig`: what falls short of it now and then, or time.
	open string
}

// moment is when a fault is injected.
type moment int

const (
	running moment = iota // after the first ping
	before                // before the ranks start
	either
	ports // as running, and every port has portRate: two CPUs are not the bottleneck
)

// target is what a fault is done to.
type target int

const (
	oneRank  target = iota
	ringEdge        // from a rank to its right neighbour, which collectives use
	anyEdge         // where the script measures links, else as ringEdge
)

// opinion is what an accusation is beside the fault that was injected.
type opinion int

const (
	misleads opinion = iota // names a wrong rank, edge, direction or cause
	harmless                // is true, and names less than the fault
	names                   // names the fault
)

// Rates of ports, and of one that is slow. The WRITEs in flight must not stand in a queue
// for longer than the timer of a retransmission.
const (
	portRate  = "240mbit"
	burst     = " burst 64kb limit 4mb"
	crawlRate = "2mbit" // a queue pair gives up before all WRITEs in flight have passed
)

// kinds are all kinds, in the order of a cycle.
var kinds = []kind{
	{name: "healthy", cases: 1, scripts: []string{reduce, measure, look}, codes: []int{0}},
	{name: "healthy under load", cases: 3, scripts: []string{reduce, reduce, measure, look}, moment: before, strike: func(r *ring) error { return r.load(cpus()) }, codes: []int{0}, open: "a slow edge is named at a load of 30 and more"},
	{name: "loss", cases: 1, scripts: []string{reduce, measure}, targets: anyEdge, strike: func(r *ring) error { return r.lose(true) }, judge: edgeIs(loss, true), codes: []int{0, 1}},
	{name: "one-way loss", cases: 1, scripts: []string{reduce, measure}, targets: anyEdge, strike: func(r *ring) error { return r.lose(false) }, judge: edgeIs(loss, false), codes: []int{0, 1}},
	{name: "rate of an edge", cases: 1, scripts: []string{both, measure}, targets: anyEdge, moment: ports, strike: func(r *ring) error { return r.limitEdge(r.Rate) }, judge: edgeIs(slow, false), codes: []int{0, 1}, open: "it takes half a minute"},
	{name: "rate of a sender", cases: 1, scripts: []string{both, measure}, moment: ports, strike: (*ring).limitSender, judge: senderIs, codes: []int{0, 1}, open: "it takes half a minute"},
	{name: "rate of a receiver", cases: 1, scripts: []string{both, measure}, moment: ports, strike: (*ring).limitReceiver, judge: receiverIs, codes: []int{0, 1}, open: "it takes half a minute"},
	{name: "mtu hole of a port", cases: 1, scripts: []string{reduce, look, reduce, look, measure}, moment: before, strike: (*ring).narrow, judge: rankIs(size), codes: []int{1, 2}},
	{name: "mtu hole of an edge", cases: 1, scripts: []string{reduce, look, reduce, look, measure}, targets: ringEdge, moment: before, strike: (*ring).narrowEdge, judge: edgeIs(size, false), codes: []int{1, 2}},
	{name: "one-way block", cases: 1, scripts: []string{reduce, look}, targets: ringEdge, moment: either, strike: (*ring).block, judge: edgeIs(blocked, false), codes: []int{1, 2}},
	{name: "dead receiver", cases: 1, scripts: []string{reduce, look}, moment: either, strike: (*ring).deafen, judge: rankIs(blocked), codes: []int{1, 2}},
	{name: "duplicate address", cases: 1, scripts: []string{reduce, look}, moment: before, strike: (*ring).double, judge: rankIs(duplicate), codes: []int{1, 2, 3}},
	{name: "wrong route", cases: 1, scripts: []string{reduce, look}, targets: ringEdge, moment: before, strike: (*ring).misroute, judge: routeIs, codes: []int{1, 2, 3}},
	{name: "flap", cases: 1, scripts: []string{reduce}, strike: (*ring).flap, judge: rankIs(carrier), codes: []int{0, 1, 2}},
	{name: "kill", cases: 1, scripts: []string{reduce}, strike: (*ring).kill, judge: rankIs(lost), codes: []int{2}},
	{name: "stop", cases: 1, scripts: []string{reduce}, strike: (*ring).stop, judge: rankIs(stopped), codes: []int{2}},
	{name: "CPU hog on a rank", cases: 1, scripts: []string{reduce}, moment: before, strike: (*ring).starve, judge: rankIs(starved), codes: []int{0, 1, 2}, open: "the rank is not named at times"},
	{name: "CPU hog on the host", cases: 1, scripts: []string{reduce}, strike: func(r *ring) error { return r.load(4 * cpus()) }, codes: []int{0}},
	// Those that follow are of failures.md, or need no more than the links.
	{name: "crawling edge", cases: 1, scripts: []string{measure}, targets: anyEdge, moment: ports, strike: func(r *ring) error { return r.limitEdge(crawlRate) }, judge: edgeIs(slow, false), codes: []int{1}, open: "it takes half a minute"},
	{name: "late edge", cases: 1, scripts: []string{measure}, targets: anyEdge, moment: ports, judge: edgeIs(late, true), codes: []int{1}},
	{name: "thin uplink", cases: 1, scripts: []string{racks}, moment: ports, judge: groupIs, codes: []int{1}, open: "it takes half a minute"},
	{name: "wrong list", cases: 1, scripts: []string{reduce}, moment: before, judge: rankIs(differs), codes: []int{2, 3}},
	{name: "absent", cases: 1, scripts: []string{reduce}, moment: before, judge: rankIs(absent), codes: []int{2}},
	{name: "port taken", cases: 1, scripts: []string{reduce}, moment: before, judge: rankIs(taken), codes: []int{2, 3}},
	{name: "silent program", cases: 1, scripts: []string{reduce}, moment: before, judge: rankIs(absent), codes: []int{2}},
	{name: "descriptors", cases: 1, scripts: []string{reduce}, moment: before, judge: rankIs(few), codes: []int{2, 3}},
	{name: "wrong PSN", cases: 1, scripts: []string{steps}, targets: ringEdge, moment: before, judge: endIs(psn), codes: []int{2}},
	{name: "wrong MTU", cases: 1, scripts: []string{steps}, targets: ringEdge, moment: before, judge: endIs(mtu), codes: []int{2}},
}

// What a right accusation calls the fault: its kind, its code or its words.
var (
	loss      = regexp.MustCompile(`(?i)loss|lossy|loses|lost packets`)
	slow      = regexp.MustCompile(`(?i)slow`)
	late      = regexp.MustCompile(`(?i)\blate\b`)
	size      = regexp.MustCompile(`(?i)size|longer than|mtu|bytes|checks failed`)
	blocked   = regexp.MustCompile(`(?i)does not arrive|nothing arrives|no packet|receives nothing|receives no|no UDP|dead|isolated|deaf|checks failed`)
	duplicate = regexp.MustCompile(`(?i)duplicate|second MAC|two MAC|same address|another host`)
	carrier   = regexp.MustCompile(`(?i)flap|carrier|link (was|went) down`)
	lost      = regexp.MustCompile(`(?i)lost|died|killed|ended`)
	stopped   = regexp.MustCompile(`(?i)stopped|silent`)
	starved   = regexp.MustCompile(`(?i)\bcpu\b|\blate\b`)
	differs   = regexp.MustCompile(`(?i)list`)
	absent    = regexp.MustCompile(`(?i)absent|refused|not running|not started|foreign|something else|no answer|said nothing`)
	taken     = regexp.MustCompile(`(?i)port`)
	few       = regexp.MustCompile(`(?i)descriptors|open files`)
	route     = regexp.MustCompile(`(?i)rout|unreachable`)
	psn       = regexp.MustCompile(`(?i)psn`)
	mtu       = regexp.MustCompile(`(?i)mtu`)
)

// cpu tells whether an accusation is that a rank had no CPU, or was late.
func (a *accusation) cpu() bool { return starved.MatchString(a.Kind) }

// touches tells whether an accusation is of an edge, of which the rank is an end.
func (a *accusation) touches(rank int) bool {
	return a.Rank < 0 && slices.Contains(a.ends(), rank)
}

// rankIs expects the rank of the plan to be named.
func rankIs(called *regexp.Regexp) func(*plan, *accusation) opinion {
	return func(p *plan, a *accusation) opinion {
		switch {
		case a.Rank == p.Rank && a.is(called):
			return names
		case a.Rank == p.Rank && !a.cpu(), a.touches(p.Rank) && called != starved && !a.cpu():
			return harmless
		}
		return misleads
	}
}

// edgeIs expects the edge of the plan to be named, in its direction. A fault of both
// directions may be named in one, or in each.
func edgeIs(called *regexp.Regexp, both bool) func(*plan, *accusation) opinion {
	return func(p *plan, a *accusation) opinion {
		if a.Rank >= 0 || len(a.From) != 1 || len(a.To) != 1 {
			return misleads
		}
		same := a.From[0] == p.Rank && a.To[0] == p.To
		back := a.From[0] == p.To && a.To[0] == p.Rank
		switch {
		case !same && !back, !both && (back || a.Both):
			return misleads
		case a.is(called):
			return names
		case a.is(slow): // so it is, whatever the reason
			return harmless
		}
		return misleads
	}
}

// senderIs expects a rank that sends slowly. An operation uses one edge of it.
func senderIs(p *plan, a *accusation) opinion {
	return slowRank(p, a, "sender", p.Rank, (p.Rank+1)%ranks)
}

func receiverIs(p *plan, a *accusation) opinion {
	return slowRank(p, a, "receiver", (p.Rank+ranks-1)%ranks, p.Rank)
}

func slowRank(p *plan, a *accusation, role string, from, to int) opinion {
	ofEdge := a.Rank < 0 && a.Source == "lateness" && slices.Equal(a.From, []int{from}) && slices.Equal(a.To, []int{to}) && !a.Both
	switch {
	case !a.is(slow), a.cpu():
		return misleads
	case ofEdge, a.Rank == p.Rank && a.Role == role:
		return names
	case a.Rank == p.Rank && a.Role == "rank":
		return harmless
	}
	return misleads
}

// groupIs expects the uplink between the lower ranks and the others.
func groupIs(_ *plan, a *accusation) opinion {
	one, other := []int{0, 1, 2}, []int{3, 4, 5}
	if a.is(slow) && a.Both && (slices.Equal(a.From, one) && slices.Equal(a.To, other) || slices.Equal(a.From, other) && slices.Equal(a.To, one)) {
		return names
	}
	return misleads
}

// routeIs expects the rank with the wrong route, or what it sends to the other.
func routeIs(p *plan, a *accusation) opinion {
	ofEdge := a.Rank < 0 && slices.Equal(a.From, []int{p.Rank}) && slices.Equal(a.To, []int{p.To}) && !a.Both
	switch {
	case (ofEdge || a.Rank == p.Rank) && a.is(route):
		return names
	case a.Rank == p.Rank, a.touches(p.Rank) && a.touches(p.To):
		return harmless
	}
	return misleads
}

// endIs expects the end that was given a wrong value, or its edge.
func endIs(called *regexp.Regexp) func(*plan, *accusation) opinion {
	return func(p *plan, a *accusation) opinion {
		ofEdge := a.Rank < 0 && a.touches(p.Rank) && a.touches(p.To)
		switch {
		case (ofEdge || a.Rank == p.Rank) && a.is(called):
			return names
		case ofEdge, a.Rank == p.Rank, a.Rank == p.To && a.Kind == "qp_state": // it is in ERR
			return harmless
		}
		return misleads
	}
}

// plan is a case. The seed and its number make all of it.
type plan struct {
	Seed   uint64        `json:"seed"`
	Number int           `json:"case"`
	Kind   string        `json:"kind"`
	Script string        `json:"script"`
	Rank   int           `json:"rank"` // at fault; of an edge, its sender
	To     int           `json:"to"`   // receiver of an edge
	Early  bool          `json:"early"`
	At     time.Duration `json:"at"`   // after the first ping
	Loss   float64       `json:"loss"` // share of packets
	Rate   string        `json:"rate"`
	Down   time.Duration `json:"down"` // of a flap
	Way    int           `json:"way"`  // of several in which a fault is made
}

func kindNames() (list []string) {
	for _, k := range kinds {
		list = append(list, k.name)
	}
	return list
}

// cycle is the kinds of so many cases in a row, after which they come again.
func cycle() (list []*kind) {
	for i := range kinds {
		for range kinds[i].cases {
			list = append(list, &kinds[i])
		}
	}
	return list
}

func newPlan(seed uint64, number int) plan {
	r := rand.New(rand.NewPCG(seed, uint64(number)))
	c := cycle()
	k := c[number%len(c)]
	p := plan{
		Seed: seed, Number: number, Kind: k.name, Script: k.scripts[r.IntN(len(k.scripts))], Rank: r.IntN(ranks),
		At: time.Duration(r.IntN(800)) * time.Millisecond, Loss: 0.01 + 0.03*r.Float64(), Rate: []string{"50mbit", "96mbit"}[r.IntN(2)],
		Down: time.Duration(200+r.IntN(300)) * time.Millisecond, Way: r.IntN(3),
	}
	p.To = (p.Rank + 1) % ranks
	if k.targets == anyEdge && p.Script == measure {
		p.To = (p.Rank + 1 + r.IntN(ranks-1)) % ranks
	}
	// Links may have measured the pair before a fault that comes later.
	p.Early = k.moment == before || strings.Contains(p.Script, measure) || k.moment == either && r.IntN(2) == 0
	return p
}

// kind is that of the plan.
func (p *plan) kind() *kind {
	return &kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.name == p.Kind })]
}

func (p *plan) String() string {
	whose := fmt.Sprintf("rank %d", p.Rank)
	if p.kind().targets != oneRank {
		whose += fmt.Sprintf(" to %d", p.To)
	}
	when := fmt.Sprintf("%s after the first ping", p.At)
	if p.Early {
		when = "before the start"
	}
	script, _, _ := strings.Cut(p.Script, " --")
	return fmt.Sprintf("case %d: %s, %s, %s, %q", p.Number, p.Kind, whose, when, script)
}
