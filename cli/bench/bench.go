// Package bench measures: the collectives as commands, one or several algorithms and
// protocols side by side, what a table of them should be (tune), the link between two
// ranks (p2p), and the self-check.
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"ringcli/cli/bench/batch"
	"ringcli/cli/bench/buffers"
	"ringcli/cli/bench/corruption"
	"ringcli/cli/bench/p2p"
	"ringcli/cli/bench/page"
	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/procfs"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/cli/timing"
	"ringcli/collective"
	"ringcli/collective/plan"
	"ringcli/configs"
	"ringcli/verbs/gpu"
)

const (
	benchSummary = "Measure a collective over a range of sizes, or one link"
	benchLong    = `Measures a collective in nccl-tests' table: time is that of an iteration in
microseconds, algbw and busbw are GB/s (1e9 bytes; nccl-tests' PERFORMANCE.md
has the formulas), out of place and then in place. A row is warmed up and then
measured for at least 20 iterations and 50 ms, in batches between which the
ranks meet (longer ones where meeting takes long, as of many ranks on few
CPUs): time is the median of the batches' means on the slowest rank, and ±%
how far from it their quartiles are. With --iters it is the mean of so
many iterations, with --duration of as many as fit. nccl-tests' -b -e -f -w -m
and -c are understood; its -n is --iters here, where -n is the ranks.

count is the elements of the whole vector. nccl-tests prints what one rank has
for all-gather and reduce-scatter. --output nccl-tests prints its own table, on
rank 0: its columns and its count, no ±%; #wrong is of every element, N/A with
-c 0. nccl-tests also makes each rank's part a multiple of 16 bytes, this bench
does not. ` + "`help benchmarks`" + ` has the rest.

With --duration who kept the ring waiting is told when it happens: a rank that
was late, one that had no CPU, or an edge whose segments took long; --window 1s
shows each second in a row, with the least busbw of an operation in it.

A barrier has no size and no bandwidth: bench barrier is a row, or with several
algorithms or protocols one of each, measured by turns.

With p2p it measures a queue pair from rank 0 to its right neighbour: WRITE,
READ and SEND, bandwidth with --outstanding messages in flight, and latency in
microseconds (half a round trip; for READ all of it).

Several algorithms or protocols, as in --algorithm ring,tree or --protocol all,
are measured by turns at each size, out of place, and printed side by side: a
time is then the median of the rounds' means. Below the table is said which is
ahead where, by 3 % or more, and what auto takes. Both lists together are each
algorithm under each of the protocols that it has; protocols
alone are the ring's, which has all of them. --html writes the curves to a page
of their own.`
	benchP2P = "p2p"
)

var benchWords = append(render.Words(plan.AllOperations()), benchP2P)

func checkBenchArgs(args []string) error {
	if len(args) != 1 {
		return exit.Usagef("bench: %d arguments given: expected one of %s", len(args), strings.Join(benchWords, ", "))
	}
	if benchOperation(args[0]) == "" {
		return exit.Usagef("bench: unknown operation %q: expected one of %s", args[0], strings.Join(benchWords, ", "))
	}
	return nil
}

// benchOperation returns the operation that a word names, aliases included.
func benchOperation(word string) string {
	if o, err := plan.ParseOperation(word); err == nil {
		return o.String()
	} else if word == benchP2P {
		return word
	}
	return ""
}

// Sizes of a bench whose -b, -e or -f is not given.
const (
	benchMin, benchMax, benchFactor = 8, 64 << 20, 2
	p2pMin, p2pMax, p2pFactor       = 64, 16 << 20, 4
)

