package command

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ringcli/cli/exit"
	"ringcli/cli/session"
	"ringcli/cli/topics"
	"ringcli/configs"
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
	// together (Session.stopping), before it is cancelled.
	Stops bool
	// Claims: the command uses the queue pairs or changes the ring, so nothing
	// else may at the same time. What needs a ring that is ready does so, too.
	Claims bool
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
	Check func(s *session.Session, call Call, ranksHere int) error
	Run   func(context.Context, *session.Session, Call) error
}

// Call is how a command was given.
type Call struct {
	Name  string // the command's own name, whatever alias was used
	Flags *pflag.FlagSet
	Args  []string
	Led   bool // by this rank, for all
	Table *Table
	// Tree is what the command was found in.
	Tree *cobra.Command
}

// Use returns the command's name with its arguments' names.
func (c Row) Use() string { return strings.TrimSpace(c.Name + " [flags] " + c.Args) }

// Table is the command table. It is made once, and only read then.
type Table struct {
	Rows []Row // in the order of help
	// completions are what flags complete to, by the name that their declaration gives.
	completions map[string]completion
}

// NewTable returns an empty table, which knows the completions that need no room.
func NewTable() *Table {
	t := &Table{}
	t.completions = map[string]completion{
		"nothing": wordsOnly(func(*cobra.Command, []string) []string { return nil }),
		"words":   wordsOnly(func(_ *cobra.Command, args []string) []string { return args }),
		// Several of the words, separated by commas.
		"list": func(_ *cobra.Command, typed string, args []string) ([]string, cobra.ShellCompDirective) {
			return listOf(typed, args), cobra.ShellCompDirectiveNoFileComp
		},
		// Files, of the extensions if any are given.
		"files": func(_ *cobra.Command, _ string, args []string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return args, cobra.ShellCompDirectiveFilterFileExt
		},
		"sizes":    wordsOnly(func(*cobra.Command, []string) []string { return sizeWords }),
		"ranks":    wordsOnly(func(cmd *cobra.Command, _ []string) []string { return rankWords(cmd) }),
		"hosts":    completeHosts,
		"levels":   completeLevels,
		"commands": wordsOnly(func(*cobra.Command, []string) []string { return t.lineCommandWords() }),
	}
	return t
}

// Add appends rows.
func (t *Table) Add(rows ...Row) { t.Rows = append(t.Rows, rows...) }

// Complete says what flags complete to that are declared with a name.
func (t *Table) Complete(name string, words func(cmd *cobra.Command) []string) {
	t.completions[name] = wordsOnly(func(cmd *cobra.Command, _ []string) []string { return words(cmd) })
}

// Tree makes the cobra commands of one place. run is called for the one
// that is chosen.
func (t *Table) Tree(root *cobra.Command, where Where, run func(context.Context, Row, Call) error) *cobra.Command {
	// The order of the table is the order of help.
	cobra.EnableCommandSorting = false
	for _, g := range t.groupsAt(where) {
		root.AddGroup(&cobra.Group{ID: g.ID, Title: g.Title})
	}
	for _, c := range t.Rows {
		switch {
		case c.Where&where == 0:
		case c.Name == "help":
			root.SetHelpCommand(t.cobraCommand(c, run))
		default:
			root.AddCommand(t.cobraCommand(c, run))
		}
	}
	if where == Process { // in a line, the command help has them
		for _, t := range topics.All() {
			root.AddCommand(&cobra.Command{Use: t.Name, Short: t.Summary, Long: t.Text})
		}
	}
	// Flags' descriptions are wrapped at 80 columns.
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages |", ".FlagUsagesWrapped 80 |"))
	t.completeOnRequest(root)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.Args = cobra.ArbitraryArgs // so that RunE words the error
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return Unknown(cmd, args[0])
	}
	root.SuggestionsMinimumDistance = 2 // cobra's own default, which it sets too late for us
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommandGroupID(map[Where]string{Process: GroupProgram, Line: GroupShell}[where])
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return exit.Usagef("%s: %s; `%s` lists the flags", cmd.Name(), flagError(err), helpLine(cmd))
	})
	return root
}

// lineRoot is the name of the root of a line's commands: what usage begins with.
const lineRoot = "ring>"

// helpLine is how to ask for a command's help where it was given.
func helpLine(cmd *cobra.Command) string {
	if cmd.Root().Name() == lineRoot {
		return "help " + cmd.Name()
	}
	return cmd.CommandPath() + " --help"
}

func (t *Table) cobraCommand(c Row, run func(context.Context, Row, Call) error) *cobra.Command {
	cmd := &cobra.Command{
		Use: c.Use(), Aliases: c.Aliases, GroupID: c.Group, Short: c.Summary, Long: c.Long, Example: c.Example,
		ValidArgs: c.Words, DisableFlagsInUseLine: true,
		Args: func(cmd *cobra.Command, args []string) error { return c.checkArgs(helpLine(cmd), args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			return run(cmd.Context(), c, Call{Name: c.Name, Flags: cmd.Flags(), Args: args, Table: t, Tree: cmd.Root()})
		},
	}
	if cmd.Long == "" {
		cmd.Long = c.Summary + "."
	}
	if c.Complete != nil {
		cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if c.Files {
				return c.Complete(args), cobra.ShellCompDirectiveDefault
			}
			return c.Complete(args), cobra.ShellCompDirectiveNoFileComp
		}
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().SetInterspersed(!c.Verbatim)
	if c.Flags != nil {
		c.Flags(cmd.Flags())
	}
	if len(c.Settings) > 0 {
		configs.AddFlags(cmd.Flags(), c.Settings...)
	}
	return cmd
}

func (c Row) checkArgs(help string, args []string) error {
	if c.CheckArgs != nil {
		return c.CheckArgs(args)
	}
	if len(args) > 0 {
		return exit.Usagef("%s: unexpected argument %q: expected none; `%s` shows the usage", c.Name, args[0], help)
	}
	return nil
}

// flagError is pflag's message in one line, and with what was expected in place
// of what a parser of the standard library says.
func flagError(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	given, reason, found := strings.Cut(text, ": ")
	switch {
	case found && strings.HasPrefix(reason, "strconv.ParseInt"):
		return given + ": expected a whole number"
	case found && strings.HasPrefix(reason, "strconv.ParseBool"):
		return given + ": expected true or false"
	case found && strings.HasPrefix(reason, "time: "):
		return given + ": expected a duration with its unit, such as 500ms or 30s"
	}
	return text
}

// Unknown refuses a command that a tree has not, with the nearest that it has.
func Unknown(root *cobra.Command, given string) error {
	var known []string
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			known = append(known, c.Name())
		}
	}
	hint := ""
	if near := root.SuggestionsFor(given); len(near) > 0 {
		hint = fmt.Sprintf("; did you mean %s?", near[0])
	}
	return exit.Usagef("unknown command %q: expected one of %s%s", given, strings.Join(known, ", "), hint)
}

// Find returns the command of a name or alias at a place.
func (t *Table) Find(name string, where Where) (Row, bool) {
	for _, c := range t.Rows {
		if c.Where&where != 0 && (c.Name == name || slices.Contains(c.Aliases, name)) {
			return c, true
		}
	}
	return Row{}, false
}

// LineTree makes the cobra commands of a line of a script or of the shell.
func (t *Table) LineTree(w io.Writer, run func(context.Context, Row, Call) error) *cobra.Command {
	root := t.Tree(&cobra.Command{Use: lineRoot, Short: "Commands of a ring"}, Line, run)
	root.SetOut(w)
	root.SetErr(w)
	return root
}
