package cli

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

// concepts are the terms of RDMA and how they hang together.
//
//go:embed concepts.txt
var concepts string

const conceptsTopic = "concepts"

// helpTopics are what help takes besides commands.
func helpTopics() []string {
	topics := []string{conceptsTopic}
	for _, g := range groupsAt(Line) {
		topics = append(topics, "@"+g.id)
	}
	return topics
}

type group struct{ id, title string }

// groupsAt are the groups that have a command at a place.
func groupsAt(where Where) []group {
	var list []group
	for _, g := range groupTitles {
		if slices.ContainsFunc(Commands(), func(c Command) bool { return c.Group == g.id && c.Where&where != 0 }) {
			list = append(list, group{g.id, g.title})
		}
	}
	return list
}

func offerHelp(args []string) []string {
	if len(args) > 0 {
		return nil
	}
	words := helpTopics()
	for _, c := range Commands() {
		if c.Where&Line != 0 {
			words = append(words, c.Name)
		}
	}
	return words
}

func checkHelp(args []string) error {
	if len(args) > 1 {
		return usageError("help: %d arguments given: expected at most one: a command, concepts, or @ and a group", len(args))
	}
	return nil
}

func runHelp(_ context.Context, s *Session, call Call) error {
	if len(call.Args) == 0 {
		return s.Out.Text(listing(groupsAt(Line)...) + `
help COMMAND shows its flags, help concepts the terms, help @GROUP a group:
` + strings.Join(helpTopics()[1:], " ") + `.
Lines: "a; b" runs b after a, "a &" runs a in the background, # is a comment;
Tab completes, Ctrl-R searches what was typed, Ctrl-C ends what runs, Ctrl-D
leaves.
`)
	}
	topic := call.Args[0]
	if topic == conceptsTopic {
		return s.Out.Text(concepts)
	}
	if id, isGroup := strings.CutPrefix(topic, "@"); isGroup {
		for _, g := range groupsAt(Line) {
			if g.id == id {
				return s.Out.Text(listing(g))
			}
		}
		return usageError("help %s: there is no such group: expected one of %s", topic, strings.Join(helpTopics()[1:], ", "))
	}
	root := lineTree(s.stdout, func(context.Context, Command, Call) error { return nil })
	c, found := find(topic, Line)
	if !found {
		return unknownCommand(root, topic)
	}
	cmd, _, err := root.Find([]string{c.Name})
	if err != nil {
		return err
	}
	return cmd.Help()
}

// listing is the commands of groups, a line each.
func listing(groups ...group) string {
	var b strings.Builder
	for i, g := range groups {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintln(&b, g.title)
		for _, c := range Commands() {
			if c.Group == g.id && c.Where&Line != 0 {
				fmt.Fprintf(&b, "  %-14s %s\n", c.Name, c.Summary)
			}
		}
	}
	return b.String()
}
