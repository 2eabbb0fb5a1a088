package command

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ringcli/cli/exit"
	"ringcli/cli/session"
)

// Where is where a command can be given.
type Where uint8

const (
	// Process: as `ringcli NAME`.
	Process Where = 1 << iota
	// Line: as a line of a script (-c, -f) or of the shell.
	Line
)

// Needs is what must be there before a command can run.
type Needs uint8

const (
	// Nothing: it runs without a ring.
	Nothing Needs = iota
	// Opened: the device is open and the control ring listens.
	Opened
	// Ready: the ring can compute.
	Ready
)

// Concurrency is what may run at the same time as a command.
type Concurrency uint8

const (
	// ByNeeds: a command that needs a ring that is Ready has the ring in its turn, and may
	// run in the background. Any other command runs at any time, in front.
	ByNeeds Concurrency = iota
	// Lasting: the command does not use the ring itself, and may run in the background.
	Lasting
	// Exclusive: the command uses the queue pairs or changes the ring. It has the ring in
	// its turn, in front.
	Exclusive
)

// The groups of commands, in the order that help shows them.
const (
	GroupRing       = "ring"
	GroupCollective = "collective"
	GroupLook       = "look"
	GroupShell      = "shell"
	GroupProgram    = "program"
)

// Group is a group of commands.
type Group struct{ ID, Title string }

// Groups are all groups, in the order of help.
var Groups = []Group{
	{GroupRing, "Bring up a ring:"},
	{GroupCollective, "Use the ring:"},
	{GroupLook, "Look:"},
	{GroupShell, "The shell:"},
	{GroupProgram, "About this program:"},
}

// Row is one row of the command table: what cobra's commands, the commands
// of -c and -f, help and completion are made from.
type Row struct {
	Name    string
	Aliases []string
	Group   string
	Where   Where
	Summary string // one line, no full stop
	Long    string // help; Summary if empty
	Example string
	// Args names the arguments in usage. Words are what completion offers for
	// the first of them; Complete, if set, finds the words when they are asked for.
	Args     string
	Words    []string
	Complete func(args []string) []string
	// Files: the arguments are files, besides.
	Files bool
	// CheckArgs refuses wrong arguments; nil refuses any.
	CheckArgs func(args []string) error
	// Needs is what a line needs before it can run.
	Needs Needs
	// Own: the command is about this rank alone, even where rank 0 leads the
	// others. Otherwise it runs on all ranks.
	Own bool
	// Stops: Ctrl-C asks the command to stop at its next boundary, on all ranks
	// together (Session.Stopping), before it is cancelled.
	Stops bool
	// Concurrency is what may run at the same time.
	Concurrency Concurrency
	// Diagnoses: the command needs Ready for its ranks to talk alone, and no data path. Where no ring
	// comes up it runs over TCP, or on this node.
	Diagnoses bool
	// Typed: the command is about the shell, and there is none in -c and -f.
	Typed bool
	// NCCLTests: --output nccl-tests can be given.
	NCCLTests bool
	// Harmless: an empty line in the shell may run it again.
	Harmless bool
	// Verbatim: what follows the first argument is taken as it is, flags too.
	Verbatim bool
	// Settings are the settings of package configs that are flags here too.
	Settings []string
	// Flags declares the flags that are no settings; may be nil.
	Flags func(*pflag.FlagSet)
	// Check refuses what cannot work before a ring is brought up for it, which
	// has so many ranks on this machine; may be nil.
	Check func(ctx context.Context, s *session.Session, call Call, ranksHere int) error
	Run   func(context.Context, *session.Session, Call) error
}

// RunFunc runs the command of a row that was called.
type RunFunc func(context.Context, Row, Call) error

// Call is how a command was given.
type Call struct {
	Name  string // the command's own name, whatever alias was used
	Flags *pflag.FlagSet
	Args  []string
	Led   bool // by this rank, for all
	// Text is how it was given in a line.
	Text string
	// Turn is its place in the line for the ring, if it has taken one before it runs.
	Turn  *session.Turn
	Table *Table
	// Tree is what the command was found in.
	Tree *cobra.Command
}

// Background refuses a command that cannot run in the background: what changes the ring or
// the shell is done when the next command begins, and what tells of them tells of now.
func (c Row) Background(shell bool) error {
	switch {
	case c.Concurrency == Exclusive && c.Group == GroupRing:
		return exit.Usagef("%s cannot run in the background: it changes the ring, which the commands after it need: expected it without &", c.Name)
	case c.Name == "source" && !shell:
		return exit.Usagef("%s cannot run in the background in -c and -f: its commands would have no order among the others: expected it without &", c.Name)
	case c.Concurrency == Lasting, c.Needs == Ready && c.Concurrency != Exclusive:
		return nil
	}
	return exit.Usagef("%s cannot run in the background: expected it without &, or an operation, a measurement, sleep, source or watch", c.Name)
}

// UsesRing tells whether the command has the ring in its turn.
func (c Row) UsesRing() bool { return c.Concurrency == Exclusive || c.Needs == Ready }

// Use returns the command's name with its arguments' names.
func (c Row) Use() string { return strings.TrimSpace(c.Name + " [flags] " + c.Args) }

func (c Row) checkArgs(help string, args []string) error {
	if c.CheckArgs != nil {
		return c.CheckArgs(args)
	}
	if len(args) > 0 {
		return exit.Usagef("%s: unexpected argument %q: expected none; `%s` shows the usage", c.Name, args[0], help)
	}
	return nil
}
