package links

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/session"
	"ringcli/configs"
	"ringcli/ring/bootstrap/hosts"
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
measured for --time: the latency of a small WRITE (while its ends poll, and
while they block; the better counts), then the bandwidth of WRITEs one way, the
other way, and both at once: half a minute for the 26,796 pairs of 232 ranks.
--ring measures the ring's edges alone. --shift has all ranks send at once to
rank+1, then to rank+2 and so on, which loads the core of a network as no pair
does; it measures bandwidth alone.
Each rank needs two queue pairs for it, however many ranks there are.

The verdict takes each figure for a product of what the sender, the receiver,
the pair and the two groups do to it, and takes that apart by median polish:
medians of rows and columns of the logarithms by turns, which one bad pair does
not move. Named is who lies below 0.8 of the others and five spreads of the
noise below them (the median absolute deviation); above twice the latency, 5 us
more (300 us where CPUs move the data) and five spreads; of either ten times,
whatever the noise; above 0.1 % of the own packets lost, whatever others lose.
Of a few ranks each pair is measured several times (--passes), of which the
best counts: other load makes a figure worse, and a fault is in all of them.
Suspects are measured again, three times (four times from 500 ranks on), with
partners that did well and beside pairs that did well: a rank or a pair is named
only if it is bad each time while these are not. Where CPUs move the data, each
suspect then takes turns with pairs of the same ranks, up to 24 times, until
chance is ruled out (below 1e-4); its ends must not wait for a CPU longer than
theirs. Where there is no connection, links finds out which packets arrive, and
in which direction. Up to 64 suspected pairs are measured one at a time: pairs
that run at once may share a thin link. If a slow port and a thin link follow
each other, the slower one alone is seen; slow pairs between two groups that are
slow to each other are not named.
Ranks that share memory are judged by themselves.
Groups are those of the list (node3 rack=B) or of --groups. Without them, slow
pairs that are as many as the ranks are one suspect. Groups with a higher
latency are not named: they lie farther apart.

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
	// spanShare is how many times --time must fit into --timeout: a pair may die in its last part,
	// and is waited for as long again and for the patience, a third at most, while others rest.
	spanShare = 3
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
	fs.String("groups", "", "groups of ranks, such as 0-3,4-7; by default those of the list")
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
	if mode == "" && fs.Changed(modeMesh) {
		return "", exit.Usagef("links: --mesh=false leaves nothing to measure: expected --ring or --shift")
	}
	return cmp.Or(mode, modeMesh), nil
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
	case how.span > s.Config.Duration("timeout")/spanShare:
		return exit.Usagef("links: --time %s: expected %s at most, a third of --timeout, or --timeout %s: ranks that rest wait for the others", how.span, s.Config.Duration("timeout")/spanShare, spanShare*how.span)
	case how.bytes < 1 || how.bytes > largest:
		return exit.Usagef("links: --size %s: expected 1 byte to %s", configs.FormatSize(uint64(how.bytes)), configs.FormatSize(largest))
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
	for _, part := range strings.Split(text, ",") {
		ranks, err := cpu.ParseList(part)
		if err != nil || len(ranks) == 0 {
			return nil, exit.Usagef("links: --groups %s: %q is no group: expected ranks, and a comma between two groups, such as 0-3,4-7", text, part)
		}
		for _, r := range ranks {
			switch {
			case known[r] != "":
				return nil, exit.Usagef("links: --groups %s: rank %d is in two groups: expected it in one", text, r)
			case r >= n:
				return nil, exit.Usagef("links: --groups %s: there is no rank %d: expected 0 to %d", text, r, n-1)
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
	c.hosts = s.Launcher.HostsOf(m.Ring.Nodes())
	all, err := session.Share(ctx, m, c.plan())
	if err != nil {
		return err
	}
	if err := alike(all); err != nil {
		return err
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
	defer s.Expect(c.how.span)() // ranks that rest wait for the others
	c.results = newResults(n, group)
	if err := c.announce(); err != nil {
		return err
	}
	c.measuring = time.Now()
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

// plan is what all ranks must have alike.
func (c *report) plan() string {
	h := c.how
	return fmt.Sprintf("--%s --time %s --size %d --small %d --outstanding %d --passes %d", c.mode, h.span, h.bytes, h.small, h.outstanding, h.passes)
}

func alike(plans []string) error {
	for rank, p := range plans {
		if p != plans[0] {
			return exit.Sharedf(exit.Usage, "links: rank 0 is to measure with %s, and rank %d with %s: give all ranks the same flags", plans[0], rank, p)
		}
	}
	return nil
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