func benchFlags(fs *pflag.FlagSet) {
	fs.VarP(new(configs.SizeValue), "begin", "b", "least size in bytes (default 8, or 64 for p2p)")
	fs.VarP(new(configs.SizeValue), "end", "e", "greatest size in bytes (default 64M, or 16M for p2p)")
	command.NumberFlag(fs, "factor", "f", 0, 1, 1<<20, "the factor from a size to the next", "factor from a size to the next (default 2, or 4 for p2p)")
	listFlag(fs, "algorithm", plan.Algorithms(), plan.ParseAlgorithm)
	listFlag(fs, "protocol", plan.Protocols(), plan.ParseProtocol)
	vectorFlags(fs)
	backendFlag(fs, true)
	rootFlag(fs)
	batch.Flags(fs)
	windowFlag(fs)
	fs.Bool("check", true, "verify every element of every size after measuring it")
	command.NumberFlag(fs, "checks", "c", 1, 0, 1, "whether to check", "nccl-tests' -c: 0 is --check=false")
	command.NumberFlag(fs, "aggregate", "m", 1, 1, mostAggregate, "the operations in an iteration", "operations in an iteration, of which the mean is its time")
	command.NumberFlag(fs, "in-flight", "", 1, 1, mostInFlight, "the operations in flight", "operations that are started before any is waited for, each on buffers of its own; a time is the mean of them")
	fs.String("html", "", "write a page with the curves to this file")
	command.Completes(fs, "html", "files", "html")
	p2p.Flags(fs)
}

// sizesOf returns the sizes that a bench goes through.
func sizesOf(call command.Call) ([]uint64, error) {
	first, last, factor := uint64(benchMin), uint64(benchMax), uint64(benchFactor)
	if benchOperation(call.Args[0]) == benchP2P {
		first, last, factor = p2pMin, p2pMax, p2pFactor
	}
	fs := call.Flags
	if benchOperation(call.Args[0]) == collective.OpBarrier.String() {
		return []uint64{0}, nil
	}
	for _, name := range []string{"begin", "end"} {
		if fs.Changed(name) && command.SizeOf(fs, name) == 0 {
			return nil, exit.Usagef("bench: -%s 0 measures nothing: expected a size above 0", name[:1])
		}
	}
	if v := command.SizeOf(fs, "begin"); v > 0 {
		first = v
	}
	if v := command.SizeOf(fs, "end"); v > 0 {
		last = v
	} else if fs.Changed("begin") {
		last = max(first, last)
	}
	if v := command.Value[int64](fs, "factor"); v > 0 {
		factor = uint64(v)
	}
	switch {
	case first > last:
		return nil, exit.Usagef("bench: -b %s is above -e %s: expected the least size first", configs.FormatSize(first), configs.FormatSize(last))
	case factor < 2 && first < last:
		return nil, exit.Usagef("bench: -f %d: expected a factor of 2 or more", factor)
	}
	var sizes []uint64
	for size := first; size <= last; {
		sizes = append(sizes, size)
		high, next := bits.Mul64(size, max(factor, 2))
		if high != 0 {
			break
		}
		size = next
	}
	return sizes, nil
}

// collectiveFlags mean something to a collective alone, p2pFlags to p2p alone.
var (
	collectiveFlags = []string{"algorithm", "protocol", "segment", "depth", "type", "op", "root", "buffers", "memory", "backend", "sync", verifySegments, "floor", "max-resent", "duration", "aggregate", "in-flight"}
	p2pFlags        = []string{"outstanding", "verbs"}
)

