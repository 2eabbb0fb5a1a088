// Package cli is the command line: it puts the command table together from the rows
// that each room below it has, and runs one command line with it. The rooms of commands
// (hand, bench, shell, ...) stand on what all of them work with: command, session, lines.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ringcli/cli/about"
	"ringcli/cli/backends"
	"ringcli/cli/bench"
	"ringcli/cli/command"
	"ringcli/cli/connect"
	"ringcli/cli/devices"
	"ringcli/cli/doctor"
	"ringcli/cli/exit"
	"ringcli/cli/failure"
	"ringcli/cli/hand"
	"ringcli/cli/lab"
	"ringcli/cli/ledger"
	"ringcli/cli/links"
	"ringcli/cli/local"
	"ringcli/cli/path"
	"ringcli/cli/pingpong"
	"ringcli/cli/render"
	"ringcli/cli/report"
	"ringcli/cli/schema"
	"ringcli/cli/session"
	"ringcli/cli/shell"
	"ringcli/cli/tracing"
	"ringcli/cli/transport"
	"ringcli/configs"
	launching "ringcli/ring/bootstrap/launch"
	"ringcli/verbs"
)

func init() {
	configs.Check("csv-table", func(text string) error {
		if names := append([]string{render.FirstTable, render.AllTables}, schema.Names()...); !slices.Contains(names, text) {
			return fmt.Errorf("there is no table %q: expected one of %s", text, strings.Join(names, ", "))
		}
		return nil
	})
	configs.Check("inject", func(text string) error {
		_, err := verbs.ParseFaults(text)
		return err
	})
}

// Main runs one command line, without the program's name, and returns the exit
// code. A second Ctrl-C ends the process at once.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return MainWith(session.DefaultOptions(), args, stdin, stdout, stderr)
}

// MainWith is Main with other options than the defaults.
func MainWith(o session.Options, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	token := session.TakeToken()
	ctx, code, kept, err := launching.Keep(context.Background(), exit.ErrInterrupted, session.TokenVar+"="+string(token))
	if kept {
		return code
	}
	ctx, signals := exit.CatchSignals(ctx)
	defer signals.Release()
	i := newInvocation(stdin, stdout, stderr, signals, token)
	i.Options = o
	if err != nil {
		return i.report("ringcli", err, args)
	}
	return i.run(ctx, args)
}

// invocation is one run of ringcli: the command table, and the session that a
// command of the process has.
type invocation struct {
	*session.Session
	table *command.Table
}

func newInvocation(stdin io.Reader, stdout, stderr io.Writer, signals *exit.Signals, token []byte) *invocation {
	h := &hand.Work{}
	s := session.New(stdin, stdout, stderr, signals, h)
	s.Secrets.Set(token)
	s.Version = about.Version()
	return &invocation{s, commandTable(h, s.Place)}
}

// commandTable makes the command table. The order is that of help.
func commandTable(h *hand.Work, place *session.Place) *command.Table {
	t := command.NewTable()
	t.Add(connect.Row(), local.Row(),
		bench.AsProcess(bench.Row(), "  ringcli bench all-reduce -n 4 -b 8 -e 64M -f 2\n  ringcli bench p2p -n 2"),
		bench.AsProcess(bench.TuneRow(), "  ringcli tune -n 4\n  ringcli tune --index 0 --list node0,node1 --save cluster.json"))
	t.Add(bench.AsProcess(links.Row(), "  ringcli links -n 4\n  ringcli links --index 0 --list @hosts --good up --bad down"))
	t.Add(pingpong.Rows()...)
	t.Add(transport.Rows()...)
	t.Add(lab.Rows()...)
	t.Add(hand.StepRows()...)
	t.Add(hand.Rows(h)...)
	t.Add(shell.ExpectRow())
	t.Add(bench.Rows()...)
	t.Add(links.Row())
	t.Add(devices.Rows()...)
	t.Add(backends.Row())
	t.Add(doctor.Rows()...)
	t.Add(path.Row())
	t.Add(links.ModelRow())
	t.Add(report.Rows()...)
	t.Add(about.Rows()...)
	t.Add(tracing.Rows()...)
	t.Add(connect.ShellRow(), t.HelpRow())
	t.Add(shell.Rows()...)
	t.Complete("tables", func(cmd *cobra.Command) []string {
		row, _ := t.Find(cmd.Name(), command.Process)
		return append([]string{render.FirstTable, render.AllTables}, schema.Tables(row.Name, row.Words)...)
	})
	t.Complete("regions", func(*cobra.Command) []string { return h.RegionNames() })
	t.Complete("nodes", func(*cobra.Command) []string { return place.Nodes() })
	t.Complete("devices", devices.Words)
	t.Complete("gids", devices.GIDWords)
	return t
}

