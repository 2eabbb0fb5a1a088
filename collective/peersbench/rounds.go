//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ringcli/configs"
)

const (
	// mostIters bounds a measurement of what takes tens of nanoseconds.
	mostIters = 50000
	// turns of a line between two CPUs: a tenth of a millisecond to one.
	turns = 2000
	// mostStarts of a contender with one number of ranks: what fails again and again
	// would take its deadline each time.
	mostStarts = 3
	// orderTime is what an order costs beside its iterations, for an estimate.
	orderTime = time.Millisecond
	// mostOthers is how many CPUs others may have without a cell being measured again:
	// times in /proc are too coarse for less.
	mostOthers = 0.15
	// idleTime is how long the processes are watched doing nothing.
	idleTime = 500 * time.Millisecond
)

// field is all contenders with one number of ranks, while they are up.
type field struct {
	options
	ranks  int
	cpus   int
	site   site
	probe  *team // of the line between two CPUs; nil with one CPU
	list   []contender
	teams  map[string]*team
	starts map[string]int
	// everybody is all processes; nil if that has to be found out.
	everybody []int
	log       io.Writer
	results   *Results
	serial    int // of folders
}

// measure runs all rounds with one number of ranks.
func (f *field) measure(ctx context.Context) (err error) {
	defer f.stop()
	pin := f.ranks <= f.cpus && !f.noPin && f.hosts == 0
	f.site.ranks, f.site.device = f.ranks, f.device
	f.site.pin, f.site.crowded = pin, f.ranks > f.cpus
	if f.site.crowded {
		f.site.limit = crowdedLimit
	}
	var left []string
	f.list, left = f.chosen(f.site.crowded)
	how := "bound to a CPU each"
	switch {
	case f.site.crowded:
		how = fmt.Sprintf("on %d CPUs, bound to none", f.cpus)
	case !pin:
		how = "bound to none"
	}
	f.say("%d ranks, %s", f.ranks, how)
	for _, text := range left {
		f.note("left out: %s", text)
	}
	all := len(f.sizes)
	if f.sizes = fitting(f.sizes, len(f.list), f.ranks, availableMemory()); len(f.sizes) == 0 {
		return fmt.Errorf("%d ranks of each of %d contenders: not even the smallest of --sizes fits into the memory: expected fewer --contenders or --ranks", f.ranks, len(f.list))
	}
	if len(f.sizes) < all {
		f.note("sizes above %s are left out: two buffers of each rank of %d contenders do not fit into the memory; fewer --contenders leave room", configs.FormatSize(f.sizes[len(f.sizes)-1]), len(f.list))
	}
	f.site.room = f.room(f.ranks)
	if f.cpus > 1 {
		s := f.site
		s.dir, s.room, s.ranks = f.folder("probe"), elemSize, 2
		if f.probe, err = startTeam(ctx, contender{name: "probe", role: roleLimit, start: runLimits}, s); err != nil {
			return err
		}
	}
	for _, c := range f.list {
		if _, err := f.team(ctx, c); err != nil {
			return err
		}
	}
	if err := f.watchIdle(ctx); err != nil {
		return err
	}
	cells := f.cells(f.ranks)
	var each time.Duration
	for _, c := range cells {
		d, err := f.calibrate(ctx, c)
		if err != nil {
			return err
		}
		each += d
	}
	f.say("%d ranks: every contender is right in all of %d cells but what was reported; %d rounds take some %.0f s", f.ranks, len(cells), f.rounds, each.Seconds()*float64(f.rounds))
	for round := range f.rounds {
		if err := f.round(ctx, round, cells); err != nil {
			return err
		}
	}
	return nil
}

func (f *field) say(format string, args ...any) {
	_, _ = fmt.Fprintf(f.log, "peersbench: "+format+"\n", args...)
}

// note says what a reader of the results has to know.
func (f *field) note(format string, args ...any) {
	text := fmt.Sprintf("%d ranks: "+format, append([]any{f.ranks}, args...)...)
	f.say("%s", text)
	f.results.Notes = append(f.results.Notes, text)
}

func (f *field) folder(name string) string {
	f.serial++
	return filepath.Join(f.site.bin, fmt.Sprintf("%s-%d-%d", name, f.ranks, f.serial))
}

// team returns a contender's team, which is started if it is not up. nil means that it
// has failed too often; an error, that everything is over.
func (f *field) team(ctx context.Context, c contender) (*team, error) {
	if t := f.teams[c.name]; t != nil || f.starts[c.name] >= mostStarts {
		return t, nil
	}
	f.starts[c.name]++
	f.everybody = nil
	s := f.site
	s.dir = f.folder(c.name)
	if slices.Contains([]role{roleOurs, roleSoft, roleBaseline}, c.role) {
		if s.list = s.hostList(f.serial); f.hosts == 0 {
			claim, list, err := claimLoopback(f.ranks)
			if err != nil {
				return nil, err
			}
			s.list = list
			defer func() { _ = claim.Close() }() // the ranks have their own
		}
		if f.baseline != "" {
			program := &s.self
			if c.role == roleBaseline {
				program = &s.older
			}
			copied := f.folder("program")
			defer func() { _ = os.Remove(copied) }() // once the ranks run it
			if err := copyProgram(*program, copied); err != nil {
				return nil, err
			}
			*program = copied
		}
	}
	t, err := startTeam(ctx, c, s)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		f.starts[c.name] = mostStarts // it would fail again
		f.failed(c, err)
		return nil, nil
	}
	f.teams[c.name] = t
	if !slices.ContainsFunc(f.results.Contenders, func(a About) bool { return a.Name == c.name && a.Ranks == f.ranks }) {
		f.introduce(t)
	}
	return t, nil
}

