package command

import (
	"context"
	"fmt"
	"strings"

	"ringcli/cli/exit"
	"ringcli/cli/session"
	"ringcli/cli/topics"
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
	words := append(HelpTopics(), t.HelpGroups()...)
	for _, c := range t.Rows {
		if c.Where&Line != 0 {
			words = append(words, c.Name)
		}
	}
	return words
}

func checkHelp(args []string) error {
	if len(args) > 1 {
		return exit.Usagef("help: %d arguments given: expected at most one: a command, a topic, or @ and a group", len(args))
	}
	return nil
}

func (t *Table) runHelp(_ context.Context, s *session.Session, call Call) error {
	if len(call.Args) == 0 {
		return s.Out.Text(t.listing(t.groupsAt(Line)...) + `
help COMMAND shows its flags, help @GROUP a group:
` + strings.Join(t.HelpGroups(), " ") + `;
help TOPIC a page on one thing:
` + wrapped(HelpTopics()) + `.
Lines: "a; b" runs b after a, "a &" runs a in the background, # is a comment;
Tab completes, Ctrl-R searches what was typed, Ctrl-C ends what runs, Ctrl-D
leaves.
`)
	}
	topic := call.Args[0]
	if page, found := topics.Find(topic); found {
		return s.Out.Text(page.Text)
	}
	if id, isGroup := strings.CutPrefix(topic, "@"); isGroup {
		for _, g := range t.groupsAt(Line) {
			if g.ID == id {
				return s.Out.Text(t.listing(g))
			}
		}
		return exit.Usagef("help %s: there is no such group: expected one of %s", topic, strings.Join(t.HelpGroups(), ", "))
	}
	root := t.LineTree(s.Stdout, func(context.Context, Row, Call) error { return nil })
	c, found := t.Find(topic, Line)
	if !found {
		return Unknown(root, topic)
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
of a group; with a topic a page on it, such as concepts, the terms of RDMA.`,
		Args: "[COMMAND | @GROUP | TOPIC]", Complete: t.completeHelp, CheckArgs: checkHelp, Run: t.runHelp,
	}
}
