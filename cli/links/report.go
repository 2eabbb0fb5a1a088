package links

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/configs/codes"
	"ringcli/ring/diagnose/links"
)

// report is what a run has found, and shows.
type report struct {
	s       *session.Session
	mode    string
	how     howTo
	all     bool // pairs are shown
	hosts   []string
	begun   time.Time
	files   *files
	results *results
	// measuring is when the first round began.
	measuring time.Time
	again     int // rounds
	anew      int // measurements of suspects that were announced
	rounds    int
	ruled     int
	arrived   map[links.Pair]int // the longest path MTU of which packets arrive, of pairs without a connection
}

// announce says what comes.
func (c *report) announce() error {
	n := len(c.hosts)
	rounds := c.passes() * c.roundsOf()
	what := fmt.Sprintf("in %s of %s, about %s", count(rounds, "round"), c.how.span, time.Duration(rounds)*c.how.span)
	switch c.mode {
	case modeRing:
		what = count(ringEdges(n), "edge") + " of the ring " + what
	case modeMesh:
		what = count(n*(n-1)/2, "pair") + " " + what
	default:
		what = "all ranks at once to rank+k " + what
	}
	if c.passes() > 1 {
		what += fmt.Sprintf("; each %d times, of which the best counts", c.passes())
	}
	if c.most() > c.passes() {
		what += fmt.Sprintf(", or up to %d where the figures are noisy", c.most())
	}
	return c.s.Out.Notes(render.Faint, "links of "+c.s.Member.Where()+": "+what,
		fmt.Sprintf("WRITEs of %s, %d in flight; latency is half the round trip of %s", render.Bytes(uint64(c.how.bytes)), c.how.outstanding, render.Bytes(uint64(c.how.small))))
}

func ringEdges(n int) int {
	if n == 2 {
		return 1
	}
	return n
}

func (c *report) passes() int {
	if c.how.passes > 0 {
		return c.how.passes
	}
	return links.Passes(c.roundsOf())
}

// roundsOf is how many rounds a pass takes.
func (c *report) roundsOf() int {
	switch n := len(c.hosts); {
	case c.mode == modeMesh:
		return links.Rounds(n)
	case c.mode == modeShift:
		return n - 1
	case n == 2:
		return 1
	default:
		return 2 + n%2
	}
}

const (
	// quiet is the noise of the best of several passes with which a fault of a fifth is seen; while
	// there is more, and few rounds, there are more passes, up to morePasses times as many.
	quiet      = 0.04
	morePasses = 3
)

// most is how many passes there are where the figures are noisy.
func (c *report) most() int {
	n := c.passes()
	if c.how.passes == 0 && n > 1 {
		n *= morePasses
	}
	return n
}

// measureAll goes through the passes, and has what all ranks have measured in into.
func (c *report) measureAll(ctx context.Context, x *measurement, into *results) error {
	least, most := c.passes(), c.most()
	for pass := range most {
		err := c.measure(ctx, x, pass)
		if err != nil && (ctx.Err() != nil || !isStopped(err)) {
			return err
		}
		if pass+1 >= least || err != nil {
			all, tellErr := x.tell(ctx)
			if tellErr != nil {
				return tellErr
			}
			into.add(all)
			if err != nil || into.figures.Noise <= quiet {
				return err
			}
		}
	}
	return nil
}

// measure goes through the rounds of the mode. In each pass of a mesh other pairs meet at once:
// those that share a link are not always the same.
func (c *report) measure(ctx context.Context, x *measurement, pass int) error {
	n := len(c.hosts)
	switch c.mode {
	case modeMesh:
		return x.tournament(ctx, "mesh", links.Rounds(n), func(round int) []int { return links.Shuffled(n, round, pass) })
	case modeRing:
		pairs := make([]links.Pair, ringEdges(n))
		for i := range pairs {
			pairs[i] = links.Pair{From: i, To: (i + 1) % n}
		}
		return x.pairs(ctx, "ring", pairs)
	}
	ks := make([]int, n-1)
	for i := range ks {
		ks[i] = i + 1
	}
	return x.shifts(ctx, ks)
}

