package tracing

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/lines"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/ring"
	"ringcli/trace"
	"ringcli/trace/align"
	"ringcli/trace/timeline"
)

// Rows are the prints and the flight recorder.
func Rows() []command.Row {
	return []command.Row{{
		Name: "trace", Group: command.GroupLook, Where: command.Process | command.Line, Own: true,
		Summary: "Switch prints; keep, merge and show what was recorded",
		Long: `Without an argument it shows the levels in force and whether the flight recorder
is on. Each rank has one, always on: it keeps the last operations, steps and
segments in memory, and packets while wire=debug.

  LEVELS            debug, info, warn, error, off for all (on is debug), or
                    subsystem=level pairs such as wire=debug,ring=info, at once,
                    also while an operation runs
  recorder on|off   switches the flight recorder
  show [FILE...]    draws the last operation as a timeline of the ranks: of the
                    files, or as the flight recorders hold it now
  dump FILE         writes the flight recorder to a file, for ui.perfetto.dev;
                    where all ranks do, the rank is put into the name
  merge FILE...     puts the ranks' files on one time axis, into --out

With --all, a rank that leads has all ranks do the same.`,
		Example: `  trace wire=debug
  trace dump all-reduce.json
  ringcli trace merge all-reduce.rank*.json --out merged.json`,
		Args: "[LEVELS | recorder | show | dump | merge]", Complete: completeTrace, Files: true, CheckArgs: checkTrace,
		Flags: traceFlags, Run: runTrace,
	}}
}

func traceFlags(fs *pflag.FlagSet) {
	fs.StringP("out", "o", "", "file that merge writes")
	command.Completes(fs, "out", "files")
	fs.Bool("all", false, "on all ranks, where this one leads")
	command.NumberFlag(fs, "width", "", 80, 64, 1000, "columns", "columns of show")
}

func completeTrace(args []string) []string {
	switch {
	case len(args) == 0:
		return []string{"show", "dump", "merge", "recorder", "on"}
	case args[0] == "recorder" && len(args) == 1:
		return []string{"on", "off"}
	}
	return nil
}

func checkTrace(args []string) error {
	switch {
	case len(args) == 0, args[0] == "show":
	case args[0] == "dump" && len(args) != 2:
		return exit.Usagef("trace dump: %d files given: expected one to write to", len(args)-1)
	case args[0] == "merge" && len(args) < 2:
		return exit.Usagef("trace merge: no files given: expected those of the ranks, as `trace dump` writes them")
	case args[0] == "recorder" && (len(args) != 2 || args[1] != "on" && args[1] != "off"):
		return exit.Usagef("%s: expected on or off after trace recorder", strings.Join(append([]string{"trace"}, args...), " "))
	case args[0] != "dump" && args[0] != "merge" && args[0] != "recorder" && len(args) > 1:
		return exit.Usagef("trace %s: expected one list of levels, such as wire=debug,ring=info", strings.Join(args, " "))
	}
	return nil
}

func runTrace(ctx context.Context, s *session.Session, call command.Call) error {
	what := ""
	if len(call.Args) > 0 {
		what = call.Args[0]
	}
	together := command.IsOn(call.Flags, "all") || what == "show" && len(call.Args) == 1
	if together && s.Leads && !call.Led {
		c, _ := call.Table.Find("trace", command.Line)
		return lines.Lead(ctx, s, c, call)
	}
	switch what {
	case "":
		return printLevels(s)
	case "show":
		return traceShow(ctx, s, call)
	case "dump":
		return traceDump(s, call)
	case "merge":
		return traceMerge(s, call.Args[1:], command.TextOf(call.Flags, "out"))
	case "recorder":
		trace.SetRecorder(call.Args[1] == "on")
		return printLevels(s)
	case "on":
		what = "debug"
	}
	if err := trace.Set(what); err != nil {
		return err
	}
	return printLevels(s)
}

