package lab

import (
	_ "embed"
	"strings"
	"sync"

	"ringcli/verbs"
)

//go:embed explain.txt
var explainText string

// explanations are the sections of explain.txt by their headings; several that
// follow each other have one text.
var explanations = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	var headings []string
	_, sections, _ := strings.Cut(explainText, "\n== ")
	for section := range strings.SplitSeq(sections, "\n== ") {
		heading, text, _ := strings.Cut(section, "\n")
		if headings = append(headings, heading); text == "" {
			continue
		}
		for _, h := range headings {
			all[h] = strings.TrimSpace(text)
		}
		headings = nil
	}
	return all
})

// Explain returns the section of a heading: a lab's letter and its step.
func Explain(heading string) string { return explanations()[heading] }

// meaning is what a completion's status says in general; "" if nothing is known.
func meaning(s verbs.Status) string { return explanations()[statusName(s)] }