// pairs measures some pairs, as many of a batch at once as are disjoint.
func (x *measurement) pairs(ctx context.Context, what string, batches ...[]links.Pair) error {
	var rounds [][]int
	for _, list := range batches {
		rounds = append(rounds, links.Disjoint(x.m.Ring.Size(), list)...)
	}
	return x.tournament(ctx, what, len(rounds), func(round int) []int { return rounds[round] })
}

// softLate is how many us more something must take to be late where CPUs move the data: a thread
// that waits for its turn makes tens and hundreds of them.
const softLate = 300

// judge says who is to blame, once the suspects were measured again. All ranks have the same
// figures, and so come to the same.
func (c *report) judge(ctx context.Context, x *measurement) (*links.Verdict, error) {
	n := len(c.hosts)
	o := links.Options{}
	if c.results.soft {
		o.LateLeast = softLate
	}
	v := links.Judge(c.results.figures, o)
	first := len(v.Findings)
	x.again = true
	var repeats []*results
	for range links.Confirmations(n) {
		batches := v.Retests(n)
		if len(batches) == 0 {
			break
		}
		again := newResults(n, c.results.figures.Group)
		var err error
		if c.mode == modeShift { // it takes the load of all, and pairs to tell what arrives
			x.gone = newGone(n, goneTries)
			err = c.measureAll(ctx, x, again)
			dead := *v
			dead.Findings = slices.DeleteFunc(slices.Clone(v.Findings), func(f links.Finding) bool { return f.Kind != links.Dead })
			batches = dead.Retests(n)
		}
		if err == nil && len(batches) > 0 {
			x.gone = newGone(n, 1)
			err = c.repeat(ctx, x, again, c.passes(), batches)
		}
		if err != nil {
			return nil, err
		}
		v = v.Confirm(again.figures)
		repeats = append(repeats, again)
		if c.mode == modeShift {
			break
		}
	}
	v = v.Final()
	if c.results.copied && c.mode != modeShift {
		again := newResults(n, c.results.figures.Group)
		for round := links.TrialRounds; ; round += links.TrialRounds {
			batches := v.Trials(n)
			if len(batches) == 0 {
				break
			}
			if err := c.repeat(ctx, x, again, links.TrialRounds, batches); err != nil {
				return nil, err
			}
			v = v.Try(n, again.draws, round >= links.TrialMost)
		}
		repeats = append(repeats, again)
	}
	c.ruled = first - len(v.Findings) - v.Undecided
	v = v.Shared()
	for _, again := range repeats { // not before: the verdict is about the first figures
		c.results.takeAgain(again, func(p links.Pair) bool { return crosses(v, p) })
	}
	c.probed(v)
	c.again, c.rounds = x.rounds-c.rounds, x.rounds
	return v, nil
}

// repeat says how long it takes to measure batches of pairs so often, by the time of the rounds
// until now, and does it.
func (c *report) repeat(ctx context.Context, x *measurement, into *results, times int, batches [][]links.Pair) error {
	pairs, rounds := 0, 0
	for _, b := range batches {
		pairs, rounds = pairs+len(b), rounds+times*len(links.Disjoint(len(c.hosts), b))
	}
	c.anew++
	took := time.Since(c.measuring) / time.Duration(max(1, x.rounds)) * time.Duration(rounds)
	err := c.s.Out.Notes(render.Faint, fmt.Sprintf("measuring suspects again (%d), with pairs that did well: %s, %s, about %s", c.anew, count(pairs, "pair"), count(rounds, "round"), max(took, time.Second).Round(time.Second)))
	for turn := 0; turn < times && err == nil; turn++ {
		err = x.pairs(ctx, "suspects again, with pairs that did well", batches...)
	}
	if err != nil {
		return err
	}
	all, err := x.tell(ctx)
	if err == nil {
		into.add(all)
	}
	return err
}

// probed notes which packets arrived where there is no connection, and in which direction: a rank
// that sends well and receives nothing is a receiver.
func (c *report) probed(v *links.Verdict) {
	c.arrived = map[links.Pair]int{}
	for at, list := range c.results.samples {
		p := links.Pair{From: at % c.results.n, To: at / c.results.n} // the end that measured received
		for _, x := range list {
			if known, ok := c.arrived[p]; x.Arrived != nil && (!ok || *x.Arrived > known) {
				c.arrived[p] = *x.Arrived
			}
		}
	}
	for i := range v.Findings {
		c.direct(&v.Findings[i])
	}
}

