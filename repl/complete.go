package repl

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// suggestLimit bounds the list of candidates, lines.
const suggestLimit = 40

// suggest returns what Tab does at byte pos of a line: text to insert there, and
// lines to list. A panic of the Host must not leave a raw terminal behind.
func (s *Shell) suggest(line string, pos int) (insert, list string) {
	err := guard("completion of "+line, func() error {
		candidates, from := s.host.Complete(line, pos)
		if from < 0 || from > pos {
			return fmt.Errorf("completion of %q begins at byte %d: expected 0 to %d", line, from, pos)
		}
		insert, list = suggest(candidates, line[from:pos], line[pos:], func() int { return s.columns() })
		return nil
	})
	if err != nil {
		return "", err.Error() + "\n"
	}
	return insert, list
}

func (s *Shell) columns() int {
	return width(s.onTerminal)
}

// suggest completes typed, which may be quoted, before the rest of the line.
func suggest(candidates []Candidate, typed, rest string, columns func() int) (insert, list string) {
	l := Lex(typed)
	if l.Open == '\\' || len(l.Commands) == 0 && typed != "" { // half an escape, or a comment
		return "", ""
	}
	var words []string
	for _, c := range l.Commands {
		words = append(words, c.Words...)
	}
	word, quote := strings.Join(words, " "), l.Open
	var fit []Candidate
	for _, c := range candidates {
		if strings.HasPrefix(c.Text, word) && !slices.ContainsFunc(fit, func(f Candidate) bool { return f.Text == c.Text }) {
			fit = append(fit, c)
		}
	}
	switch len(fit) {
	case 0:
		return "", ""
	case 1:
		insert = escapeIn(quote, fit[0].Text[len(word):])
		if strings.HasSuffix(fit[0].Text, "/") || strings.HasSuffix(fit[0].Text, "=") || strings.HasSuffix(fit[0].Text, ",") {
			return insert, ""
		}
		if quote != 0 && !strings.HasPrefix(rest, string(quote)) {
			insert += string(quote)
		}
		if rest == "" {
			insert += " "
		}
		return insert, ""
	}
	common := fit[0].Text
	for _, c := range fit[1:] {
		for !strings.HasPrefix(c.Text, common) {
			_, size := utf8.DecodeLastRuneInString(common)
			common = common[:len(common)-size]
		}
	}
	if len(common) > len(word) {
		return escapeIn(quote, common[len(word):]), ""
	}
	return "", layOut(fit, columns())
}

// escapeIn returns text as it is typed within a quote, or outside of any if
// quote is 0.
func escapeIn(quote byte, text string) string {
	special := "\\ \t'\";#&" // \ first, which goes before the others
	switch quote {
	case '"':
		special = `\"`
	case '\'':
		special = "" // a ' in it cannot be typed there, and names with one are rare
	}
	for _, c := range special {
		text = strings.ReplaceAll(text, string(c), `\`+string(c))
	}
	return text
}

// layOut lists candidates, one a line with their hints, or in columns if there
// are none.
func layOut(fit []Candidate, columns int) string {
	widest, hints := 0, false
	for _, c := range fit {
		widest = max(widest, utf8.RuneCountInString(c.Text))
		hints = hints || c.Hint != ""
	}
	perLine := 1
	if !hints {
		perLine = max(1, (columns+1)/(widest+2)) // the last needs no gap after it
	}
	var b strings.Builder
	for i := 0; i < len(fit); i += perLine {
		if i/perLine == suggestLimit {
			fmt.Fprintf(&b, "... and %d more\n", len(fit)-i)
			break
		}
		var line strings.Builder
		for _, c := range fit[i:min(i+perLine, len(fit))] {
			fmt.Fprintf(&line, "%-*s  %s", widest, c.Text, c.Hint)
		}
		text := []rune(strings.TrimRight(line.String(), " "))
		b.WriteString(string(text[:min(len(text), max(1, columns-1))]))
		b.WriteByte('\n')
	}
	return b.String()
}
