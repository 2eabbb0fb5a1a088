package connect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/lines"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/cli/shell"
	"ringcli/trace"
)

// SelfCheckName is the command that stands in for no script.
const SelfCheckName = "self-check"

// ScriptFlags say which commands to run, or that it is the self-check.
func ScriptFlags(fs *pflag.FlagSet) {
	lineFlags(fs)
	fs.Bool("check", false, "run the self-check; this is also what happens without -c and -f where there is no terminal")
}

// lineFlags say which commands to run.
func lineFlags(fs *pflag.FlagSet) {
	fs.StringP("command", "c", "", "commands to run, separated by ';'")
	command.Completes(fs, "command", "commands")
	fs.StringP("file", "f", "", "a file of commands to run, one a line, or the name of a script that ringcli carries, which comes first (./NAME: the file; -: standard input)")
	command.Completes(fs, "file", "scripts")
	fs.Bool("keep-going", false, "run the rest of the commands after one that failed; the exit code is that of the worst")
}

// ReadScript returns the commands that -c or -f ask for; empty for the
// self-check.
func ReadScript(s *session.Session, fs *pflag.FlagSet) (string, error) {
	typed, file := command.TextOf(fs, "command"), command.TextOf(fs, "file")
	s.KeepGoing = command.IsOn(fs, "keep-going")
	given := 0
	for _, name := range []string{"command", "file", "check"} {
		if fs.Lookup(name) != nil && fs.Changed(name) {
			given++
		}
	}
	if given > 1 {
		return "", exit.Usagef("more than one of -c, -f and --check is given: expected one")
	}
	var text, source, expected string
	var err error
	switch {
	case fs.Changed("command"):
		text, source, expected = typed, fmt.Sprintf("-c %q", typed), "some, such as 'ping; all-reduce --size 1M --check'"
	case fs.Changed("file"):
		source, expected = "-f "+file, "one a line"
		if text, err = textOf(s, file); err != nil {
			return "", exit.Usagef("%s: %w", source, err)
		}
	default:
		return "", nil
	}
	commands, err := lines.Split(text)
	if err == nil && len(commands) == 0 {
		err = exit.Usagef("%s has no command: expected %s", source, expected)
	}
	return text, err
}

func textOf(s *session.Session, file string) (string, error) {
	if file != "-" {
		text, _, err := lines.ScriptOf(file)
		return text, errors.Join(err, lines.NoteHidden(s, file))
	}
	all, err := io.ReadAll(s.Stdin)
	return string(all), err
}

func runConnect(ctx context.Context, s *session.Session, call command.Call) error {
	script, err := ReadScript(s, call.Flags)
	if err != nil {
		return err
	}
	s.OnlyRank0 = !command.IsOn(call.Flags, "check") && OnlyRank0(call.Flags)
	follow, check := command.IsOn(call.Flags, "follow"), command.IsOn(call.Flags, "check")
	if follow && (script != "" || check) {
		return exit.Usagef("--follow with -c, -f or --check: expected it alone: rank 0 says what to run")
	}
	if _, err := s.Launch(ctx, true); err != nil {
		return err
	}
	ctx = s.Launcher.Patient(ctx)
	limit := command.Value[time.Duration](call.Flags, retryFlag)
	switch {
	case follow:
		return lines.Follow(ctx, s, call.Table, limit)
	case script == "" && !check && trace.IsTerminal(s.Stdin) && trace.IsTerminal(s.Stdout): // a person's
		if err := shell.Open(s, call.Table); err != nil {
			return err
		}
		return retrying(ctx, s, limit, false, func(ctx context.Context) error { return shell.Run(ctx, s) })
	case script == "":
		script, s.OnlyRank0 = SelfCheckName, s.Launcher.Started && OnlyRank0(call.Flags)
	}
	if err := lines.Check(ctx, s, call.Table, script, s.RanksHere()); err != nil {
		return err
	}
	if err := NoteRank0(s); err != nil {
		return err
	}
	err = retrying(ctx, s, limit, true, func(ctx context.Context) error { return lines.Run(ctx, s, call.Table, script) })
	if failed, ok := errors.AsType[*session.BringUpError](err); ok {
		return lines.OnBroken(ctx, s, call.Table, script, failed)
	}
	return err
}

// runShellProcess is `ringcli shell`: without a ring to begin with.
func runShellProcess(ctx context.Context, s *session.Session, call command.Call) error {
	script, err := ReadScript(s, call.Flags)
	if err != nil {
		return err
	}
	if script == "" {
		if err := shell.Open(s, call.Table); err != nil {
			return err
		}
		err = shell.Run(ctx, s)
	} else {
		if err := lines.Check(ctx, s, call.Table, script, s.RanksHere()); err != nil {
			return err
		}
		s.Interactive = true // a ring of its own, whatever the others run
		err = lines.Run(ctx, s, call.Table, script)
	}
	return s.Leave(ctx, err, session.End)
}