func (i *invocation) run(ctx context.Context, args []string) int {
	s := i.Session
	args = rewriteArgs(args)
	name := "ringcli"
	root := i.table.Tree(newRoot(s.Stdout, s.Stderr), command.Process, func(ctx context.Context, c command.Row, call command.Call) error {
		name = c.Name
		return runProcess(ctx, s, c, call)
	})
	root.SetArgs(args)
	err := session.RoomFor(0)
	chosen := root
	if err == nil {
		chosen, err = root.ExecuteContextC(ctx)
	}
	if s.Out != nil && s.Out.LeftOut() != "" {
		_ = render.New(s.Stderr, render.Table).Complain(render.Fair, s.Out.LeftOut())
	}
	if s.Parent != nil {
		s.Parent.Hear()
		ctx = s.Parent.Ctx
	}
	err = exit.OrInterrupted(s.Launcher.Over(ctx), err)
	if err == nil && s.Ledger == nil {
		return exit.OK
	}
	if chosen != nil && chosen != root {
		name = strings.TrimPrefix(chosen.CommandPath(), "ringcli ")
	}
	code := i.report(name, err, args)
	if failed, ok := errors.AsType[*session.BringUpError](err); ok && !exit.IsUsers(err) {
		if err := report.OnFailure(ctx, s, i.table, failed); err != nil {
			i.report(name, err, args)
		}
	}
	if err := s.Ledger.Close(ledger.Run{Command: name, Version: about.Version(), ExitCode: code}); err != nil {
		code = i.report(name, err, args)
	}
	return code
}

// report says why a command failed, if it did, and returns its exit code.
func (i *invocation) report(name string, err error, args []string) int {
	s, code := i.Session, exit.Code(err)
	if err == nil {
		return code
	}
	if s.Out == nil { // the configuration was not read
		format := cmp.Or(givenValue(args, "--output"), os.Getenv("RINGCLI_OUTPUT"))
		s.Out = render.New(s.Stdout, render.Format(format))
	}
	if exit.IsInterruption(code) {
		err = cmp.Or(s.Interrupted(err), err)
	}
	failure.Report(s, name, err, code)
	return code
}

func newRoot(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:     "ringcli",
		Version: about.Version(),
		Short:   "An RDMA ring: bring it up, run collectives over it, find what is wrong",
		Long: `ringcli brings up an RDMA ring, runs reduce-scatter, all-gather, all-reduce,
broadcast, reduce and barrier over it with the protocol of your choice, and says
which link or rank is at fault when something is wrong. With no RDMA hardware it
speaks RoCEv2 in user space.

Start with: ringcli local -n 4`,
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	flags := root.PersistentFlags()
	flags.SortFlags = false
	flags.String("config", "", "configuration file (default: ./ringcli.yaml, the user's, /etc/ringcli/config.yaml)")
	command.Completes(flags, "config", "files", "yaml", "yml")
	configs.AddFlags(flags, session.ProcessSettings...)
	return root
}

// runProcess loads the configuration and runs a command of the process.
func runProcess(ctx context.Context, s *session.Session, c command.Row, call command.Call) error {
	file, err := call.Flags.GetString("config")
	if err != nil {
		return err
	}
	if file == "" && call.Flags.Changed("config") {
		return exit.Usagef("--config \"\": expected a file; is a variable not set?")
	}
	var found *configs.FoundFileError
	s.Config, err = configs.Load(call.Flags, file)
	if sample := call.Flags.Lookup("sample"); (len(c.Settings) == 0 || sample != nil && sample.Changed) && errors.As(err, &found) {
		_ = render.New(s.Stderr, render.Table).Complain(render.Fair, fmt.Sprintf("%v; %s does without the file", found, c.Name))
		s.Config, err = configs.Load(call.Flags, os.DevNull)
	}
	if err != nil {
		return err
	}
	if !session.IsChild(call.Flags) { // whose parent has reported it
		for _, why := range s.Config.Ignored() {
			_ = render.New(s.Stderr, render.Table).Complain(render.Fair, why.Error())
		}
	}
	err = s.OpenLedger(call.Flags, ledger.Run{Command: c.Name, Version: about.Version()})
	s.Out = s.Printer()
	if err != nil {
		return err
	}
	if headed, err := call.Flags.GetInt(session.HeadedFlag); err == nil && headed > 0 {
		s.Out.SetHeaded()
	}
	if output := s.Config.Get("output"); output.Value == string(render.NCCLTests) && !c.NCCLTests {
		return exit.Usagef("%s: output is %s (from %s), which is nccl-tests' table of a collective: expected table, json or csv; `ringcli bench all-reduce --output %[2]s` prints it", c.Name, output, output.Origin)
	}
	if err := s.SetTrace(); err != nil {
		return err
	}
	if err := s.Adopt(ctx, call.Flags); err != nil {
		return err
	}
	if s.Parent != nil {
		ctx = s.Parent.Ctx
	}
	return c.Run(ctx, s, call)
}
