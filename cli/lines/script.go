package lines

import (
	"os"
	"strings"

	"ringcli/cli/exit"
	"ringcli/configs"
)

// Split takes the text of -c or -f apart into commands, and each command
// into words. Commands end at ";" or the end of a line. Words are quoted as in
// a shell: '...' as it is, "..." with \" and \\, \ before a single character;
// "#" at the start of a word begins a comment. Nothing is expanded.
func Split(text string) ([][]string, error) {
	var (
		commands [][]string
		words    []string
		word     strings.Builder
		inWord   bool
		line     = 1
	)
	endWord := func() {
		if inWord {
			words = append(words, word.String())
			word.Reset()
			inWord = false
		}
	}
	endCommand := func() {
		endWord()
		if len(words) > 0 {
			commands = append(commands, words)
			words = nil
		}
	}
	runes := []rune(text)
	for i := 0; i < len(runes); i++ {
		switch r := runes[i]; {
		case r == '\n':
			line++
			endCommand()
		case r == ';':
			endCommand()
		case r == ' ' || r == '\t' || r == '\r':
			endWord()
		case r == '#' && !inWord:
			for i+1 < len(runes) && runes[i+1] != '\n' {
				i++
			}
		case r == '\\':
			if i+1 == len(runes) {
				return nil, exit.Usagef("line %d ends in a single \\: expected a character after it", line)
			}
			i++
			if runes[i] == '\n' { // a command goes on on the next line
				line++
				continue
			}
			word.WriteRune(runes[i])
			inWord = true
		case r == '\'' || r == '"':
			start := line
			inWord = true
			for i++; i < len(runes) && runes[i] != r; i++ {
				if r == '"' && runes[i] == '\\' && i+1 < len(runes) && (runes[i+1] == '"' || runes[i+1] == '\\') {
					i++
				}
				if runes[i] == '\n' {
					line++
				}
				word.WriteRune(runes[i])
			}
			if i >= len(runes) {
				return nil, exit.Usagef("line %d: a %c is opened and not closed: add the closing %c", start, r, r)
			}
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	endCommand()
	return commands, nil
}

// ScriptOf reads a file of commands, or one that the binary carries.
func ScriptOf(name string) (string, error) {
	text, err := os.ReadFile(name)
	if err == nil {
		return string(text), nil
	}
	if carried, unknown := configs.Script(name); unknown == nil {
		return carried, nil
	}
	return "", exit.Usagef("%w: expected a readable file of commands, or one of %s", err, strings.Join(configs.ScriptNames(), ", "))
}
