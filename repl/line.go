package repl

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"
	"unicode"
)

// isName tells whether text is one word that needs no quotes.
func isName(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune(`'"\;#&`, r)
	})
}

// expand puts the aliases' texts in the place of first words. A text may begin
// with another alias, though with none that it came from.
func (s *Shell) expand(line string) string {
	aliases := s.Aliases()
	var b strings.Builder
	done := 0
	for _, start := range Lex(line).starts {
		word := firstWord(line[start:])
		text, used := word, map[string]bool{}
		for next := word; ; next = firstWord(text) {
			replacement, ok := aliases[next]
			if !ok || used[next] {
				break
			}
			used[next] = true
			text = replacement + text[len(next):]
		}
		b.WriteString(line[done:start])
		b.WriteString(text)
		done = start + len(word)
	}
	b.WriteString(line[done:])
	return b.String()
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

// Unalias removes an alias.
func (s *Shell) Unalias(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.aliases[name]; !ok {
		return fmt.Errorf("alias %s: there is none of that name", name)
	}
	delete(s.aliases, name)
	return nil
}

// Aliases returns a copy: name to text.
func (s *Shell) Aliases() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.aliases)
}

// SetTiming switches whether the time that a line took is printed after it.
func (s *Shell) SetTiming(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timing = on
}

// Timing tells whether it is.
func (s *Shell) Timing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.timing
}

// line runs a line as it was typed.
func (s *Shell) line(ctx context.Context, text string) error {
	text = s.expand(text)
	lexed := Lex(text)
	if at := lexed.background; at >= 0 {
		return s.background(strings.TrimSpace(text[:at]))
	}
	if len(lexed.starts) == 0 {
		return nil
	}
	begun := time.Now()
	err := s.host.Run(ctx, text)
	if s.Timing() {
		_, _ = fmt.Fprintf(s.outW, "(%.3f s)\n", time.Since(begun).Seconds())
	}
	return err
}