// TraceLevel is what is printed of a subsystem.
type TraceLevel struct {
	Command   string `json:"command"`
	OK        bool   `json:"ok"`
	Subsystem string `json:"subsystem" col:"subsystem"`
	Level     string `json:"level" col:"printed from"`
	Recorder  string `json:"recorder" col:"recorder"` // the flight recorder: on or off
}

func printLevels(s *session.Session) error {
	recorder := "off"
	if trace.RecorderOn() {
		recorder = "on"
	}
	var rows []render.Record
	for _, l := range trace.Levels() {
		rows = append(rows, TraceLevel{Command: "trace", OK: true, Subsystem: l.Subsystem.String(), Level: l.Level, Recorder: recorder})
	}
	return s.Out.Print(rows...)
}

// TraceFile is a file that was written.
type TraceFile struct {
	Command string `json:"command"`
	OK      bool   `json:"ok"`
	Rank    int    `json:"rank" col:"rank"` // -1: in no ring
	File    string `json:"file" col:"file|last"`
	Events  int    `json:"events" col:"events"`
	Lost    uint64 `json:"lost" col:"lost"` // older ones that were overwritten
}

func traceDump(s *session.Session, call command.Call) error {
	path := call.Args[1]
	if s.Ring != nil && s.Ring.Size() > 1 && (call.Led || s.Follows || !s.Interactive) {
		// Ranks on one file system must not write over each other: out.json is
		// out.rank2.json.
		ext := filepath.Ext(path)
		path = strings.TrimSuffix(path, ext) + ".rank" + strconv.Itoa(s.Ring.Rank()) + ext
	}
	r := trace.Record()
	if err := render.WriteFile("trace dump", path, func(w io.Writer) error { return trace.WriteRecordings(w, []trace.Recording{r}) }); err != nil {
		return err
	}
	return s.Out.Print(TraceFile{Command: "trace", OK: true, Rank: r.Rank, File: path, Events: len(r.Events), Lost: r.Lost.Records + r.Lost.Logs})
}

// readRecordings reads the recordings of files.
func readRecordings(files []string) ([]trace.Recording, error) {
	var list []trace.Recording
	for _, name := range files {
		r, err := trace.ReadFile(name)
		if err != nil {
			return nil, exit.Usagef("%w", err)
		}
		list = append(list, r...)
	}
	return list, nil
}

// merged puts the recordings of ranks on one time axis.
func merged(list []trace.Recording) (*align.Merged, error) {
	m, err := align.Merge(list)
	if err != nil {
		return nil, exit.Usagef("%w", err)
	}
	return m, nil
}

// MergeResult says how well the ranks' clocks could be put together.
type MergeResult struct {
	Command      string `json:"command"`
	OK           bool   `json:"ok"` // no segment arrives before it is sent
	align.Merged `col:"Clocks=ranks|len; Segments=segments; Violations=violations|bad; Worst=worst us|us"`
	File         string `json:"file" col:"file|dash"`
}

// ClockRow is what was found out about a rank's clock.
type ClockRow struct {
	Command        string `json:"command"`
	OK             bool   `json:"ok"`
	align.ClockFit `col:"Rank=rank; Offset=offset us|12|us|%.1f; DriftPPM=drift ppm|9|%.2f; Bound=bound us|9|us|%.1f; Samples=samples"`
}

// Adjust implements render.Adjuster.
func (c ClockRow) Adjust(column string, cell *render.Cell) {
	if column == "bound us" && c.Bound < 0 {
		cell.Text = "-"
	}
}

