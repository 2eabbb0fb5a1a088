package configs

import (
	"embed"
	"path"
	"strings"
)

//go:embed examples
var examples embed.FS

// Example is a file that the binary carries, to be changed and put to use: for what starts
// ranks or looks after nodes, or a script for -f.
type Example struct {
	Name string // without the extension
	File string // as it is best called
	What string // what it is, in one line
	Text string
}

// Examples are all of them; those for other programs first.
func Examples() (list []Example) {
	entries, err := examples.ReadDir("examples")
	if err != nil {
		panic(err) // the directory is part of the binary
	}
	for _, e := range entries {
		text, err := examples.ReadFile(path.Join("examples", e.Name()))
		if err != nil {
			panic(err)
		}
		list = append(list, exampleOf(e.Name(), string(text)))
	}
	for _, name := range ScriptNames() {
		text, err := Script(name)
		if err != nil {
			panic(err)
		}
		list = append(list, exampleOf(name+scriptSuffix, text))
	}
	return list
}

// exampleOf is a file whose first comment says what it is: in a sentence, or up to the last
// colon of the line.
func exampleOf(file, text string) Example {
	what := ""
	for line := range strings.Lines(text) {
		if comment, is := strings.CutPrefix(line, "# "); is {
			what = strings.TrimSpace(comment)
			break
		}
	}
	if sentence, _, more := strings.Cut(what, ". "); more {
		what = sentence
	} else if colon := strings.LastIndex(what, ": "); colon > 0 {
		what = what[:colon]
	}
	return Example{Name: strings.TrimSuffix(file, path.Ext(file)), File: file, What: strings.TrimSuffix(what, "."), Text: text}
}
