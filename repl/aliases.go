package repl

import (
	"fmt"
	"maps"
	"strings"
	"unicode"
)

// isName tells whether text is one word that needs no quotes.
func isName(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune(`'"\;#&`, r)
	})
}

// expand puts the aliases' texts in the place of first words. A text may hold other
// aliases, though none that it came from.
func (s *Shell) expand(line string) string { return expand(line, s.Aliases()) }

func expand(line string, aliases map[string]string) string {
	var b strings.Builder
	done := 0
	for _, start := range Lex(line).starts {
		word := firstWord(line[start:])
		text, is := aliases[word]
		if !is {
			continue
		}
		rest := maps.Clone(aliases)
		delete(rest, word)
		b.WriteString(line[done:start] + expand(text, rest))
		done = start + len(word)
	}
	return b.String() + line[done:]
}

func firstWord(text string) string {
	end := strings.IndexFunc(text, func(r rune) bool { return unicode.IsSpace(r) || r == ';' || r == '&' })
	if end < 0 {
		return text
	}
	return text[:end]
}

// Alias makes name stand for text where a command begins.
func (s *Shell) Alias(name, text string) error {
	if !isName(name) {
		return fmt.Errorf("alias %q: expected one word without quotes, spaces or any of ;#&", name)
	}
	text = strings.TrimSpace(text)
	if text == "" {
		return fmt.Errorf("alias %s: its text is empty: say what it stands for", name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.aliases[name] = text
	return nil
}

// Unalias removes an alias, and tells whether there was one.
func (s *Shell) Unalias(name string) (known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known = s.aliases[name]
	delete(s.aliases, name)
	return known
}

// Aliases returns a copy: name to text.
func (s *Shell) Aliases() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.aliases)
}
