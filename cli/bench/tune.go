package bench

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/pflag"

	"ringcli/cli/about"
	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/procfs"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/cli/tables"
	"ringcli/collective"
	"ringcli/collective/reduce"
	"ringcli/configs/trust"
)

const (
	tuneSummary = "Measure which algorithm and protocol suit this ring; save it"
	tuneLong    = `Measures every algorithm, and for the ring every protocol, over sizes from 8
bytes to 16 MiB, for every collective on float32, a broadcast from rank 0, and
of a barrier, which has no size: by turns, so that what disturbs one disturbs
all, and the median of the rounds.
Then it derives which to take up to which size. Another than the built-in choice
is taken where it is faster by 3 % or more and in every round, or in all but one
of many; a switch that pays less is left out.

The table is saved to --save, by rank 0, beside those of other rings that are in
the file: a table is for a number of ranks and the providers of their edges. It
is in force at once. Whenever such a ring comes up, the one in the default file
is, or in that of the setting table, of rank 0; status shows it.

It takes about --budget, and says how much was measured by then. Ctrl-C keeps
nothing, and the ring can be used.`
	tuneBudget = 45 * time.Second
	// saveNone is the value of --save that is no file.
	saveNone = "none"
)

// tunedSizes go in steps of four, all but the first, and end where the vectors of a rank leave every
// cache: what is longer goes as the last one.
var tunedSizes = []int64{8, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20}

// tunedPoints is how many there are: an operation at a size. A barrier has one.
func tunedPoints() (n int) {
	for _, op := range tables.Operations {
		if n++; op.OnVectors() {
			n += len(tunedSizes) - 1
		}
	}
	return n
}

func tuneFlags(fs *pflag.FlagSet) {
	command.DurationFlag(fs, "budget", tuneBudget, "how long to measure, about")
	fs.String("save", "", "file to save the table in; none: do not (default: ringcli/table.json in the user's configuration directory)")
	command.Completes(fs, "save", "files", "json")
}

// TuneRow is `tune`, on a ring that is ready.
func TuneRow() command.Row {
	return command.Row{
		Name: "tune", Group: command.GroupCollective, Where: command.Line, Needs: command.Ready, Stops: true,
		Summary: tuneSummary, Long: tuneLong, Example: "  tune\n  tune --budget 10s --save none",
		Flags: tuneFlags, Check: checkTune, Run: runTune,
	}
}

func checkTune(_ context.Context, s *session.Session, call command.Call, ranksHere int) error {
	if budget := command.Value[time.Duration](call.Flags, "budget"); budget < time.Second {
		return exit.Usagef("tune: --budget %s: expected 1s or more", budget)
	}
	if s.Config.Int("index") <= 0 { // rank 0 saves; -1: it is not started yet
		if _, _, err := saveTo(call); err != nil {
			return err
		}
	}
	largest := operation{typ: reduce.Float32, count: int(tunedSizes[len(tunedSizes)-1]) / reduce.Float32.Size()}
	return procfs.CheckMemory(largest.bytes(), largest.buffersFor(), ranksHere)
}

// saveTo is the file that a table goes to, and what it has; empty for none.
func saveTo(call command.Call) (path string, file tables.File, err error) {
	switch path = command.TextOf(call.Flags, "save"); path {
	case saveNone:
		return "", file, nil
	case "":
		if path = tables.UserPath(); path == "" {
			return "", file, exit.Usagef("tune: there is no configuration directory, since neither XDG_CONFIG_HOME nor HOME is set: expected --save FILE, or --save none")
		}
		if err := trust.CheckPlace(path); errors.Is(err, trust.ErrUntrusted) { // HOME can be another user's, as under sudo
			return "", file, exit.Usagef("tune: the place of saved tables: %w: expected --save FILE, or --save none", err)
		}
	}
	file, err = tables.CheckSave(path)
	return path, file, err
}

func runTune(ctx context.Context, s *session.Session, call command.Call) (err error) {
	m := s.Member
	if m.Comm.Size() == 1 {
		return exit.Usagef("tune: a ring of one sends nothing: expected 2 ranks or more")
	}
	var (
		path string
		file tables.File
	)
	if m.Comm.Rank() == 0 {
		path, file, err = saveTo(call)
	}
	if err := m.Agree(ctx, err); err != nil {
		return err
	}
	// What is measured against is the built-in choice.
	before := m.Comm.Table()
	if err := m.Comm.SetTable(collective.Table{}); err != nil {
		return err
	}
	t := &tuning{s: s, m: m, list: variantsOf(m.Comm, collective.OpAllReduce), begun: time.Now(), points: make([][]tunePoint, len(tables.Operations))}
	t.budget = command.Value[time.Duration](call.Flags, "budget")
	if err := t.run(ctx); err != nil {
		if back := m.Comm.SetTable(before); back != nil {
			return back
		}
		return err
	}
	return t.conclude(ctx, path, file)
}

// conclude derives the rules, prints them, saves the table and puts it in force.
// All ranks have the same measurements, and so come to the same.
func (t *tuning) conclude(ctx context.Context, path string, file tables.File) error {
	s, m := t.s, t.m
	saved := tables.Saved{
		Ranks: m.Comm.Size(), Devices: m.Table.Devices, Measured: time.Now().UTC().Truncate(time.Second), Version: about.Version(),
	}
	var rows []render.Record
	for _, points := range t.points {
		if len(points) == 0 {
			continue
		}
		chosen := chooseVariants(points, len(t.list))
		whole := len(points) == len(tunedSizes) || !points[0].op.OnVectors()
		list := stretchesOf(points, chosen, whole && goesOn(points, chosen))
		saved.Rules = append(saved.Rules, rulesOf(points, list, t.list)...)
		for _, stretch := range list {
			rows = append(rows, t.ruleRow(points, stretch))
		}
	}
	if err := s.Out.Print(rows...); err != nil {
		return err
	}
	var err error
	if path != "" {
		err = file.With(saved).Write(path)
	}
	if err := m.Agree(ctx, err); err != nil {
		return err
	}
	if err := m.Comm.SetTable(saved.Table); err != nil {
		return err
	}
	m.Table.Table, m.Table.Rules, m.Table.Origin, m.Table.Why = path, len(saved.Rules), "tune", saved.About()
	if path == "" {
		m.Table.Table = "tune"
	}
	return t.printSummary(path, saved)
}
