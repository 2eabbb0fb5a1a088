package shell

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"ringcli/cli/about"
	"ringcli/cli/command"
	"ringcli/cli/devices"
	"ringcli/cli/exit"
	"ringcli/cli/lines"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/configs"
	"ringcli/repl"
	"ringcli/ring"
)

// Rows are those that only make sense where lines are typed, or read from
// a file.
func Rows() []command.Row {
	return []command.Row{
		{
			Name: "set", Group: command.GroupShell, Where: command.Line, Own: true,
			Summary: "Give a setting another value, for this session",
			Long: `Gives a setting another value, for this session of this rank, and says from when
it holds: output, traces and timeout at once, inject too if there is a ring,
algorithm, protocol, segment and depth from the next operation, and what a ring
is made with from the next connect or open. show lists all settings; a command's
own flag comes first.`,
			Example: "  set protocol eager\n  set output json",
			Args:    "NAME VALUE", Complete: completeSetting, CheckArgs: countArgs("set", 2, 2, "a setting's name and a value"),
			Check: func(_ context.Context, s *session.Session, call command.Call, _ int) error {
				_, err := s.Config.With(call.Args[0], call.Args[1])
				return err
			},
			Run: func(_ context.Context, s *session.Session, call command.Call) error {
				return set(s, call.Args[0], call.Args[1])
			},
		},
		{
			Name: "show", Group: command.GroupShell, Where: command.Line, Own: true, Harmless: true,
			Summary: "Show the settings in force, or one of them",
			Args:    "[NAME]", Complete: completeSetting, CheckArgs: countArgs("show", 0, 1, "at most one setting"), Run: runShow,
		},
		{
			Name: "source", Group: command.GroupShell, Where: command.Line, Own: true, Concurrency: command.Lasting,
			Summary: "Run the commands of a file, one a line",
			Long:    "Runs the commands of a file, one a line, and stops at the first that fails. The\nname of a script that ringcli carries comes first: ./NAME is the file. In -c and\n-f the files are checked, with those that they name, before the ring is brought\nup.",
			Args:    "FILE", Files: true, Complete: completeScripts, CheckArgs: countArgs("source", 1, 1, "a file of commands"), Check: checkSource, Run: runSource,
		},
		{
			Name: "sleep", Group: command.GroupShell, Where: command.Line, Own: true, Concurrency: command.Lasting,
			Summary: "Wait, unless the ring fails meanwhile", Args: "DURATION", Words: []string{"1s", "10s", "1m"}, CheckArgs: checkDuration("sleep", 1, 1),
			Run: func(ctx context.Context, s *session.Session, call command.Call) error {
				d, _ := time.ParseDuration(call.Args[0]) // which CheckArgs has read
				return pause(ctx, s.Ring, d)
			},
		},
		{
			Name: "watch", Group: command.GroupShell, Where: command.Line, Own: true, Concurrency: command.Lasting, Typed: true, Verbatim: true,
			Summary: "Run a command again and again until Ctrl-C",
			Example: "  watch 2s counters\n  watch 5s all-reduce --size 1M --duration 1s", Args: "INTERVAL COMMAND...", Words: []string{"1s", "2s", "10s"}, CheckArgs: checkDuration("watch", 2, 1<<10),
			Run: func(ctx context.Context, s *session.Session, call command.Call) error {
				every, _ := time.ParseDuration(call.Args[0]) // which CheckArgs has read
				return s.Shell.Watch(ctx, every, joinWords(call.Args[1:]))
			},
		},
		{
			Name: "transcript", Group: command.GroupShell, Where: command.Line, Own: true, Typed: true,
			Summary: "Append all that is typed and printed to a file; off ends it",
			Args:    "FILE | off", Files: true, Complete: func([]string) []string { return nil }, CheckArgs: countArgs("transcript", 1, 1, "a file, or off"),
			Run: func(_ context.Context, s *session.Session, call command.Call) error {
				path := call.Args[0]
				if path == "off" {
					path = ""
				}
				return s.Shell.SetTranscript(path)
			},
		},
		{
			Name: "timing", Group: command.GroupShell, Where: command.Line, Own: true, Typed: true,
			Summary: "Say after each line how long it took, or no longer",
			Args:    "on | off", Words: []string{"on", "off"}, CheckArgs: checkOnOff,
			Run: func(_ context.Context, s *session.Session, call command.Call) error {
				s.Shell.SetTiming(call.Args[0] == "on")
				return nil
			},
		},
		{
			Name: "alias", Group: command.GroupShell, Where: command.Line, Own: true, Typed: true, Verbatim: true,
			Summary: "Make a name stand for a line, or list such names",
			Example: "  alias check4 all-reduce --size 4M --check\n  alias look 'ping; status'", Args: "[NAME TEXT...]",
			Complete: func([]string) []string { return nil }, CheckArgs: func([]string) error { return nil }, Run: runAlias,
		},
		{
			Name: "unalias", Group: command.GroupShell, Where: command.Line, Own: true, Typed: true,
			Summary: "Take an alias back", Args: "NAME", Complete: func([]string) []string { return nil },
			CheckArgs: countArgs("unalias", 1, 1, "the name of an alias"),
			Run: func(_ context.Context, s *session.Session, call command.Call) error {
				if !s.Shell.Unalias(call.Args[0]) {
					return exit.Usagef("unalias %s: there is no such alias: `alias` lists them", call.Args[0])
				}
				return nil
			},
		},
		{
			Name: "history", Group: command.GroupShell, Where: command.Line, Own: true, Typed: true,
			Summary: "List the lines that were typed", Args: "[N]", Words: []string{"20", "100"},
			CheckArgs: countArgs("history", 0, 1, "at most a number of lines"), Run: runHistory,
		},
		{
			Name: "jobs", Group: command.GroupShell, Where: command.Line, Own: true, Harmless: true,
			Summary: "List what runs in the background: commands that ended in &",
			Long: `Lists what runs in the background, and what waits for its turn. An operation, a
measurement, sleep, source or watch that ends in & runs there; the next command
begins at once. The ring has one of them at a time, in the order in which they
were given: what comes after them waits for them, also in front, also close,
reconnect and ping. Where rank 0 leads, followers run them in the same order.
Each result has the job's number in JSON, and a job tells when it ends. wait
waits for it; stop and cancel end it.

A rank that is lost ends all jobs of all ranks. At the end of -c, -f or a pipe
the jobs are waited for, and a failure of one is that of all; a typed shell that
is left asks them to stop.`,
			Example: "  all-reduce --size 1G --duration 1m &\n  jobs\n  wait 1",
			Run:     runJobs,
		},
		{
			Name: "wait", Group: command.GroupShell, Where: command.Line, Own: true,
			Summary: "Wait for a command in the background, or for all",
			Long: `Waits for a command in the background, and ends as that did: with its exit code,
also if it has ended before. Without a number it waits for all, and ends with
the gravest failure that was not waited for. One that was stopped or cancelled
has not failed; its ring may have. Ctrl-C ends the wait, not the command, but in
-c and -f, where it ends all.
What they have printed is what expect looks at then.`,
			Args: "[JOB]", Words: []string{"1", "2"}, CheckArgs: checkJob("wait"),
			Run: func(ctx context.Context, s *session.Session, call command.Call) error {
				return lines.Wait(ctx, s, jobOf(call.Args))
			},
		},
		{
			Name: "stop", Group: command.GroupShell, Where: command.Line, Own: true,
			Summary: "Have a command in the background stop at its next boundary",
			Long: `Asks a command in the background to stop at its next boundary, on all ranks
together, which leaves the ring usable; cancel ends it at once. One that waits
for its turn is taken out of the line; where no rank leads it stops when its
turn comes, since other ranks have it in their lines, too.`,
			Args: "[JOB]", Words: []string{"1", "2"}, CheckArgs: checkJob("stop"),
			Run: func(_ context.Context, s *session.Session, call command.Call) error {
				return endJob(s, call, s.Jobs.Stop)
			},
		},
		{
			Name: "cancel", Group: command.GroupShell, Where: command.Line, Own: true,
			Summary: "End a command in the background now, on all ranks",
			Long: `Cancels a command in the background. One that has the ring ends at once on all
ranks, each of which says which rank has cancelled it, and the ring with it:
reconnect builds another. So does one that waits for its turn, but where this
rank leads: there it is only taken out of the line.`,
			Args: "[JOB]", Words: []string{"1", "2"}, CheckArgs: checkJob("cancel"),
			Run: func(_ context.Context, s *session.Session, call command.Call) error {
				return endJob(s, call, s.Jobs.Cancel)
			},
		},
		{
			Name: "quit", Aliases: []string{"exit"}, Group: command.GroupShell, Where: command.Line, Own: true,
			Summary: "Leave the shell and the ring",
			Run: func(_ context.Context, s *session.Session, _ command.Call) error {
				if s.Shell == nil {
					return exit.ErrQuit
				}
				s.Shell.Quit()
				return nil
			},
		},
	}
}