// direct leaves the direction of a finding out in which longer packets arrive.
func (c *report) direct(f *links.Finding) {
	there, back := c.reach(f)
	if f.Kind != links.Dead || there == nil || back == nil || *there == *back {
		return
	}
	switch f.Place {
	case links.OnePair:
		if f.BothWays, f.Partners, f.Of = false, 1, 1; *there > *back {
			f.From, f.To = f.To, f.From
		}
	case links.Node: // of its pairs both directions were without a connection
		if f.Partners, f.Of = f.Partners/2, f.Of/2; *there > *back {
			f.Place, f.To = links.Sender, nil
		} else {
			f.Place, f.From = links.Receiver, nil
		}
	}
}

// reach is the longest path MTU of which packets arrive at a finding's receiver, and of those that
// its sender, or the same rank, has sent back; nil if that was not probed.
func (c *report) reach(f *links.Finding) (there, back *int) {
	longest := func(to **int, n int) {
		if *to == nil || n > **to {
			*to = &n
		}
	}
	rank := slices.Concat(f.From, f.To)[0]
	for at, n := range c.arrived {
		switch {
		case f.Place == links.OnePair && at.From == f.From[0] && at.To == f.To[0], f.Place != links.OnePair && at.To == rank:
			longest(&there, n)
		case f.Place == links.OnePair && at.From == f.To[0] && at.To == f.From[0], f.Place != links.OnePair && at.From == rank:
			longest(&back, n)
		}
	}
	return there, back
}

// crosses tells whether a pair is of groups that are slow to each other: alone it has more of what
// they share.
func crosses(v *links.Verdict, p links.Pair) bool {
	return slices.ContainsFunc(v.Findings, func(f links.Finding) bool {
		return f.Place == links.Group && (f.Has(p) || f.Has(p.Reverse()))
	})
}

// conclude shows it all, writes the files, and returns the error that it amounts to.
func (c *report) conclude(ctx context.Context, v *links.Verdict, x *measurement) error {
	out := c.s.Out
	if err := c.pairs(); err != nil {
		return err
	}
	f := c.results.figures
	if err := c.heat(); err != nil {
		return err
	}
	sum := LinksVerdict{
		Command: commandName, OK: len(v.Findings) == 0, Mode: c.mode, Ranks: len(c.hosts), Pairs: c.results.measured, Rounds: c.rounds, Again: c.again,
		Seconds: math.Round(time.Since(c.begun).Seconds()*10) / 10, Write: rounded(f.Alone.Typical()), Both: rounded(f.Both.Typical()),
		Latency: rounded(f.Latency.Typical()), Findings: len(v.Findings), Ruled: c.ruled, Undecided: v.Undecided, Blind: c.results.blind,
	}
	var worst error
	found := make([]LinkFinding, len(v.Findings))
	for i := range v.Findings {
		found[i] = c.finding(&v.Findings[i])
		if err := out.Print(found[i]); err != nil {
			return err
		}
		worst = exit.Graver(worst, verdict(&v.Findings[i], found[i].Text))
	}
	err := errors.Join(out.Print(sum), c.s.Member.Agree(ctx, c.files.write(c, v, found, sum)))
	if err != nil {
		return err
	}
	return worst
}

// verdict is the error that a finding amounts to.
func verdict(f *links.Finding, text string) error {
	if f.Kind == links.Dead {
		return codes.With(codes.Edge, exit.Sharedf(exit.Critical, "broken: %s", text))
	}
	what := "slow"
	if f.Kind == links.Lossy {
		what = "lossy"
	}
	return codes.With(codes.Slow, exit.Sharedf(exit.Warning, "%s: %s", what, text))
}

func rounded(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return math.Round(v*1e6) / 1e6
}

// mostShown is how many directed pairs a table shows unasked: those of eight ranks.
const mostShown = 56

// pairs shows the pairs, by rank.
func (c *report) pairs() error {
	r := c.results
	if c.s.Out.Format() == render.Table && !c.all && r.measured > mostShown {
		return nil
	}
	rows := make([]render.Record, 0, r.measured)
	for at, x := range r.best {
		if x != nil {
			rows = append(rows, r.link(links.Pair{From: at / r.n, To: at % r.n}, x, c.hosts))
		}
	}
	return c.s.Out.Print(rows...)
}