func copyProgram(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o700)
}

// renew starts ours and the baselines anew, each team from a copy of its program: two copies of
// one program differ by up to 5 %, in every round until they are started again, probably by where
// in memory they lie.
func (f *field) renew(ctx context.Context, round int) error {
	var both []contender
	for _, c := range f.list {
		if t := f.teams[c.name]; t != nil && (c.role == roleBaseline || len(baselines(c.name)) > 0) {
			both = append(both, c)
			t.stop()
			delete(f.teams, c.name)
			f.starts[c.name]--
		}
	}
	for _, at := range order(len(both), round) { // who is first gets other memory than who is last
		if _, err := f.team(ctx, both[at]); err != nil {
			return err
		}
	}
	return nil
}

// introduce says who a team is, and whether it runs where it should.
func (f *field) introduce(t *team) {
	var cpus, texts []string // what ranks are on may differ from edge to edge
	for _, line := range t.about {
		if fields := strings.SplitN(line, " ", 3); len(fields) == 3 {
			cpus = append(cpus, fields[1])
			if text := strings.TrimSuffix(strings.Join(strings.Fields(fields[2]), " "), ";"); !slices.Contains(texts, text) {
				texts = append(texts, text)
			}
		}
	}
	f.results.Contenders = append(f.results.Contenders, About{t.name, f.ranks, t.what, strings.Join(texts, " and "), cpus})
	if f.site.pin && t.role != roleLimit {
		slices.Sort(cpus)
		if len(slices.Compact(slices.Clone(cpus))) != f.ranks || slices.ContainsFunc(cpus, func(s string) bool { return strings.Contains(s, ",") }) {
			f.failed(t.contender, fmt.Errorf("its ranks have the CPUs %s: expected one each", strings.Join(cpus, " and ")))
		}
	}
}

// failed reports a contender's failure and ends its processes. The others go on.
func (f *field) failed(c contender, err error) {
	text := fmt.Sprintf("%d ranks: %s: %v", f.ranks, c.name, err)
	f.say("%s", text)
	f.results.Failures = append(f.results.Failures, text)
	if t := f.teams[c.name]; t != nil {
		delete(f.teams, c.name)
		t.stop()
	}
}

// watchIdle makes sure that contenders that wait take no time from the one that runs.
func (f *field) watchIdle(ctx context.Context) error {
	before := map[string]time.Duration{}
	families := map[string][]int{}
	for name, t := range f.teams {
		families[name] = t.family()
		before[name] = cpuTime(families[name])
	}
	start := time.Now()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(idleTime):
	}
	took := time.Since(start)
	var all time.Duration
	for name, pids := range families {
		used := cpuTime(pids) - before[name]
		all += used
		if used > took/20 { // a tick or two are a heartbeat's
			f.note("%s used %.0f %% of a CPU while it waited", name, 100*used.Seconds()/took.Seconds())
		}
	}
	f.say("%d ranks: all who wait use %.1f %% of a CPU together", f.ranks, 100*all.Seconds()/took.Seconds())
	return nil
}

// calibrate checks every contender's result of a cell, and finds out how many
// iterations it takes. It returns how long the cell takes in a round.
func (f *field) calibrate(ctx context.Context, c cell) (each time.Duration, err error) {
	for _, who := range f.list {
		if !who.takes(c.op) {
			continue
		}
		t, err := f.team(ctx, who)
		if err != nil {
			return 0, err
		}
		if t == nil {
			continue
		}
		wrong, err := t.order(ctx, orderCheck, c, f.inPlace, 0, 0)
		if err == nil && wrong > 0 {
			f.results.Failures = append(f.results.Failures, fmt.Sprintf("%s: %s: %.0f elements are wrong", c, who.name, wrong))
			f.say("%s", f.results.Failures[len(f.results.Failures)-1])
			continue
		}
		us := math.Inf(1)
		for iters, last := 1, false; err == nil; {
			var now float64
			if now, err = t.measure(ctx, c, f.inPlace, iters, 1); err != nil {
				break
			}
			// The shorter of two: a disturbance would leave the cell with few iterations.
			us = min(us, now)
			if last {
				break
			}
			took := us * float64(iters)
			if last = took >= float64(f.window.Microseconds())/4 || iters >= mostIters; !last {
				iters = min(mostIters, max(2*iters, int(float64(iters)*float64(f.window.Microseconds())/max(took, 1)/3)))
			}
		}
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		if err != nil {
			f.failed(who, err)
			continue
		}
		iters := itersOf(us, f.window)
		f.results.of(c, who.name).Iters = iters
		each += orderTime + time.Duration(us*float64(iters+warmupOf(iters))*1e3)
	}
	return each, nil
}

