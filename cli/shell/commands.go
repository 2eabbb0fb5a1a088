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

	"github.com/spf13/pflag"

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
it holds: output, traces and timeout at once, the pager from the next line,
inject too if there is a ring,
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
			Name: "show", Group: command.GroupShell, Where: command.Line, Pages: true, Own: true, Harmless: true,
			Summary: "Show the settings in force, or one of them",
			Args:    "[NAME]", Complete: completeSetting, CheckArgs: countArgs("show", 0, 1, "at most one setting"), Run: runShow,
		},
		{
			Name: "source", Group: command.GroupShell, Where: command.Line, Own: true,
			Summary: "Run the commands of a file, one a line",
			Long:    "Runs the commands of a file, one a line, and stops at the first that fails. The\nname of a script that ringcli carries does, too. In -c and -f the files are\nchecked, with those that they name, before the ring is brought up.",
			Args:    "FILE", Files: true, Complete: completeScripts, CheckArgs: countArgs("source", 1, 1, "a file of commands"), Check: checkSource, Run: runSource,
		},
		{
			Name: "sleep", Group: command.GroupShell, Where: command.Line, Own: true,
			Summary: "Wait, unless the ring fails meanwhile", Args: "DURATION", Words: []string{"1s", "10s", "1m"}, CheckArgs: checkDuration("sleep", 1, 1),
			Run: func(ctx context.Context, s *session.Session, call command.Call) error {
				d, _ := time.ParseDuration(call.Args[0]) // which CheckArgs has read
				return pause(ctx, s.Ring, d)
			},
		},
		{
			Name: "watch", Group: command.GroupShell, Where: command.Line, Own: true, Typed: true, Verbatim: true,
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
			Name: "history", Group: command.GroupShell, Where: command.Line, Pages: true, Own: true, Typed: true,
			Summary: "List the lines that were typed", Args: "[N]", Words: []string{"20", "100"},
			CheckArgs: countArgs("history", 0, 1, "at most a number of lines"), Run: runHistory,
		},
		{
			Name: "jobs", Group: command.GroupShell, Where: command.Line, Own: true, Typed: true, Harmless: true,
			Summary: "List what runs in the background: lines that ended in &",
			Run:     runJobs,
		},
		{
			Name: "wait", Group: command.GroupShell, Where: command.Line, Own: true, Typed: true,
			Summary: "Wait for the lines in the background",
			Run:     func(ctx context.Context, s *session.Session, _ command.Call) error { return s.Shell.WaitJobs(ctx) },
		},
		{
			Name: "stop", Group: command.GroupShell, Where: command.Line, Own: true, Typed: true,
			Summary: "Stop a line in the background",
			Long: `Asks a line in the background to stop at its next boundary, on all ranks
together; with --now it is cancelled, which ends the ring if it uses it.`,
			Args: "[JOB]", Words: []string{"1"}, CheckArgs: countArgs("stop", 0, 1, "at most a job's number"),
			Flags: func(fs *pflag.FlagSet) { fs.Bool("now", false, "cancel it instead") },
			Run:   runStop,
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
	case name == "output":
		s.Out, from = render.New(s.Stdout, render.Format(value)), "now"
	case name == "pager":
		from = "the next line"
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

// JobInfo is a line that runs in the background.
type JobInfo struct {
	Command string  `json:"command"`
	OK      bool    `json:"ok"`
	Job     int     `json:"job" col:"job"`
	Line    string  `json:"line" col:"line|last"`
	Seconds float64 `json:"seconds" col:"seconds|%.1f"`
}

func runJobs(_ context.Context, s *session.Session, _ command.Call) error {
	var rows []render.Record
	for _, j := range s.Shell.Jobs() {
		rows = append(rows, JobInfo{Command: "jobs", OK: true, Job: j.ID, Line: j.Line, Seconds: time.Since(j.Since).Seconds()})
	}
	if len(rows) == 0 {
		return s.Out.Note(render.Faint, "nothing runs in the background")
	}
	return s.Out.Print(rows...)
}

func runStop(_ context.Context, s *session.Session, call command.Call) error {
	jobs := s.Shell.Jobs()
	id := 0
	switch {
	case len(call.Args) > 0:
		n, err := strconv.Atoi(strings.TrimPrefix(call.Args[0], "%"))
		if err != nil || n < 1 {
			return exit.Usagef("stop %s: expected the number of a job: `jobs` lists them", call.Args[0])
		}
		id = n
	case len(jobs) == 1:
		id = jobs[0].ID
	default:
		return exit.Usagef("stop: %d lines run in the background: expected the number of one: `jobs` lists them", len(jobs))
	}
	if !command.IsOn(call.Flags, "now") && s.StopJob != nil && s.StopJob(id) {
		return nil
	}
	if err := s.Shell.StopJob(id); err != nil {
		return exit.Usagef("%w", err)
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
			return r.Settled(r.Err())
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
