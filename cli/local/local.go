package local

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/cli/connect"
	"ringcli/cli/exit"
	"ringcli/cli/lines"
	"ringcli/cli/session"
	"ringcli/cli/shell"
	"ringcli/verbs"
)

// RanksFlag says how many ranks to run on this machine.
func RanksFlag(fs *pflag.FlagSet, ranks int64) {
	command.NumberFlag(fs, "ranks", "n", ranks, min(ranks, 1), maxLocalRanks, "how many ranks to run on this machine",
		"ranks to run on this machine, each a process with an address of its own")
}

func runLocal(ctx context.Context, s *session.Session, call command.Call) error {
	script, err := connect.ReadScript(s, call.Flags)
	if err != nil {
		return err
	}
	n := command.NumberOf(call.Flags, "ranks")
	if command.IsOn(call.Flags, "shell") {
		if script != "" || command.IsOn(call.Flags, "check") {
			return exit.Usagef("--shell with -c, -f or --check: expected it alone")
		}
		return localShell(ctx, s, call.Table, n, append([]string{"connect", "--follow"}, ChangedFlags(call.Flags, notForRanks...)...))
	}
	both := script == "" && !s.Config.IsSet("device") && s.Config.String("inject") == verbs.NoFaults // which shared memory has none of
	if script == "" {
		script = connect.SelfCheckName
	}
	if err := lines.Check(ctx, s, call.Table, script, n); err != nil {
		return err
	}
	args := append([]string{"connect"}, ChangedFlags(call.Flags, notForRanks...)...)
	args = append(args, "--command="+script)
	if both {
		return selfCheck(ctx, s, n, args)
	}
	return Run(ctx, s, n, args)
}

// notForRanks are the flags of local that are not passed on.
var notForRanks = []string{"ranks", "command", "file", "check", "shell"}

// localShell is a shell as rank 0, which leads the other ranks: processes of this
// machine.
func localShell(ctx context.Context, s *session.Session, table *command.Table, n int, args []string) (err error) {
	net, err := ClaimSubnets(n, s.Config.Int("tcp-port"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, net.Close()) }()
	if err := shell.Open(s, table); err != nil {
		return err
	}
	s.Local = true
	for name, value := range map[string]string{"list": net.List(), "index": "0"} {
		if s.Config, err = s.Config.With(name, value); err != nil {
			return err
		}
	}
	f, err := startProcesses(s, 1, n, args, net.List(), nil)
	if err != nil {
		return err
	}
	// The followers end when the leader says so, or when their pipe does.
	over := make(chan error, 1)
	gone, cancel := context.WithCancelCause(ctx)
	t := &tended{make(chan revival), make(chan struct{}), reviveWithin}
	go func() { over <- f.tend(gone, t) }()
	s.Place.Revive = t.revive
	err = connect.InRing(ctx, s, func(ctx context.Context) error { return shell.Run(ctx, s) })
	close(t.left)
	if err != nil {
		cancel(err)
	}
	select {
	case ended := <-over:
		cancel(nil)
		if err == nil && !exit.IsInterruption(exit.Code(ended)) {
			err = ended
		}
	case <-time.After(killAfter):
		cancel(exit.ErrInterrupted)
		err = errors.Join(err, <-over)
	}
	return err
}

// Run runs n ranks of a ring as processes with these arguments, which
// --index, --list and the pipe are added to. It returns when all have ended.
func Run(ctx context.Context, s *session.Session, n int, args []string) error {
	return run(ctx, s, n, args, nil)
}

// run is Run with the end of a pipe that rank 0 reports to; it is closed here.
func run(ctx context.Context, s *session.Session, n int, args []string, report *os.File) (err error) {
	defer func() {
		if report != nil {
			err = errors.Join(err, report.Close())
		}
	}()
	net, err := ClaimSubnets(n, s.Config.Int("tcp-port"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, net.Close()) }()
	f, err := startProcesses(s, 0, n, args, net.List(), report)
	if err != nil {
		return err
	}
	return f.wait(ctx)
}

// Row is `ringcli local`.
func Row() command.Row {
	return command.Row{
		Name: "local", Group: command.GroupRing, Where: command.Process,
		Summary: "Run all ranks of a ring on this machine, as processes",
		Long: `Starts -n processes on this machine, each with a loopback address of its own in
fresh subnets of 127.0.0.0/8, and runs the commands of -c or -f on all of them,
or the self-check (see connect). Where no device is named that runs over soft,
which sends RoCEv2 packets, and then over what ranks of one host take by
themselves, shared memory; the last line is the sum of both. Rank 0's output is
shown; the exit code is that of the rank that fared worst.

Hundreds of ranks show that a script works at that size, and nothing of its
speed: each takes 14 MiB and waits for its turn of a CPU.

` + connect.LineHelp,
		Example: `  ringcli local -n 4
  ringcli local -n 4 --shell
  ringcli local -n 2 -c 'all-reduce --protocol rendezvous-read --check'`,
		Settings: session.Without(session.RingSettings, session.LaunchSettings...),
		Flags: func(fs *pflag.FlagSet) {
			RanksFlag(fs, 4)
			connect.ScriptFlags(fs)
			fs.Bool("shell", false, "a shell as rank 0, which leads the other ranks")
		},
		Run: runLocal,
	}
}

// ChangedFlags returns the flags that were given, as arguments.
func ChangedFlags(flags *pflag.FlagSet, except ...string) []string {
	var args []string
	flags.Visit(func(f *pflag.Flag) {
		if !slices.Contains(except, f.Name) {
			args = append(args, "--"+f.Name+"="+f.Value.String())
		}
	})
	return args
}
