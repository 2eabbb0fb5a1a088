package cli

import (
	"context"
	"io"
	"slices"

	"github.com/spf13/pflag"

	"ringcli/cli/render"
	"ringcli/ring/bootstrap"
)

// selfCheckName is the command that stands in for no script.
const selfCheckName = "self-check"

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
		return s.followLeader(ctx)
	case script == "" && !check && s.onTerminal():
		if err := s.openShell(); err != nil {
			return err
		}
		return s.inRing(ctx, s.runShell)
	case script == "":
		script = selfCheckName
	}
	if err := s.checkScript(ctx, script, s.ranksHere()); err != nil {
		return err
	}
	return s.inRing(ctx, func(ctx context.Context) error { return s.runScript(ctx, script) })
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
		if err := s.openShell(); err != nil {
			return err
		}
		err = s.runShell(ctx)
	} else {
		if err := s.checkScript(ctx, script, s.ranksHere()); err != nil {
			return err
		}
		s.interactive = true // a ring of its own, whatever the others run
		err = s.runScript(ctx, script)
	}
	return s.leave(ctx, err, orderEnd)
}

// takeFault notes what --corrupt asks for.
func (s *Session) takeFault(fs *pflag.FlagSet) {
	f := value[fault](fs, "corrupt")
	s.fault = &f
}

// inRing joins the ring, runs do, and leaves.
func (s *Session) inRing(ctx context.Context, do func(context.Context) error) error {
	if err := s.join(ctx, 0); err != nil {
		return err
	}
	return s.leave(ctx, do(ctx), orderEnd)
}

// ranksHere is how many ranks will share this machine's memory, for checks
// before there is a ring; 1 if the list cannot be read, which joining reports.
func (s *Session) ranksHere() int {
	nodes, err := bootstrap.ParseListPort(s.Config.String("list"), s.Config.Int("tcp-port"))
	index := s.Config.Int("index")
	if err != nil || index < 0 || index >= len(nodes) {
		return 1
	}
	return ranksOn(nodes, index)
}

func ranksOn(nodes []bootstrap.Node, index int) int {
	here := 0
	for _, n := range nodes {
		if n.Host == nodes[index].Host || isLoopback(n.Host) && isLoopback(nodes[index].Host) {
			here++
		}
	}
	return here
}

func isLoopback(host string) bool {
	return slices.Contains([]string{"localhost", "::1"}, host) || len(host) > 4 && host[:4] == "127."
}
