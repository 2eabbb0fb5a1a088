package command

import (
	"cmp"
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
		case c.Where&where == 0:
		case c.Name == "help":
			root.SetHelpCommand(t.cobraCommand(c, run))
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

func (t *Table) cobraCommand(c Row, run RunFunc) *cobra.Command {
	cmd := &cobra.Command{
		Use: c.Use(), Aliases: c.Aliases, GroupID: c.Group, Short: c.Summary, Long: cmp.Or(c.Long, c.Summary+"."), Example: c.Example,
		ValidArgsFunction: completeArgs(c), DisableFlagsInUseLine: true,
		Args: func(cmd *cobra.Command, args []string) error { return c.checkArgs(helpLine(cmd), args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			return run(cmd.Context(), c, Call{Name: c.Name, Flags: cmd.Flags(), Args: args, Table: t, Tree: cmd.Root()})
		},
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

// LineTree makes the cobra commands of a line of a script or of the shell.
func (t *Table) LineTree(w io.Writer, run RunFunc) *cobra.Command {
	root := t.Tree(&cobra.Command{Use: lineRoot, Short: "Commands of a ring"}, Line, run)
	root.SetOut(w)
	root.SetErr(w)
	return root
}