// checkBench refuses what the machine cannot hold at the greatest size, and flags
// that are another bench's: a floor that nobody looks at would pass.
func checkBench(_ context.Context, s *session.Session, call command.Call, ranksHere int) error {
	op := benchOperation(call.Args[0])
	if !s.Follows { // a leader has checked its line, to which its settings are added as flags
		what, names, instead := "bench "+op, p2pFlags, "with bench p2p only"
		switch op {
		case benchP2P:
			names, instead = collectiveFlags, "with a collective only, such as bench all-reduce"
		case collective.OpBarrier.String():
			names, instead = slices.Concat(vectorsOnly, p2pFlags), "with what moves data, such as bench all-reduce"
		}
		for _, name := range names {
			if f := call.Flags.Lookup(name); f != nil && f.Changed {
				return exit.Usagef("%s: --%s %s means nothing here: expected it %s", what, name, f.Value, instead)
			}
		}
	}
	if err := checkNCCLTests(s, op, call); err != nil {
		return err
	}
	sizes, err := sizesOf(call)
	if err != nil {
		return err
	}
	last := sizes[len(sizes)-1]
	if op == benchP2P {
		if last > p2p.Largest {
			return exit.Usagef("bench p2p: a message of %s: expected at most %s, which is what a queue pair carries", configs.FormatSize(last), configs.FormatSize(p2p.Largest))
		}
		return procfs.CheckMemory(last, 2, min(ranksHere, 2))
	}
	o, err := benched(s, call)
	if err != nil {
		return err
	}
	if err := enoughFor("bench", "-b", sizes[0], o.typ); err != nil {
		return err
	}
	if err := checkPlace("bench", o.place); err != nil {
		return err
	}
	if err := checkBackends(s, call, "bench "+o.op.String(), o); err != nil {
		return err
	}
	if list, err := askedVariants(s, call); err != nil {
		return err
	} else if len(list) > 1 && s.Out.Format() == render.NCCLTests {
		return exit.Usagef("bench %s: --output %s with %d algorithms or protocols: expected one of each, since nccl-tests' table has no column for them", op, render.NCCLTests, len(list))
	} else if len(list) > 1 && o.maxResent != nil {
		return exit.Usagef("bench %s: --max-resent with %d algorithms or protocols: expected one of each, since they take turns", op, len(list))
	} else if len(list) == 1 {
		if err := list[0].check("bench "+o.op.String(), o.op); err != nil {
			return err
		}
	}
	return procfs.CheckMemory(last, o.buffersFor(), ranksHere)
}

// benched reads the flags of a bench of a collective, without the size.
func benched(s *session.Session, call command.Call) (operation, error) {
	call.Args = []string{benchOperation(call.Args[0])}
	o, err := repeated(s, call)
	o.check, o.aggregate = checks(call.Flags) && o.op.OnVectors(), command.NumberOf(call.Flags, "aggregate")
	if n := command.NumberOf(call.Flags, "in-flight"); n > 1 && err == nil {
		if o.inFlight = n; !o.op.OnVectors() || o.place.Kind != gpu.Host || call.Flags.Changed("backend") {
			err = exit.Usagef("bench %s: --in-flight %d: expected an operation of the ring on vectors in the host's memory", o.op, n)
		}
	}
	return o, err
}

// checks tells whether a bench checks what it has measured.
func checks(fs *pflag.FlagSet) bool {
	return command.IsOn(fs, "check") && command.NumberOf(fs, "checks") > 0
}

// often says how often each row is measured.
func (o operation) often() string {
	text := fmt.Sprintf("%d iterations", o.Iters)
	switch {
	case o.Duration > 0:
		text = o.Duration.String()
	case o.Span > 0:
		text = fmt.Sprintf("at least %d iterations and %s", o.Iters, o.Span)
	case o.Iters == 1:
		text = "1 iteration"
	}
	if o.inFlight > 1 {
		text += fmt.Sprintf(", %d operations in flight", o.inFlight)
	}
	if o.options.Verify {
		text += ", segments verified"
	}
	return text
}

func runBench(ctx context.Context, s *session.Session, call command.Call) (err error) {
	sizes, err := sizesOf(call)
	if err != nil {
		return err
	}
	file, err := page.Open(ctx, s.Member, call)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if benchOperation(call.Args[0]) == benchP2P {
		return p2p.Run(ctx, s, call, sizes, checks(call.Flags), file)
	}
	o, err := benched(s, call)
	if err != nil {
		return err
	}
	list, err := askedVariants(s, call)
	if err != nil {
		return err
	}
	what := o.op.String()
	if o.op.OnVectors() {
		if err := s.Out.Notes(render.Fair, besides("-b", sizes[0], o.typ)...); err != nil {
			return err
		}
		what += " of " + o.typ.String()
	}
	if o.op.Reduces() {
		what += " " + o.red.String()
	}
	title := fmt.Sprintf("%s on %s", what, s.Member.Where())
	if one := list[0]; len(list) == 1 && one != (Variant{}) {
		title += " by " + one.String()
	}
	if o.buffers != buffers.Alloc {
		title += ", buffers: " + string(o.buffers)
	}
	b := sweep{s, o, sizes, title, file}
	if !o.op.OnVectors() {
		return b.barriers(ctx, list)
	}
	if list, err = b.o.settle(ctx, s.Member, s, list); err != nil {
		return err
	}
	if len(list) > 1 {
		return b.variants(ctx, list)
	}
	return b.collective(ctx)
}

