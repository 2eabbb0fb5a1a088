package repl

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
)

// Command is one command of a text.
type Command struct {
	Words []string
	Job   bool // a "&" has ended it: it is to run in the background
}

// Lexed is a text taken apart into commands, and each command into words. Commands end at ";", the
// end of a line, or "&" before a space or either. Words are quoted as in a POSIX shell: '...' as
// it is, "..." with \" and \\, \ before a single character, and at the end of a line to go on in
// the next; "#" at the start of a word begins a comment. Nothing is expanded.
type Lexed struct {
	Commands []Command
	// Open is what wants another line: a quote or a \ at the end; 0: nothing. OpenLine
	// is the line that it stands in, from 1.
	Open     byte
	OpenLine int

	// Nothing says that an & stands where no command is before it.
	Nothing bool

	starts []int // where the first word of each command begins, bytes
}

// Lex takes a text apart.
func Lex(text string) Lexed {
	var (
		l      Lexed
		words  []string // of a command, and word: each is used again
		word   []byte
		inWord bool
		from   int    // where the word begins
		begin  = true // of a command
		line   = 1
	)
	endWord := func(at int) {
		if inWord {
			text := text[from:at]
			if len(word) < len(text) { // it was quoted
				text = string(word)
			}
			words = append(words, text)
			word, inWord = word[:0], false
		}
	}
	endCommand := func(at int, job bool) {
		if endWord(at); len(words) > 0 {
			l.Commands, words = append(l.Commands, Command{slices.Clone(words), job}), words[:0]
		} else if job {
			l.Nothing = true
		}
		begin = true
	}
	begun := len(text) - len(strings.TrimPrefix(text, "\ufeff")) // Windows' editors put it first
	for i := begun; i < len(text); i++ {
		c := text[i]
		switch {
		case c == ' ' || c == '\t' || c == '\r':
			endWord(i)
			continue
		case c == '\n' || c == ';':
			endCommand(i, false)
			line += strings.Count(text[i:i+1], "\n")
			continue
		case c == '&' && (i+1 == len(text) || strings.IndexByte(" \t\r\n;#", text[i+1]) >= 0):
			endCommand(i, true)
			continue
		case c == '#' && !inWord:
			for i+1 < len(text) && text[i+1] != '\n' {
				i++
			}
			continue
		case c == '\\' && strings.HasPrefix(text[i+1:], "\n"):
			line++
			i++
			continue
		}
		if begin {
			l.starts = append(l.starts, i)
			begin = false
		}
		if !inWord {
			inWord, from = true, i
		}
		switch c {
		case '\\':
			if i++; i == len(text) {
				l.Open, l.OpenLine = c, line
				break
			}
			word = append(word, text[i])
		case '\'', '"':
			opened := line
			for i++; i < len(text) && text[i] != c; i++ {
				if c == '"' && text[i] == '\\' && i+1 < len(text) && (text[i+1] == '"' || text[i+1] == '\\') {
					i++
				}
				line += strings.Count(text[i:i+1], "\n")
				word = append(word, text[i])
			}
			if i >= len(text) {
				l.Open, l.OpenLine = c, opened
			}
		default:
			word = append(word, c)
		}
	}
	endCommand(len(text), false)
	return l
}

// hasJob tells whether a command is to run in the background.
func (l Lexed) hasJob() bool {
	return l.Nothing || slices.ContainsFunc(l.Commands, func(c Command) bool { return c.Job })
}

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
