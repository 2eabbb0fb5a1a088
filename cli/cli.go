// Package cli is the command line: one table of commands, from which cobra's
// commands, the commands of -c and -f, help and completion are made; results as
// records, which package render writes; exit codes; and `local`, which runs all
// ranks of a ring as processes of this machine.
package cli

import (
	"context"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"ringcli/cli/render"
	"ringcli/configs"
)

// Main runs one command line, without the program's name, and returns the exit
// code. A second Ctrl-C ends the process at once.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, signals := catchSignals(context.Background())
	defer signals.release()
	return newInvocation(stdin, stdout, stderr, signals).run(ctx, args)
}

// invocation is one run of ringcli: the command table, and the session that a
// command of the process has.
type invocation struct {
	*Session
	table *Table
}

func newInvocation(stdin io.Reader, stdout, stderr io.Writer, signals *signals) *invocation {
	h := &handwork{}
	return &invocation{newSession(stdin, stdout, stderr, signals, h), commandTable(h)}
}

// commandTable makes the command table. The order is that of help.
func commandTable(h *handwork) *Table {
	t := newTable()
	t.add(connectCommand(), localCommand(),
		asProcess(benchCommand(), "  ringcli bench all-reduce -n 4 -b 8 -e 64M -f 2\n  ringcli bench p2p -n 2"),
		asProcess(tuneCommand(), "  ringcli tune -n 4\n  ringcli tune --index 0 --list node0,node1 --save cluster.json"))
	t.add(pingpongCommands()...)
	t.add(labCommands()...)
	t.add(stepCommands()...)
	t.add(handCommands(h)...)
	t.add(expectCommand())
	t.add(ringCommands()...)
	t.add(deviceCommands()...)
	t.add(aboutCommands()...)
	t.add(traceCommands()...)
	t.add(shellProcessCommand(), t.helpCommand())
	t.add(shellCommands()...)
	t.complete("regions", func(*cobra.Command) []string { return h.regionNames() })
	t.complete("devices", deviceWords)
	t.complete("gids", gidWords)
	return t
}

func (i *invocation) run(ctx context.Context, args []string) int {
	s := i.Session
	args = rewriteArgs(args)
	name := "ringcli"
	root := i.table.cobraTree(newRoot(s.stdout, s.stderr), Process, func(ctx context.Context, c Command, call Call) error {
		name = c.Name
		return s.runProcess(ctx, c, call)
	})
	root.SetArgs(args)
	chosen, err := root.ExecuteContextC(ctx)
	if s.parent != nil {
		ctx = s.parent.ctx
	}
	err = interrupted(ctx, err)
	if err == nil {
		return ExitOK
	}
	if chosen != nil && chosen != root {
		name = strings.TrimPrefix(chosen.CommandPath(), "ringcli ")
	}
	code := ExitCode(err)
	if s.Out == nil { // the configuration was not read
		format := givenValue(args, "--output")
		if format == "" {
			format = os.Getenv("RINGCLI_OUTPUT")
		}
		s.Out = render.New(s.stdout, render.Format(format))
	}
	s.report(name, err, code)
	return code
}

func newRoot(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   "ringcli",
		Short: "An RDMA ring: bring it up, run collectives over it, find what is wrong",
		Long: `ringcli brings up an RDMA ring, runs reduce-scatter, all-gather and all-reduce
over it with the protocol of your choice, and says which link or rank is at
fault when something is wrong. With no RDMA hardware it speaks RoCEv2 in user
space.

Start with: ringcli local -n 4`,
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	flags := root.PersistentFlags()
	flags.SortFlags = false
	flags.String("config", "", "configuration file (default: ./ringcli.yaml, the user's, /etc/ringcli/config.yaml)")
	offers(flags, "config", "files", "yaml", "yml")
	configs.AddFlags(flags, settingsOfEvery...)
	return root
}

// runProcess loads the configuration and runs a command of the process.
func (s *Session) runProcess(ctx context.Context, c Command, call Call) error {
	file, err := call.Flags.GetString("config")
	if err != nil {
		return err
	}
	if s.Config, err = configs.Load(call.Flags, file); err != nil {
		return err
	}
	s.Out = render.New(s.stdout, render.Format(s.Config.String("output")))
	if err := s.setTrace(); err != nil {
		return err
	}
	if err := s.adopt(ctx, call.Flags); err != nil {
		return err
	}
	if s.parent != nil {
		ctx = s.parent.ctx
	}
	return c.Run(ctx, s, call)
}