// sweep is a bench of a collective: one operation at one size after the other.
type sweep struct {
	s     *session.Session
	o     operation
	sizes []uint64
	title string
	file  page.File // for the curves
}

// collective prints nccl-tests' table.
func (b sweep) collective(ctx context.Context) error {
	s := b.s
	if err := b.ncclTestsHead(ctx); err != nil {
		return err
	}
	if err := s.Out.Notes(render.Faint, b.title, "a row: "+b.o.often()+"; time in us, bandwidths in GB/s (1e9)", fmt.Sprintf("%17s%-29s  %s", "", "out of place", "in place")); err != nil {
		return err
	}
	sum := BenchSummary{Command: "bench " + b.o.op.String(), OK: true}
	worst, err := b.run(ctx, []page.Series{{Name: "out of place"}, {Name: "in place"}}, func(o operation) (render.Record, []Measurement, error) {
		var each [2]Measurement
		for i := range each {
			var err error
			o.inPlace = i > 0
			if each[i], err = measure(ctx, s.Member, s, o); err != nil {
				return nil, nil, err
			}
			sum.add(each[i])
		}
		return BenchRow{each[0], each[1]}, each[:], nil
	})
	if err != nil {
		return err
	}
	sum.BusBW, sum.Rate = timing.SixPlaces(sum.BusBW), timing.SixPlaces(sum.Rate)
	sum.OfPossible = sum.share(sum.BusBW)
	if sum.Floor, err = b.o.floor.of(sum.Possible); err != nil {
		return err
	}
	if one := b.o.options; one.Algorithm != collective.AlgorithmAuto && one.Protocol != collective.Auto {
		sum.Auto = nil
	}
	worst = cmp.Or(worst, sum.verdict())
	return errors.Join(s.Out.Print(sum), worst)
}

// variants prints several variants side by side: algorithms, protocols, or both.
func (b sweep) variants(ctx context.Context, asked Variants) error {
	s := b.s
	list, err := possible(s.Member, s, b.o, asked)
	if err != nil {
		return err
	}
	notes := append([]string{
		b.title + "; time in us, busbw in GB/s (1e9)",
		fmt.Sprintf("the median of interleaved rounds of %s; %s is the fastest, %s is what auto takes", b.o.turns(), markBest, markAuto),
	}, CompareHead(list)...)
	if err := s.Out.Notes(render.Faint, notes...); err != nil {
		return err
	}
	var rows []CompareRow
	curves := make([]page.Series, len(list))
	for i, w := range list {
		curves[i].Name = list.label(w)
	}
	worst, err := b.run(ctx, curves, func(o operation) (render.Record, []Measurement, error) {
		row, err := compare(ctx, s.Member, s, o, list)
		rows = append(rows, row)
		return row, row.Each, err
	})
	if err != nil {
		return err
	}
	least, err := b.o.floor.of(possibleOn(rows))
	if err != nil {
		return err
	}
	sum := Summarise("bench "+b.o.op.String(), rows, least)
	worst = cmp.Or(worst, sum.verdict())
	return errors.Join(s.Out.Print(sum), worst)
}