// printFlag says which ranks print results.
const printFlag = "print"

// PrintFlag says which ranks print the results of what all ranks run together.
func PrintFlag(fs *pflag.FlagSet) {
	whose := []string{"0", "all"}
	command.ChoiceFlag(fs, printFlag, "whose", &whose[0], whose, func(text string) (string, error) {
		if !slices.Contains(whose, text) {
			return "", errors.New("expected 0 or all")
		}
		return text, nil
	}, "who prints the results of what all ranks run together: rank 0 (0), or each rank (all)")
}

// OnlyRank0 tells whether rank 0 alone is to print.
func OnlyRank0(fs *pflag.FlagSet) bool { return command.Value[string](fs, printFlag) == "0" }

// NoteRank0 tells a person at another rank's terminal why there are no results.
func NoteRank0(s *session.Session) error {
	if s.OnlyRank0 && s.Parent == nil && s.Config.Int("index") > 0 && trace.IsTerminal(s.Stdout) {
		return s.Out.Note(render.Faint, "rank 0 prints the results; with --print all they are here, too")
	}
	return nil
}

// InRing joins the ring, runs do, and leaves.
func InRing(ctx context.Context, s *session.Session, do func(context.Context) error) error {
	if err := s.Join(ctx, 0); err != nil {
		return err
	}
	return s.Leave(ctx, do(ctx), session.End)
}

// Row is `ringcli connect`.
func Row() command.Row {
	return command.Row{
		Name: "connect", Group: command.GroupRing, Where: command.Process,
		Summary: "Join a ring as one of its ranks",
		Long: `Joins the ring of --list as rank --index, together with the other ranks, which
may start in any order, or without --list the ring of the ranks that a launcher
(mpirun, srun, torchrun) has started, of which rank 0 alone prints (help
launchers), and runs the commands of -c or -f there. Without either, on a
terminal, it is a shell; elsewhere, and with --check, it runs the self-check: a
ping of each neighbour, then every collective, each by every algorithm and under
every protocol that the ring has, with every element of every rank verified.
With --follow a rank takes the commands of rank 0, in its shell or its script.

Results of what all ranks run together are printed by rank 0, unless --print all
asks for them everywhere; what is about a rank alone, such as ping left or poll,
the self-check that was not asked for by -c, and each failure are printed there.

Where the ring does not come up, doctor, path and report of the script run all
the same: over TCP on all ranks that found each other, or on this node alone.
The exit code stays that of the bring-up. --report-on-failure writes the report.

` + retryHelp + `

The C programs' spelling "-myindex 0 -list a b" is understood.

` + LineHelp,
		Example: `  ringcli connect --index 0 --list node0,node1,node2
  ringcli connect --index 1 --list @hosts -c 'ping; all-reduce --check'
  ringcli connect --index 1 --list @hosts -f soak --retry 10m
  mpirun -np 4 ringcli connect --check`,
		Settings: slices.Concat(session.RingSettings, session.HostLists),
		Flags: func(fs *pflag.FlagSet) {
			ScriptFlags(fs)
			PrintFlag(fs)
			fs.Bool("follow", false, "take the commands of rank 0, which leads; without a token on loopback addresses only")
			command.DurationFlag(fs, retryFlag, 0, "for how long after a failure to join the ring again and run the script anew (not at all)")
			session.ChildFlags(fs)
		},
		Run: runConnect,
	}
}

// ShellRow is `ringcli shell`.
func ShellRow() command.Row {
	return command.Row{
		Name: "shell", Group: command.GroupRing, Where: command.Process,
		Summary: "The shell before any ring: walk the bring-up step by step",
		Long: `Starts the shell without a ring: query looks at devices, and open, init,
exchange, rtr and rts walk a bring-up step by step, together with the shells of
the other nodes. A rank that runs ringcli connect ends with a ping of all ranks
at once: ping --all is the walker's part in it. With -c or -f it runs the
commands and ends. Lines are those of -c; help lists them.`,
		Example: `  ringcli shell --index 0 --list node0,node1
  ringcli shell --index 0 --list a,b -c 'open; init; exchange; rtr; rts'`,
		Settings: session.HandSettings, Flags: lineFlags, Run: runShellProcess,
	}
}

// LineHelp says which commands there are for -c and -f.
const LineHelp = `Commands of -c and -f are separated by ';': self-check, ping, status, counters,
all-reduce, reduce-scatter, all-gather, bench, expect and more. -c help lists
them all, -c 'help COMMAND' shows the flags of one.`
