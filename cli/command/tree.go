package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ringcli/cli/exit"
	"ringcli/cli/topics"
	"ringcli/configs"
)

// The order of the table is the order of help.
func init() { cobra.EnableCommandSorting = false }

// Tree makes the cobra commands of one place. run is called for the one
// that is chosen.
func (t *Table) Tree(root *cobra.Command, where Where, run RunFunc) *cobra.Command {
	for _, g := range t.groupsAt(where) {
		root.AddGroup(&cobra.Group{ID: g.ID, Title: g.Title})
	}
	for _, c := range t.Rows {
		switch {
		case c.Name == "help": // in the process, too, whatever its configuration says
			root.SetHelpCommand(t.cobraCommand(c, func(ctx context.Context, c Row, call Call) error { return c.Run(ctx, nil, call) }))
		case c.Where&where == 0:
		default:
			root.AddCommand(t.cobraCommand(c, run))
		}
	}
	if where == Process { // in a line, the command help has them
		for _, t := range topics.All() {
			root.AddCommand(&cobra.Command{Use: t.Name, Short: t.Summary, Long: t.Text, ValidArgsFunction: cobra.NoFileCompletions})
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
		return t.Unknown(cmd, args[0])
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommandGroupID(map[Where]string{Process: GroupProgram, Line: GroupShell}[where])
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if given := cmd.Flags().Args(); cmd == root && len(given) > 0 { // whose flag it is, if it is a command
			return t.Unknown(root, given[0])
		}
		return exit.Usagef("%s; `%s` lists the flags", flagError(err), helpLine(cmd))
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

func (t *Table) cobraCommand(c Row, run RunFunc) *cobra.Command {
	cmd := &cobra.Command{
		Use: c.Use(), Aliases: c.Aliases, GroupID: c.Group, Short: c.Summary, Long: cmp.Or(c.Long, c.Summary+"."), Example: c.Example,
		ValidArgsFunction: completeArgs(c), DisableFlagsInUseLine: true,
		Args: func(cmd *cobra.Command, args []string) error { return c.checkArgs(helpLine(cmd), args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			return run(cmd.Context(), c, Call{Name: c.Name, Flags: cmd.Flags(), Args: args, Table: t, Tree: cmd.Root()})
		},
	}
	c.declare(cmd.Flags())
	return cmd
}

// declare declares the command's flags in a set that is empty.
func (c Row) declare(fs *pflag.FlagSet) {
	fs.SortFlags = false
	fs.SetInterspersed(!c.Verbatim)
	if c.Flags != nil {
		c.Flags(fs)
	}
	if len(c.Settings) > 0 {
		configs.AddFlags(fs, c.Settings...)
	}
}

// flagError is pflag's message in one line, and with what was expected in place
// of what a parser of the standard library says.
func flagError(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return text
	}
	given := strings.TrimSuffix(text, invalid.Unwrap().Error())
	var number *strconv.NumError
	value := invalid.GetFlag().Value
	_, ours := value.(interface{ Words() []string }) // which says itself what it expects
	switch isNumber := errors.As(err, &number); {
	case isNumber && number.Func == "ParseInt":
		return given + "expected a whole number"
	case isNumber && number.Func == "ParseBool":
		return given + "expected true or false"
	case !ours && value.Type() == "duration":
		return given + "expected a duration with its unit, such as 500ms or 30s"
	}
	return text
}

// Unknown refuses a command that a tree has not: it says where there is such a one, or
// which is the nearest, here or there.
func (t *Table) Unknown(root *cobra.Command, given string) error {
	here, there, help := placeOf(root), Process, "help"
	if here == Process {
		there, help = Line, "ringcli help"
	}
	if c, found := t.Find(given, there); found {
		return exit.Usagef("%s %s", given, c.given(there))
	}
	near, edits := t.nearest(given, here)
	other, otherEdits := t.nearest(given, there)
	switch {
	case edits >= 0 && (otherEdits < 0 || edits <= otherEdits):
		return exit.Usagef("unknown command %q: did you mean %s? `%s` lists the commands", given, near.Name, help)
	case otherEdits >= 0:
		return exit.Usagef("unknown command %q: did you mean %s? it %s", given, other.Name, other.given(there))
	}
	return exit.Usagef("unknown command %q: `%s` lists the commands", given, help)
}

func placeOf(root *cobra.Command) Where {
	if root.Name() == lineRoot {
		return Line
	}
	return Process
}

// given says how a command is given at a place, to somebody who is not there.
func (c Row) given(where Where) string {
	switch {
	case where == Process:
		return "is a command of its own: ringcli " + c.Name
	case c.Typed:
		return "is for the shell: ringcli local -n 2 --shell"
	}
	return fmt.Sprintf("is given to the ranks of a ring: ringcli local -n 2 -c %s, or ringcli connect --index I --list A,B -c %[1]s", c.Name)
}

// nearest returns the command of a place whose name takes the fewest edits; a name that
// is not written out takes one. Without one that is near the edits are -1.
func (t *Table) nearest(given string, where Where) (near Row, edits int) {
	least, most := min(3, len(given)/2)+1, min(3, len(given)/2)
	for _, c := range t.Rows {
		for _, name := range append([]string{c.Name}, c.Aliases...) {
			edits := configs.EditDistance(given, name)
			if len(given) > 1 && strings.HasPrefix(name, given) {
				edits = 1
			}
			if (c.Where&where != 0 || c.Name == "help") && edits < least { // which is everywhere
				near, least = c, edits
			}
		}
	}
	if least > most {
		return near, -1
	}
	return near, least
}

// LineTree makes the cobra commands of a line of a script or of the shell.
func (t *Table) LineTree(w io.Writer, run RunFunc) *cobra.Command {
	root := t.Tree(&cobra.Command{Use: lineRoot, Short: "Commands of a ring"}, Line, run)
	root.SetOut(w)
	root.SetErr(w)
	return root
}