// itersOf fills the window with iterations of so many microseconds. Long ones, which
// fill it by themselves, are run leastIters times, but for no longer than longest.
func itersOf(us float64, window time.Duration) int {
	us = max(us, 1e-3)
	return int(min(max(float64(window.Microseconds())/us, min(leastIters, max(2, float64(longest.Microseconds())/us))), mostIters))
}

const (
	// leastIters: after another contender, a first iteration finds all caches cold, and
	// ranks that choose by measuring choose anew.
	leastIters = 10
	// longest is far less than an order may take: with the warm-up and on a busy machine a
	// measurement lasts some times as long.
	longest = time.Second
)

func warmupOf(iters int) int { return max(2, iters/5) }

// round measures all cells once, and those again in which others were busy. The direction
// changes from round to round; who is first, from cell to cell and every other round.
func (f *field) round(ctx context.Context, round int, cells []cell) error {
	if f.baseline != "" && round > 0 {
		if err := f.renew(ctx, round); err != nil {
			return err
		}
	}
	began, before := time.Now(), parseLoad(firstLine("/proc/stat"))
	for i, c := range cells {
		var quietest taking
		for n := 0; n == 0 || n <= f.retakes && quietest.others > mostOthers; n++ {
			t, err := f.take(ctx, c, 2*i+round)
			if err != nil {
				return err
			}
			if n == 0 || t.others < quietest.others {
				quietest = t
			}
		}
		f.results.keep(c, round, quietest)
	}
	took := time.Since(began)
	p := f.results.placement(f.ranks, round, took)
	p.Steal = (parseLoad(firstLine("/proc/stat")).steal - before.steal).Seconds() / took.Seconds()
	f.results.Rounds = append(f.results.Rounds, p)
	f.say("%s", p)
	return nil
}

// taking is one measurement of a cell.
type taking struct {
	line   float64            // ns; NaN with one CPU
	us     map[string]float64 // by contender
	over   map[string][]Link  // of an iteration; empty without hosts
	others float64            // CPUs that processes of others have had meanwhile
}

// take measures a cell, in the order of that number.
func (f *field) take(ctx context.Context, c cell, number int) (taking, error) {
	now := taking{line: math.NaN(), us: map[string]float64{}, over: map[string][]Link{}}
	if f.everybody == nil {
		f.everybody = f.processes()
	}
	everybody := f.everybody
	began, busy, own := time.Now(), parseLoad(firstLine("/proc/stat")).busy, cpuTime(everybody)
	if f.probe != nil {
		ns, err := f.probe.order(ctx, orderLine, cell{ranks: 2, bytes: elemSize}, false, turns, 0)
		if err != nil {
			return now, err
		}
		now.line = ns / turns
	}
	for _, at := range order(len(f.list), number) {
		who := f.list[at]
		iters := f.results.of(c, who.name).Iters
		if !who.takes(c.op) || iters == 0 {
			continue
		}
		t, err := f.team(ctx, who)
		if err != nil {
			return now, err
		}
		if t == nil {
			continue
		}
		sent, err := readLinks(f.hosts)
		if err != nil {
			return now, err
		}
		us, err := t.measure(ctx, c, f.inPlace, iters, warmupOf(iters))
		if ctx.Err() != nil {
			return now, context.Cause(ctx)
		}
		if err != nil {
			f.failed(who, err)
			continue
		}
		now.us[who.name] = us
		if after, err := readLinks(f.hosts); err != nil {
			return now, err
		} else if after != nil {
			now.over[who.name] = between(sent, after, iters+warmupOf(iters))
		}
	}
	// A team that has ended meanwhile has taken its time with it.
	busy = parseLoad(firstLine("/proc/stat")).busy - busy - cpuTime(everybody) + own
	now.others = max(0, busy.Seconds()/time.Since(began).Seconds())
	return now, nil
}

// order is in which n contenders take turns: an odd number's is that of the number before it, the
// other way round, so that what grows or fades meanwhile does as much to all. Of 2n numbers each
// contender is first in two, and comes as often before each neighbour as after it.
func order(n, number int) []int {
	list := make([]int, n)
	for k := range list {
		list[k] = (k + number/2) % n
	}
	if number%2 == 1 {
		slices.Reverse(list)
	}
	return list
}

// processes are all of this run, the driver included.
func (f *field) processes() []int {
	pids, dirs := []int{}, []string{}
	for _, t := range f.teams {
		pids, dirs = append(pids, t.started...), append(dirs, t.dir)
	}
	if f.probe != nil {
		pids, dirs = append(pids, f.probe.started...), append(dirs, f.probe.dir)
	}
	return append(family(pids, dirs...), os.Getpid())
}

func (f *field) stop() {
	for _, t := range f.teams {
		t.stop()
	}
	if f.probe != nil {
		f.probe.stop()
	}
}
