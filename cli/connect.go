package cli

import (
	"context"
	"io"

	"github.com/spf13/pflag"

	"ringcli/cli/render"
)

// selfCheckName is the command that stands in for no script.
const selfCheckName = "self-check"

// scriptFlags say which commands to run, or that it is the self-check.
func scriptFlags(fs *pflag.FlagSet) {
	lineFlags(fs)
	fs.Bool("check", false, "run the self-check; this is also what happens without -c and -f where there is no terminal")
}

// lineFlags say which commands to run.
func lineFlags(fs *pflag.FlagSet) {
	fs.StringP("command", "c", "", "commands to run, separated by ';'")
	offers(fs, "command", "commands")
	fs.StringP("file", "f", "", "a file of commands to run, one a line, or the name of a script that ringcli carries (-: standard input)")
	offers(fs, "file", "files")
	fs.Bool("keep-going", false, "run the rest of the commands after one that failed; the exit code is that of the worst")
}

// readScript returns the commands that -c or -f ask for; empty for the
// self-check.
func readScript(s *Session, fs *pflag.FlagSet) (string, error) {
	command, file := textOf(fs, "command"), textOf(fs, "file")
	s.keepGoing = isOn(fs, "keep-going")
	given := 0
	for _, name := range []string{"command", "file", "check"} {
		if fs.Lookup(name) != nil && fs.Changed(name) {
			given++
		}
	}
	switch {
	case given > 1:
		return "", usageError("more than one of -c, -f and --check is given: expected one")
	case fs.Changed("command"):
		if commands, err := splitScript(command); err != nil || len(commands) == 0 {
			return "", usageIfNil(err, "-c %q has no command: expected some, such as 'ping; all-reduce --size 1M --check'", command)
		}
		return command, nil
	case !fs.Changed("file"):
		return "", nil
	}
	var text string
	var err error
	if file == "-" {
		var all []byte
		all, err = io.ReadAll(s.stdin)
		text = string(all)
	} else {
		text, err = scriptOf(file)
	}
	if err != nil {
		return "", usageError("-f %s: %w", file, err)
	}
	if commands, err := splitScript(text); err != nil || len(commands) == 0 {
		return "", usageIfNil(err, "-f %s has no command: expected one a line", file)
	}
	return text, nil
}

// usageIfNil returns err, or an error of usage if it is nil.
func usageIfNil(err error, format string, args ...any) error {
	if err != nil {
		return err
	}
	return usageError(format, args...)
}

func runConnect(ctx context.Context, s *Session, call Call) error {
	script, err := readScript(s, call.Flags)
	if err != nil {
		return err
	}
	follow, check := isOn(call.Flags, "follow"), isOn(call.Flags, "check")
	s.takeFault(call.Flags)
	switch {
	case follow && (script != "" || check):
		return usageError("--follow with -c, -f or --check: expected it alone: rank 0 says what to run")
	case follow:
		return s.followLeader(ctx, call.Table)
	case script == "" && !check && s.onTerminal():
		if err := s.openShell(call.Table); err != nil {
			return err
		}
		return s.inRing(ctx, func(ctx context.Context) error { return s.runShell(ctx) })
	case script == "":
		script = selfCheckName
	}
	if err := s.checkScript(ctx, call.Table, script, s.ranksHere()); err != nil {
		return err
	}
	return s.inRing(ctx, func(ctx context.Context) error { return s.runScript(ctx, call.Table, script) })
}

// onTerminal tells whether a person can type lines and read what comes of them.
func (s *Session) onTerminal() bool { return render.IsTerminal(s.stdin) && render.IsTerminal(s.stdout) }

// runShellProcess is `ringcli shell`: without a ring to begin with.
func runShellProcess(ctx context.Context, s *Session, call Call) error {
	script, err := readScript(s, call.Flags)
	if err != nil {
		return err
	}
	if script == "" {
		if err := s.openShell(call.Table); err != nil {
			return err
		}
		err = s.runShell(ctx)
	} else {
		if err := s.checkScript(ctx, call.Table, script, s.ranksHere()); err != nil {
			return err
		}
		s.interactive = true // a ring of its own, whatever the others run
		err = s.runScript(ctx, call.Table, script)
	}
	return s.leave(ctx, err, orderEnd)
}

// inRing joins the ring, runs do, and leaves.
func (s *Session) inRing(ctx context.Context, do func(context.Context) error) error {
	if err := s.join(ctx, 0); err != nil {
		return err
	}
	return s.leave(ctx, do(ctx), orderEnd)
}

// connectCommand is `ringcli connect`.
func connectCommand() Command {
	return Command{
		Name: "connect", Group: groupRing, Where: Process,
		Summary: "Join a ring as one of its ranks",
		Long: `Joins the ring of --list as rank --index, together with the other ranks, which
may start in any order, and runs the commands of -c or -f there. Without either,
on a terminal, it is a shell; elsewhere, and with --check, it runs the
self-check: a ping of each neighbour, then reduce-scatter, all-gather and
all-reduce, each by every algorithm and under every protocol that the ring has,
with every element of every rank verified. With --follow a rank takes the
commands of rank 0, in its shell or its script.

The C programs' spelling "-myindex 0 -list a,b" is understood.

` + lineHelp,
		Example: `  ringcli connect --index 0 --list node0,node1,node2
  ringcli connect --index 1 --list @hosts -c 'ping; all-reduce --check'`,
		Settings: settingsOfRing,
		Flags: func(fs *pflag.FlagSet) {
			scriptFlags(fs)
			fs.Bool("follow", false, "take the commands of rank 0, which leads; on loopback addresses only")
			faultFlag(fs)
			childFlags(fs)
		},
		Run: runConnect,
	}
}

// shellProcessCommand is `ringcli shell`.
func shellProcessCommand() Command {
	return Command{
		Name: "shell", Group: groupRing, Where: Process,
		Summary: "The shell before any ring: walk the bring-up step by step",
		Long: `Starts the shell without a ring: query looks at devices, and open, init,
exchange, rtr and rts walk a bring-up step by step, together with the shells of
the other nodes. A rank that runs ringcli connect ends with a ping of all ranks
at once: ping --all is the walker's part in it. With -c or -f it runs the
commands and ends. Lines are those of -c; help lists them.`,
		Example: `  ringcli shell --index 0 --list node0,node1
  ringcli shell --index 0 --list a,b -c 'open; init; exchange; rtr; rts'`,
		Settings: settingsOfRing, Flags: lineFlags, Run: runShellProcess,
	}
}

// lineHelp says which commands there are for -c and -f.
const lineHelp = `Commands of -c and -f are separated by ';': self-check, ping, status, counters,
all-reduce, reduce-scatter, all-gather, bench, expect and more. -c help lists
them all, -c 'help COMMAND' shows the flags of one.`
