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
	s     *session.Session
	mode  string
	how   howTo
	all   bool // pairs are shown
	hosts []string
	begun time.Time
	// measuring is when the first round began.
	measuring time.Time
	files     *files
	results   *results
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
	x.gone.anew(goneTries)
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
	o := links.Defaults
	if c.results.soft {
		o.LateLeast = softLate
	}
	v := links.Judge(c.results.figures, o)
	first := len(v.Findings)
	x.gone, x.again = newGone(n), true
	var repeats []*results
	for range links.Confirmations(n) {
		batches := v.Retests(n)
		if len(batches) == 0 {
			break
		}
		again := newResults(n, c.results.figures.Group)
		if c.mode == modeShift { // it takes the load of all
			if err := c.measureAll(ctx, x, again); err != nil {
				return nil, err
			}
		} else {
			x.gone.anew(1)
			if err := c.announceAgain(x, c.passes(), batches...); err != nil {
				return nil, err
			}
			for range c.passes() {
				if err := x.pairs(ctx, "suspects again", batches...); err != nil {
					return nil, err
				}
			}
			all, err := x.tell(ctx)
			if err != nil {
				return nil, err
			}
			again.add(all)
		}
		v = v.Confirm(again.figures)
		repeats = append(repeats, again)
		if c.mode == modeShift {
			break
		}
	}
	held := len(v.Findings)
	v = v.Final()
	if c.results.copied && c.mode != modeShift {
		before, again := len(v.Findings), newResults(n, c.results.figures.Group)
		var err error
		if v, err = c.try(ctx, x, v, again); err != nil {
			return nil, err
		}
		held -= before - len(v.Findings)
		repeats = append(repeats, again)
	}
	for _, again := range repeats { // not before: the verdict is about the first figures
		c.results.takeAgain(again, func(p links.Pair) bool { return crosses(v, p) })
	}
	if err := c.probe(ctx, x, v); err != nil {
		return nil, err
	}
	c.again, c.rounds, c.ruled = x.rounds-c.rounds, x.rounds, max(0, first-held-v.Undecided)
	return v, nil
}

// try has the suspects that are left measured in turn with pairs that did well, until it is told
// which of them the load of the hosts does not explain.
func (c *report) try(ctx context.Context, x *measurement, v *links.Verdict, again *results) (*links.Verdict, error) {
	n := len(c.hosts)
	for round := links.TrialRounds; ; round += links.TrialRounds {
		pairs := v.Trials(n)
		if len(pairs) == 0 {
			return v, nil
		}
		var batches [][]links.Pair
		for _, p := range pairs {
			batches = append(batches, []links.Pair{p})
		}
		if err := c.announceAgain(x, links.TrialRounds, batches...); err != nil {
			return nil, err
		}
		for range links.TrialRounds {
			if err := x.pairs(ctx, "suspects in turn with others", batches...); err != nil {
				return nil, err
			}
		}
		all, err := x.tell(ctx)
		if err != nil {
			return nil, err
		}
		again.add(all)
		v = v.Try(n, again.draws, round >= links.TrialMost)
	}
}

// mostProbed is how many pairs of a rank without a connection are probed.
const mostProbed = 3

// probe finds out which packets arrive where there is no connection, and in which direction: a rank
// that sends well and receives nothing is a receiver.
func (c *report) probe(ctx context.Context, x *measurement, v *links.Verdict) error {
	var pairs []links.Pair
	for i := range v.Findings {
		f, own := &v.Findings[i], 0
		for at, x := range c.results.best {
			if p := (links.Pair{From: at / c.results.n, To: at % c.results.n}); f.Kind == links.Dead && x != nil && x.Dead && f.Has(p) && own < mostProbed {
				if own++; !slices.Contains(pairs, p.Reverse()) && !slices.Contains(pairs, p) {
					pairs = append(pairs, p)
				}
			}
		}
	}
	if len(pairs) == 0 {
		return nil
	}
	x.gone, x.again, x.probing = newGone(len(c.hosts)), false, true
	if err := x.pairs(ctx, "which packets arrive", pairs); err != nil {
		return err
	}
	all, err := x.tell(ctx)
	c.arrived = map[links.Pair]int{}
	for rank, list := range all {
		for _, f := range list {
			if f.Arrived != nil {
				c.arrived[links.Pair{From: f.To, To: rank}] = *f.Arrived
			}
		}
	}
	for i := range v.Findings {
		c.direct(&v.Findings[i])
	}
	return err
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

// announceAgain says how many pairs are measured again, so often, and how long that takes, by the
// time of the rounds until now.
func (c *report) announceAgain(x *measurement, times int, batches ...[]links.Pair) error {
	pairs, rounds := 0, 0
	for _, b := range batches {
		pairs, rounds = pairs+len(b), rounds+times*len(links.Disjoint(len(c.hosts), b))
	}
	if rounds == 0 {
		return nil
	}
	c.anew++
	took := time.Since(c.measuring) / time.Duration(max(1, x.rounds)) * time.Duration(rounds)
	return c.s.Out.Notes(render.Faint, fmt.Sprintf("measuring suspects again (%d), with pairs that did well: %s, %s, about %s", c.anew, count(pairs, "pair"), count(rounds, "round"), max(took, time.Second).Round(time.Second)))
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
	if err := c.heat(v); err != nil {
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
	return codes.With(codes.Slow, exit.Sharedf(exit.Warning, "slow: %s", text))
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