func traceMerge(s *session.Session, files []string, out string) error {
	if out == "" {
		return exit.Usagef("trace merge: no --out FILE is given: expected where to write the merged trace")
	}
	there, _ := os.Stat(out) // what cannot be looked at is not the same
	for _, name := range files {
		if here, err := os.Stat(name); err == nil && os.SameFile(here, there) {
			return exit.Usagef("trace merge: --out %s is one of the files to merge: expected another name", out)
		}
	}
	list, err := readRecordings(files)
	if err != nil {
		return err
	}
	m, err := merged(list)
	if err != nil {
		return err
	}
	if err := render.WriteFile("trace merge", out, m.Write); err != nil {
		return err
	}
	if s.Out.Format() != render.JSON {
		var rows []render.Record
		for _, c := range m.Clocks {
			rows = append(rows, ClockRow{Command: "trace", OK: true, ClockFit: c})
		}
		if err := s.Out.Print(rows...); err != nil {
			return err
		}
	}
	if err := s.Out.Notes(render.Fair, m.Warnings...); err != nil {
		return err
	}
	return s.Out.Print(MergeResult{Command: "trace", OK: m.Violations == 0, Merged: *m, File: out})
}

// Timeline is one operation as its ranks went through it.
type Timeline struct {
	Command            string `json:"command"`
	OK                 bool   `json:"ok"`
	timeline.Operation `col:"Op=operation; Protocol=protocol; Bytes=bytes; Duration=us|us; Slowest=slowest"`
}

func traceShow(ctx context.Context, s *session.Session, call command.Call) error {
	var list []trace.Recording
	switch files := call.Args[1:]; {
	case len(files) > 0:
		var err error
		if list, err = readRecordings(files); err != nil {
			return err
		}
		if !list[0].Aligned { // else it comes from a merge
			m, err := merged(list)
			if err != nil {
				return err
			}
			list = m.Ranks
		}
	case s.Member != nil && (call.Led || s.Follows || !s.Interactive): // the other ranks run the same line
		var err error
		if list, err = gatherRecordings(ctx, s); err != nil {
			return err
		}
	default:
		list = []trace.Recording{trace.Record()}
	}
	t, err := timeline.LastOperation(list)
	if err != nil {
		return exit.Usagef("%w", err)
	}
	if s.Out.Format() != render.Table {
		return s.Out.Print(Timeline{Command: "trace", OK: true, Operation: t})
	}
	var b bytes.Buffer
	colored := trace.IsTerminal(s.Stdout) && trace.ColorWanted()
	if err := t.Draw(&b, command.NumberOf(call.Flags, "width"), colored); err != nil {
		return err
	}
	return s.Out.Text(b.String())
}

// gatherRecordings brings the last operation of all ranks together, over the
// control ring, on one time axis.
func gatherRecordings(ctx context.Context, s *session.Session) ([]trace.Recording, error) {
	r := lastOperationOf(trace.Record())
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	err := errors.Join(trace.WriteRecordings(z, []trace.Recording{r}), z.Close())
	const most = 512 << 10 // what a control frame holds, with room to spare
	if err == nil && b.Len() > most {
		err = exit.Usagef("trace show: the last operation has %d events, too many to gather: `trace dump`, then `ringcli trace show` with the files", len(r.Events))
	}
	if err := s.Member.Agree(ctx, err); err != nil {
		return nil, err
	}
	parts, err := s.Ring.Gather(ctx, ring.Purpose{What: "gather", Do: "send its trace"}, b.Bytes())
	if err != nil {
		return nil, err
	}
	var list []trace.Recording
	for rank, part := range parts {
		z, err := gzip.NewReader(bytes.NewReader(part))
		if err != nil {
			return nil, fmt.Errorf("rank %d's recording: %w", rank, err)
		}
		l, err := trace.Read(z)
		if err != nil {
			return nil, fmt.Errorf("rank %d's recording: %w", rank, err)
		}
		list = append(list, l...)
	}
	m, err := merged(list)
	if err != nil {
		return nil, err
	}
	return m.Ranks, nil
}

// lastOperationOf leaves only the events since the last operation began.
func lastOperationOf(r trace.Recording) trace.Recording {
	t, err := timeline.LastOperation([]trace.Recording{r})
	if err != nil {
		r.Events = nil
		return r
	}
	r.Events = slices.DeleteFunc(slices.Clone(r.Events), func(e trace.Event) bool {
		return e.Start < t.Start || e.Subsystem != trace.Collective.String()
	})
	return r
}