func countArgs(name string, least, most int, what string) func([]string) error {
	return func(args []string) error {
		if len(args) < least || len(args) > most {
			return exit.Usagef("%s: %d arguments given: expected %s", name, len(args), what)
		}
		return nil
	}
}

func checkDuration(name string, least, most int) func([]string) error {
	return func(args []string) error {
		if len(args) == 0 || len(args) > most {
			return exit.Usagef("%s: %d arguments given: expected a duration, such as 2s", name, len(args))
		}
		if d, err := time.ParseDuration(args[0]); err != nil || d < 0 {
			return exit.Usagef("%s %s: expected a duration with its unit, such as 500ms, 2s or 1m", name, args[0])
		}
		if len(args) < least {
			return exit.Usagef("%s %s: expected a command, too, such as: %[1]s %[2]s counters", name, args[0])
		}
		return nil
	}
}

func checkOnOff(args []string) error {
	if len(args) != 1 || args[0] != "on" && args[0] != "off" {
		return exit.Usagef("timing %s: expected on or off", strings.Join(args, " "))
	}
	return nil
}

// joinWords makes a line of words that Split takes apart into them again.
func joinWords(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		if w == "" || strings.ContainsAny(w, " \t\r\n;#'\"\\&") {
			w = "\"" + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(w) + "\""
		}
		quoted[i] = w
	}
	return strings.Join(quoted, " ")
}

