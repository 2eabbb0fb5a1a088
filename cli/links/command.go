package links

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/configs"
	"ringcli/configs/codes"
	"ringcli/ring/bootstrap/hosts"
	"ringcli/ring/diagnose/links"
	"ringcli/verbs/cpu"
)

// commandName is that of the command, and of its records.
const commandName = "links"

const (
	summary = "Measure the links between all ranks, and say which is at fault"
	long    = `Measures the links between the ranks and says who is to blame for what is slow,
late, lossy or dead: a sender, a receiver, a pair, or one group to another.

--mesh (the default) has each rank meet each other once: N-1 rounds of disjoint
pairs (circle method), between which all ranks wait for each other. A pair is
measured for --time: the latency of a small WRITE (while its ends poll, and while
they block; the better counts), then the bandwidth of WRITEs one way, the other
way, and both at once: half a minute for the 26,796 pairs of 232 ranks. --ring
measures the ring's edges alone. --shift has all ranks send at once to rank+1, then to rank+2 and so on,
which loads the core of a network as no pair does; it measures bandwidth alone.
Each rank needs two queue pairs for it, however many ranks there are.

The verdict takes each figure for a product of what the sender, the receiver,
the pair and the two groups do to it, and takes that apart by median polish:
medians of rows and columns of the logarithms by turns, which one bad pair does
not move. Named is who lies below 0.8 of the others, and five spreads of the
noise below them (the median absolute deviation); above twice the latency, and
5 us more (300 us where CPUs move the data); above 0.1 % of the packets lost.
Of a few ranks each pair is measured several times (--passes), of which the
best counts: other load makes a figure worse, and a fault is in all of them.
Before anybody is named, suspects are measured again, three times, with
partners that did well, and beside pairs that did well: what slows these, too,
is nobody's fault. Ranks that share memory are judged by themselves.
Groups are those of the list (node3 rack=B) or of --groups, else they are
looked for. Groups with a higher latency are not named: they lie farther apart.

--good and --bad write the hosts that nothing was found about, and those that
were named for themselves, one a line: of a pair, or of two groups, nobody
knows which end it is, and they are in neither file, or in --good. The exit
code is 0, 1 where somebody is slow, late or lossy, 2 where there is no
connection.`
	example = "  links --ring\n  links --time 50ms --html links.html"
)

const (
	defaultTime = 100 * time.Millisecond
	leastTime   = 4 * time.Millisecond
	defaultSize = 64 << 10
	smallSize   = 8
	largest     = 64 << 20
)

func flags(fs *pflag.FlagSet) {
	fs.Bool("ring", false, "the ring's edges alone, both ways")
	fs.Bool("mesh", false, "every pair (the default)")
	fs.Bool("shift", false, "all ranks at once to rank+1, to rank+2 and so on")
	command.DurationFlag(fs, "time", defaultTime, "how long to measure each pair, or each shift")
	command.SizeFlag(fs, "size", defaultSize, "bytes of a WRITE of the bandwidth test")
	command.SizeFlag(fs, "small", smallSize, "bytes of a WRITE of the latency test")
	command.NumberFlag(fs, "outstanding", "", 16, 1, 128, "the WRITEs in flight", "WRITEs in flight in the bandwidth test")
	command.NumberFlag(fs, "passes", "", 0, 0, 100, "how often each pair is measured", "how often each pair is measured, of which the best counts (0: several times where there are few)")
	fs.String("groups", "", "groups of ranks, such as 0-3,4-7; by default those of the list, else they are looked for")
	command.Completes(fs, "groups", "nothing")
	fs.Bool("pairs", false, "show each pair in the table, too, where there are more than 56")
	fs.String("html", "", "write a page with heat maps to this file")
	command.Completes(fs, "html", "files", "html")
	fs.String("good", "", "write the hosts that nothing was found about to this file")
	command.Completes(fs, "good", "files")
	fs.String("bad", "", "write the hosts that were named to this file")
	command.Completes(fs, "bad", "files")
}

