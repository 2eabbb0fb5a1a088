package command

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/cli/topics"
	"ringcli/configs/codes"
)

// HelpTopics are the pages that help has beside those of commands.
func HelpTopics() []string {
	var names []string
	for _, t := range topics.All() {
		names = append(names, t.Name)
	}
	return names
}

// HelpGroups are the groups of commands, as help takes them.
func (t *Table) HelpGroups() []string {
	var names []string
	for _, g := range t.groupsAt(Line) {
		names = append(names, "@"+g.ID)
	}
	return names
}

func (t *Table) completeHelp(args []string) []string {
	if len(args) > 0 {
		return nil
	}
	words := slices.Concat(HelpTopics(), t.HelpGroups(), codes.Names())
	for _, c := range t.Rows {
		if !slices.Contains(words, c.Name) {
			words = append(words, c.Name)
		}
	}
	return words
}

func (t *Table) checkHelp(args []string) error {
	if len(args) > 1 {
		return exit.Usagef("help: %d arguments given: expected at most one: a command, a topic, a failure's code, or @ and a group", len(args))
	}
	if len(args) > 0 && strings.HasPrefix(args[0], "@") && !slices.Contains(t.HelpGroups(), args[0]) {
		return exit.Usagef("help %s: there is no such group: expected one of %s", args[0], strings.Join(t.HelpGroups(), ", "))
	}
	return nil
}

// runHelp takes no session: help is there whatever the configuration is.
func (t *Table) runHelp(_ context.Context, _ *session.Session, call Call) error {
	root, where := call.Tree, placeOf(call.Tree)
	text := ""
	switch {
	case len(call.Args) == 0 && where == Process:
		return root.Help()
	case len(call.Args) == 0:
		text = t.listing(t.groupsAt(Line)...) + `
help COMMAND shows its flags, help @GROUP a group:
` + strings.Join(t.HelpGroups(), " ") + `;
help TOPIC a page on one thing:
` + wrapped(HelpTopics()) + `;
help CODE a failure's cause and cure: help failures lists them.
Lines: "a; b" runs b after a, "a &" runs a in the background (help jobs), # is a
comment;
Tab completes, Ctrl-R searches what was typed, Ctrl-C ends what runs, Ctrl-D
leaves.
`
	default:
		if page, found := topics.Find(call.Args[0]); found {
			text = page.Text
			break
		}
		f, found := codes.Find(call.Args[0])
		if !found {
			return t.explain(root, where, call.Args[0])
		}
		text = aboutFailure(f)
	}
	_, err := io.WriteString(root.OutOrStdout(), text)
	return err
}

// aboutFailure is the page of a code.
func aboutFailure(f codes.Failure) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s (exit code %s)\n", f.Code, f.What, f.Exit())
	for _, part := range [][2]string{{"Named", f.Named}, {"Cause", f.Cause}, {"Cure", f.Cure}} {
		fmt.Fprintf(&b, "\n%s\n", strings.Join(render.Folded(part[0]+": "+part[1], 80), "\n"))
	}
	return b.String()
}

// explain shows the help of a group, or of a command, wherever that is given.
func (t *Table) explain(root *cobra.Command, where Where, topic string) error {
	out := root.OutOrStdout()
	if id, isGroup := strings.CutPrefix(topic, "@"); isGroup {
		at := slices.IndexFunc(Groups, func(g Group) bool { return g.ID == id })
		_, err := io.WriteString(out, t.listing(Groups[at]))
		return err
	}
	c, found := t.Find(topic, where)
	if other, there := t.Find(topic, Process|Line); !found && there {
		c, where = other, other.Where
		if _, err := fmt.Fprintln(out, strings.Join(render.Folded(c.Name+" "+c.given(where), 80), "\n")+"\n"); err != nil {
			return err
		}
		none := func(context.Context, Row, Call) error { return nil }
		if root = t.LineTree(out, none); where == Process {
			root = t.Tree(&cobra.Command{Use: "ringcli"}, Process, none)
			root.SetOut(out)
		}
	} else if !found {
		return t.Unknown(root, topic)
	}
	cmd, _, err := root.Find([]string{c.Name})
	if err != nil {
		return err
	}
	return cmd.Help()
}

// wrapped joins words by spaces, in lines of at most 80 columns.
func wrapped(words []string) string {
	var b strings.Builder
	column := -1 // that was written last, from 0
	for _, word := range words {
		switch column += 1 + len(word); {
		case column > 79: // and a full stop
			b.WriteByte('\n')
			column = len(word)
		case b.Len() > 0:
			b.WriteByte(' ')
		}
		b.WriteString(word)
	}
	return b.String()
}

// listing is the commands of groups, a line each.
func (t *Table) listing(groups ...Group) string {
	var b strings.Builder
	for i, g := range groups {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintln(&b, g.Title)
		for _, c := range t.Rows {
			if c.Group == g.ID && c.Where&Line != 0 {
				fmt.Fprintf(&b, "  %-14s %s\n", c.Name, c.Summary)
			}
		}
	}
	return b.String()
}

// HelpRow is `help`.
func (t *Table) HelpRow() Row {
	return Row{
		Name: "help", Group: GroupShell, Where: Line, Own: true,
		Summary: "List the commands, or explain one, a group, or a topic",
		Long: `Lists the commands; with a command it shows its flags; with @GROUP the commands
of a group; with a topic a page on it, such as concepts, the terms of RDMA; with
the code of a failure, such as retry-exceeded, its cause and cure.`,
		Args: "[COMMAND | @GROUP | TOPIC | CODE]", Complete: t.completeHelp, CheckArgs: t.checkHelp, Run: t.runHelp,
	}
}