func set(s *session.Session, name, value string) error {
	next, err := s.Config.With(name, value)
	if err != nil {
		return err
	}
	if name == "output" && value == string(render.NCCLTests) {
		return exit.Usagef("set output %s: expected table, json or csv; `ringcli bench all-reduce --output %[1]s` prints nccl-tests' table", value)
	}
	if name == "inject" && s.Ring != nil {
		if err := s.Inject(value); err != nil {
			return err
		}
		s.Place.AddInjected("this rank: " + value)
	}
	s.Config = next
	from := "the next connect or open"
	switch {
	case name == "timeout" && s.Ring != nil:
		s.Ring.SetTimeout(next.Duration(name))
		from = "now"
	case name == "inject" && s.Ring != nil:
		from = "now"
	case name == "output", name == "csv-table":
		s.Out, from = s.Printer(), "now"
	case slices.Contains(session.ProcessSettings, name):
		if err := s.SetTrace(); err != nil {
			return err
		}
		from = "now"
	case slices.Contains(session.OperationSettings, name):
		from = "the next operation"
	}
	return s.Out.Note(render.Faint, "%s is %s from %s on", name, next.Get(name), from)
}

func runShow(ctx context.Context, s *session.Session, call command.Call) error {
	if len(call.Args) == 0 {
		return about.PrintConfig(s)
	}
	if _, known := configs.Lookup(call.Args[0]); !known {
		_, err := s.Config.With(call.Args[0], "") // which knows the nearest
		return err
	}
	v := s.Config.Get(call.Args[0])
	return s.Out.Print(about.ConfigEntry{Command: "show", OK: true, Name: v.Name, Value: v.String(), Origin: v.Origin.String()})
}

func completeSetting(args []string) []string {
	switch {
	case len(args) == 0:
		return configs.Names()
	case len(args) > 1:
		return nil
	case args[0] == "device":
		return append(devices.Names(), "auto")
	}
	setting, _ := configs.Lookup(args[0])
	return setting.Words()
}

func completeScripts(args []string) []string {
	if len(args) > 0 {
		return nil
	}
	return configs.ScriptNames()
}

// checkSource looks at a file before there is a ring, and at those that it names. What
// can be read only once, such as a pipe, is left for when it runs.
func checkSource(ctx context.Context, s *session.Session, call command.Call, ranksHere int) error {
	if about, err := os.Stat(call.Args[0]); err == nil && about.Mode()&(os.ModeNamedPipe|os.ModeDevice|os.ModeSocket) != 0 {
		return nil
	}
	return eachOf(ctx, call.Args[0], func(ctx context.Context, text string) error {
		return lines.Check(ctx, s, call.Table, text, ranksHere)
	})
}

func runSource(ctx context.Context, s *session.Session, call command.Call) error {
	if err := lines.NoteHidden(s, call.Args[0]); err != nil {
		return err
	}
	if s.Shell != nil {
		text, name, err := lines.ScriptOf(call.Args[0])
		if err != nil {
			return exit.Usagef("source: %w", err)
		}
		return s.Shell.Source(ctx, call.Args[0], name, text)
	}
	return eachOf(ctx, call.Args[0], func(ctx context.Context, text string) error {
		return lines.Run(ctx, s, call.Table, text)
	})
}