// Row is `links`, on a ring that is ready.
func Row() command.Row {
	return command.Row{
		Name: commandName, Group: command.GroupLook, Where: command.Line, Needs: command.Ready, Stops: true,
		Summary: summary, Long: long, Example: example, Flags: flags, Check: check, Run: run,
	}
}

// The modes.
const (
	modeRing  = "ring"
	modeMesh  = "mesh"
	modeShift = "shift"
)

func modeOf(fs *pflag.FlagSet) (mode string, err error) {
	for _, m := range []string{modeRing, modeMesh, modeShift} {
		if command.IsOn(fs, m) {
			if mode != "" {
				return "", exit.Usagef("links: --%s and --%s: expected one of --ring, --mesh and --shift", mode, m)
			}
			mode = m
		}
	}
	if mode == "" {
		mode = modeMesh
	}
	return mode, nil
}

func howOf(fs *pflag.FlagSet) howTo {
	return howTo{
		bytes: int(command.SizeOf(fs, "size")), small: int(command.SizeOf(fs, "small")),
		outstanding: command.NumberOf(fs, "outstanding"), passes: command.NumberOf(fs, "passes"), span: command.Value[time.Duration](fs, "time"),
	}
}

func check(_ context.Context, s *session.Session, call command.Call, _ int) error {
	if _, err := modeOf(call.Flags); err != nil {
		return err
	}
	how := howOf(call.Flags)
	switch {
	case how.span < leastTime:
		return exit.Usagef("links: --time %s: expected %s or more: it has four parts", how.span, leastTime)
	case how.span > s.Config.Duration("timeout")/2:
		return exit.Usagef("links: --time %s: expected half of --timeout %s at most: ranks that rest wait for the others", how.span, s.Config.Duration("timeout"))
	case how.bytes < 1 || how.bytes > largest:
		return exit.Usagef("links: --size %s: expected 1 to %s bytes", configs.FormatSize(uint64(how.bytes)), configs.FormatSize(largest))
	case how.small < 1 || how.small > how.bytes:
		return exit.Usagef("links: --small %s: expected 1 byte to --size, %s", configs.FormatSize(uint64(how.small)), configs.FormatSize(uint64(how.bytes)))
	}
	if _, err := ranges(command.TextOf(call.Flags, "groups"), math.MaxInt); err != nil {
		return err
	}
	if s.Config.Int("index") <= 0 { // rank 0 writes; -1: it is not started yet
		return checkFiles(call)
	}
	return nil
}

// ranges reads --groups: the group of each of n ranks, nil if none is named.
func ranges(text string, n int) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	known := map[int]string{}
	for _, part := range splitComma(text) {
		ranks, err := cpu.ParseList(part)
		if err != nil || len(ranks) == 0 {
			return nil, exit.Usagef("links: --groups %s: %q is no group: expected ranks, and a comma between two groups, such as 0-3,4-7", text, part)
		}
		for _, r := range ranks {
			if known[r] != "" || r >= n {
				return nil, exit.Usagef("links: --groups %s: rank %d is in two groups, or not in the ring", text, r)
			}
			known[r] = part
		}
	}
	if n == math.MaxInt {
		return nil, nil
	}
	group := make([]string, n)
	for r := range group {
		group[r] = known[r]
	}
	return group, nil
}

func run(ctx context.Context, s *session.Session, call command.Call) (err error) {
	m := s.Member
	n := m.Ring.Size()
	if n < 2 {
		return exit.Usagef("links: the ring has %d rank: expected 2 or more, such as -n 2", n)
	}
	mode, err := modeOf(call.Flags)
	if err != nil {
		return err
	}
	c := &report{s: s, mode: mode, how: howOf(call.Flags), all: command.IsOn(call.Flags, "pairs"), begun: time.Now()}
	for _, node := range m.Ring.Nodes() {
		c.hosts = append(c.hosts, node.Host)
	}
	if c.files, err = openFiles(ctx, m, call); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.files.close()) }()
	group, err := groupsOf(ctx, s, call)
	if err != nil {
		return err
	}
	x, err := open(ctx, s, c.how)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.meetings.Close()) }()
	c.results = newResults(n, group)
	if err := c.announce(); err != nil {
		return err
	}
	stopped := c.measureAll(ctx, x, c.results)
	if stopped != nil && (ctx.Err() != nil || !isStopped(stopped)) {
		return stopped
	}
	c.rounds = x.rounds
	if stopped != nil { // what there is, without a verdict
		return errors.Join(c.pairs(), stopped)
	}
	v, err := c.judge(ctx, x)
	if err != nil {
		return err
	}
	return c.conclude(ctx, v, x)
}

