package command

import (
	"slices"

	"github.com/spf13/cobra"

	"ringcli/cli/render"
	"ringcli/configs"
)

// Table is the command table. It is made once; only the flags that lines use change then.
type Table struct {
	Rows []Row // in the order of help
	// completions are what flags complete to, by the name that their declaration gives.
	completions map[string]completion
	flags       lineFlags
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
		// Files, or scripts that the binary carries.
		"scripts": func(*cobra.Command, string, []string) ([]string, cobra.ShellCompDirective) {
			return configs.ScriptNames(), cobra.ShellCompDirectiveDefault
		},
		"formats": wordsOnly(func(cmd *cobra.Command, _ []string) []string { return t.formatWords(cmd) }),
		"sizes":   wordsOnly(func(*cobra.Command, []string) []string { return sizeWords }),
		"ranks":   wordsOnly(func(cmd *cobra.Command, _ []string) []string { return rankWords(cmd) }),
		"hosts":   completeHosts,
		"levels":  completeLevels,
		"commands": wordsOnly(func(*cobra.Command, []string) (words []string) {
			for _, c := range t.Rows {
				if c.Where&Line != 0 {
					words = append(words, c.Name+"\t"+c.Summary)
				}
			}
			return words
		}),
	}
	return t
}

// Add appends rows.
func (t *Table) Add(rows ...Row) { t.Rows = append(t.Rows, rows...) }

// Complete says what flags complete to that are declared with a name.
func (t *Table) Complete(name string, words func(cmd *cobra.Command) []string) {
	t.completions[name] = wordsOnly(func(cmd *cobra.Command, _ []string) []string { return words(cmd) })
}

// formatWords are the values of --output that a command of the process takes.
func (t *Table) formatWords(cmd *cobra.Command) []string {
	output, _ := configs.Lookup("output")
	row, _ := t.Find(cmd.Name(), Process)
	return slices.DeleteFunc(output.Words(), func(word string) bool { return word == string(render.NCCLTests) && !row.NCCLTests })
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

// groupsAt are the groups that have a command at a place.
func (t *Table) groupsAt(where Where) []Group {
	var list []Group
	for _, g := range Groups {
		if slices.ContainsFunc(t.Rows, func(c Row) bool { return c.Group == g.ID && c.Where&where != 0 }) {
			list = append(list, g)
		}
	}
	return list
}