// eachOf does something with the text of a file, within those that have named it.
func eachOf(ctx context.Context, path string, do func(ctx context.Context, text string) error) error {
	text, name, err := lines.ScriptOf(path)
	if err != nil {
		return exit.Usagef("source: %w", err)
	}
	if ctx, err = repl.Within(ctx, path, name); err != nil {
		return exit.Usagef("%w", err)
	}
	if err := do(ctx, text); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Alias is a name that stands for a line.
type Alias struct {
	Command string `json:"command"`
	OK      bool   `json:"ok"`
	Name    string `json:"name" col:"alias"`
	Text    string `json:"text" col:"stands for"`
}

func runAlias(_ context.Context, s *session.Session, call command.Call) error {
	switch len(call.Args) {
	case 0:
		var rows []render.Record
		all := s.Shell.Aliases()
		for _, name := range slices.Sorted(maps.Keys(all)) {
			rows = append(rows, Alias{Command: "alias", OK: true, Name: name, Text: all[name]})
		}
		return s.Out.Print(rows...)
	case 1:
		return exit.Usagef("alias %s: expected what it is to stand for, such as: alias check4 all-reduce --size 4M --check", call.Args[0])
	}
	if _, taken := call.Table.Find(call.Args[0], command.Line); taken {
		return exit.Usagef("alias %s: this is a command: expected another name", call.Args[0])
	}
	text := call.Args[1] // one word is a whole line, as in other shells: 'ping; status'
	if len(call.Args) > 2 {
		text = joinWords(call.Args[1:])
	}
	if _, err := lines.Split(text); err != nil {
		return exit.Usagef("alias %s: %w", call.Args[0], err)
	}
	if err := s.Shell.Alias(call.Args[0], text); err != nil {
		return exit.Usagef("%w", err)
	}
	return nil
}

// HistoryLine is a line that was typed.
type HistoryLine struct {
	Command string `json:"command"`
	OK      bool   `json:"ok"`
	Number  int    `json:"number" col:"n"`
	Line    string `json:"line" col:"line"`
}

func runHistory(_ context.Context, s *session.Session, call command.Call) error {
	lines, most := s.Shell.History(), 20
	if len(call.Args) > 0 {
		n, err := strconv.Atoi(call.Args[0])
		if err != nil || n < 1 {
			return exit.Usagef("history %s: expected a number of lines above 0", call.Args[0])
		}
		most = n
	}
	var rows []render.Record
	for i := max(0, len(lines)-most); i < len(lines); i++ {
		rows = append(rows, HistoryLine{Command: "history", OK: true, Number: i + 1, Line: lines[i]})
	}
	return s.Out.Print(rows...)
}

// JobInfo is a command in the background.
type JobInfo struct {
	Command string  `json:"command"`
	OK      bool    `json:"ok"`
	Job     int     `json:"job" col:"job"`
	State   string  `json:"state" col:"state|5"` // runs, or waits for its turn
	Seconds float64 `json:"seconds" col:"seconds|%.1f"`
	Line    string  `json:"line" col:"line|last"`
}

func runJobs(_ context.Context, s *session.Session, _ command.Call) error {
	var rows []render.Record
	for _, j := range s.Jobs.List() {
		rows = append(rows, JobInfo{Command: "jobs", OK: true, Job: j.ID, State: string(j.State), Seconds: time.Since(j.Since).Seconds(), Line: j.Line})
	}
	if len(rows) == 0 {
		return s.Out.Note(render.Faint, "nothing runs in the background")
	}
	return s.Out.Print(rows...)
}

// checkJob refuses what is no job's number.
func checkJob(name string) func([]string) error {
	return func(args []string) error {
		if err := countArgs(name, 0, 1, "at most a job's number")(args); err != nil {
			return err
		}
		if len(args) > 0 && jobOf(args) < 1 {
			return exit.Usagef("%s %s: expected the number of a job, such as 1: `jobs` lists them", name, args[0])
		}
		return nil
	}
}

// jobOf is the job's number that was given; 0 if there is none.
func jobOf(args []string) int {
	if len(args) == 0 {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimPrefix(args[0], "%"))
	if err != nil {
		return -1
	}
	return n
}

// endJob ends the job that was given, or the only one.
func endJob(s *session.Session, call command.Call, end func(id int) (ended bool, err error)) error {
	id := jobOf(call.Args)
	if jobs := s.Jobs.List(); id == 0 && len(jobs) != 1 {
		return exit.Usagef("%s: %d commands run in the background: expected the number of one: `jobs` lists them", call.Name, len(jobs))
	} else if id == 0 {
		id = jobs[0].ID
	}
	ended, err := end(id)
	switch {
	case err != nil:
		return exit.Usagef("%s: %w", call.Name, err)
	case ended:
		return s.Out.Note(render.Faint, "job %d has ended before", id)
	}
	return nil
}

// pauseTick is the pause between two looks at the ring.
const pauseTick = 100 * time.Millisecond

// pause waits, or returns why the context ended, or the ring failed meanwhile.
func pause(ctx context.Context, r *ring.Ring, d time.Duration) error {
	lived := r != nil && !r.Failed()
	for until := time.Now().Add(d); ; {
		if lived && r.Failed() {
			return r.Failure().Settled(r.Err())
		}
		left := time.Until(until)
		if left <= 0 {
			return nil
		}
		if err := lines.Pause(ctx, min(left, pauseTick)); err != nil {
			return err
		}
	}
}
