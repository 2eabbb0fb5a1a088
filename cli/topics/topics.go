// Package topics holds what help says about more than one command. The same texts
// are pages of section 7 of the manual.
package topics

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"ringcli/configs/codes"
)

// Topic is a page of help: `ringcli help NAME`, and the manual's ringcli-NAME(7).
type Topic struct {
	Name    string
	Summary string // one line, without a full stop
	Text    string // plain text; what is indented by two is shown as it is
}

// names is the order in which a newcomer may want them. The first line of
// NAME.txt is the summary, and the text follows after an empty line.
var names = []string{
	"concepts", "bring-up", "scripts", "launchers", "benchmarks", "algorithms", "tuning", "traces",
	"hardware", "security", "files", "troubleshooting", Failures, "limits", "design", "building",
}

//go:embed *.txt
var texts embed.FS

// All returns all topics.
func All() []Topic {
	var all []Topic
	for _, name := range names {
		text, err := texts.ReadFile(name + ".txt")
		if err != nil {
			panic(err) // the test reads them all
		}
		summary, rest, _ := strings.Cut(string(text), "\n\n")
		if name == Failures {
			rest += failures()
		}
		all = append(all, Topic{Name: name, Summary: summary, Text: rest})
	}
	return all
}

// Failures is the topic that lists the codes of failures.
const Failures = "failures"

// failures are the codes, a line each.
func failures() string {
	var b strings.Builder
	fmt.Fprintf(&b, "  %-17s %-8s %s\n", "code", "exit", "what happened")
	for _, f := range codes.All() {
		fmt.Fprintf(&b, "  %-17s %-8s %s\n", f.Code, f.Exit(), f.What)
	}
	return b.String()
}

// Find returns the topic of a name, and whether there is one.
func Find(name string) (Topic, bool) {
	all := All()
	if i := slices.IndexFunc(all, func(t Topic) bool { return t.Name == name }); i >= 0 {
		return all[i], true
	}
	return Topic{}, false
}