func isStopped(err error) bool { return exit.IsShared(err) && exit.Code(err) == exit.Interrupted }

// groupsOf are the groups of --groups, or of rank 0's list.
func groupsOf(ctx context.Context, s *session.Session, call command.Call) ([]string, error) {
	n := s.Member.Ring.Size()
	group, err := ranges(command.TextOf(call.Flags, "groups"), n)
	if err == nil && group == nil {
		var list string
		var places []int
		if list, _, err = s.Identity(); err == nil {
			if _, places, err = s.Whole(); err == nil {
				var of []string
				if of, err = hosts.Groups(list); err == nil {
					for _, at := range places {
						group = append(group, of[at])
					}
				}
			}
		}
	}
	if err := s.Member.Agree(ctx, err); err != nil {
		return nil, err
	}
	all, err := session.Share(ctx, s.Member, group)
	if err != nil {
		return nil, err
	}
	if group = all[0]; len(group) != n || !slices.ContainsFunc(group, func(g string) bool { return g != "" }) {
		return nil, nil
	}
	return group, nil
}

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
	again   int // rounds
	rounds  int
	ruled   int
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
		what += fmt.Sprintf("; each %d times or more, of which the best counts", c.passes())
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

const (
	// fewRounds is up to how many rounds the pairs are measured in several passes, at most
	// mostPasses: of a few ranks a few figures would have to tell what is noise.
	fewRounds  = 24
	mostPasses = 5
)

func (c *report) passes() int {
	if c.how.passes > 0 {
		return c.how.passes
	}
	return min(max(fewRounds/c.roundsOf(), 1), mostPasses)
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

// measureAll goes through the passes, and has what all ranks have measured in into.
func (c *report) measureAll(ctx context.Context, x *measurement, into *results) error {
	least := c.passes()
	most := least
	if c.how.passes == 0 && least > 1 {
		most *= morePasses
	}
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
	for range links.Confirmations {
		if len(v.Findings) == 0 {
			break
		}
		again := newResults(n, c.results.figures.Group)
		if c.mode == modeShift { // it takes the load of all
			if err := c.measureAll(ctx, x, again); err != nil {
				return nil, err
			}
		} else {
			x.gone.anew(1)
			for range c.passes() {
				if err := x.pairs(ctx, "suspects again", v.Retests(n)...); err != nil {
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
		if c.mode == modeShift {
			break
		}
	}
	held := len(v.Findings)
	v = v.Final()
	c.again, c.rounds, c.ruled = x.rounds-c.rounds, x.rounds, max(0, first-held)
	return v, nil
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
		Command: commandName, OK: len(v.Findings) == 0, Mode: c.mode, Ranks: len(c.hosts), Pairs: len(c.results.pairs), Rounds: c.rounds, Again: c.again,
		Seconds: math.Round(time.Since(c.begun).Seconds()*10) / 10, Write: rounded(f.Alone.Typical()), Both: rounded(f.Both.Typical()),
		Latency: rounded(f.Latency.Typical()), Findings: len(v.Findings), Ruled: c.ruled,
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
	if c.s.Out.Format() == render.Table && !c.all && len(r.pairs) > mostShown {
		return nil
	}
	list := make([]links.Pair, 0, len(r.pairs))
	for p := range r.pairs {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b links.Pair) int { return (a.From-b.From)*r.n + a.To - b.To })
	rows := make([]render.Record, len(list))
	for i, p := range list {
		rows[i] = r.link(p, r.pairs[p], c.hosts)
	}
	return c.s.Out.Print(rows...)
}