// run measures at each size, prints the rows, and writes the page of the curves. worst
// is the first wrong data: if it was stopped, that matters more.
func (b sweep) run(ctx context.Context, curves []page.Series, measure func(operation) (render.Record, []Measurement, error)) (worst, err error) {
	for i, size := range b.sizes {
		b.o.count = int(size) / b.o.typ.Size()
		row, each, err := measure(b.o)
		switch {
		case batch.IsStopped(err):
			return nil, cmp.Or(worst, batch.Stopped("%d of %d sizes", i, len(b.sizes)))
		case err != nil:
			return nil, err
		}
		for j, m := range each {
			curves[j].Points = append(curves[j].Points, page.Point{Bytes: m.Bytes, Time: m.Time.Mean, BW: m.BusBW, Wrong: m.Wrong, Way: m.variant().String()})
			if v := m.verdict(0, b.o.maxResent); worst == nil || exit.Code(v) == exit.Critical && exit.Code(worst) == exit.Warning {
				worst = v
			}
		}
		if err := b.s.Out.Print(row); err != nil {
			return nil, err
		}
		for _, m := range each {
			if err := m.note(b.s.Member, b.s.Out); err != nil {
				return nil, err
			}
		}
	}
	return worst, b.file.Write(ctx, b.s.Member, page.Page{Title: b.title, Time: "time (us)", BW: "busbw (GB/s)", Series: curves})
}

// add takes a measurement into the average.
func (b *BenchSummary) add(m Measurement) {
	b.Rows++
	b.countFailed(m)
	b.BusBW += (m.BusBW - b.BusBW) / float64(b.Rows)
	b.Possible = Possible{b.Rate + (m.Rate-b.Rate)/float64(b.Rows), m.By, m.Why}
	b.OnMemory = m.OnMemory
	corruption.AddWrong(&b.Wrong, m.Wrong)
	b.OK, b.Buffers = corruption.IsRight(b.Wrong), m.Buffers
	b.Auto = joined(b.Auto, Stretch{Variant: m.variant(), From: m.Bytes, To: m.Bytes})
}

// verdict is what the floor says, which the average of all sizes must reach.
func (b *BenchSummary) verdict() error { return reached(&b.OK, b.Command, "", b.BusBW, b.Floor) }

// reached holds an average, of what is named, against the floor.
func reached(ok *bool, command, of string, busBW, floor float64) error {
	if busBW >= floor {
		return nil
	}
	*ok = false
	return exit.Sharedf(exit.Warning, "slow: %s: the average busbw%s is %s GB/s, expected at least %s", command, of, render.Figure(busBW), render.Figure(floor))
}

// Lines are nccl-tests' footer.
func (b BenchSummary) Lines() []render.Line {
	lines := append(wrongLines(b.Wrong), render.Line{Text: averageLabel + render.Figure(b.BusBW) + b.text(b.BusBW)})
	lines = append(lines, b.whyPossible()...)
	for _, text := range slices.Concat(b.memoryNotes(), b.bufferNotes()) {
		lines = append(lines, render.Line{Text: text})
	}
	if len(b.Auto) == 0 {
		return lines
	}
	return append(lines, render.Line{Text: "auto: " + stretchWords(b.Auto, "is taken")})
}

const averageLabel = "Avg bus bandwidth    : "

// wrongLines says how many elements are wrong, if they were checked.
func wrongLines(wrong *uint64) []render.Line {
	switch {
	case wrong == nil:
		return nil
	case *wrong > 0:
		return []render.Line{{Mood: render.Bad, Text: fmt.Sprintf("Out of bounds values : %d FAILED", *wrong)}}
	}
	return []render.Line{{Mood: render.Good, Text: "Out of bounds values : 0 OK"}}
}

// Row is `bench`, on a ring that is ready.
func Row() command.Row {
	return command.Row{
		Name: "bench", Group: command.GroupCollective, Where: command.Line, Needs: command.Ready, Stops: true, NCCLTests: true,
		Summary: benchSummary, Long: benchLong,
		Args: "OPERATION", Words: benchWords, CheckArgs: checkBenchArgs,
		Settings: session.OperationSettings, Flags: benchFlags, Check: checkBench, Run: runBench,
	}
}
