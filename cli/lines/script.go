package lines

import (
	"strings"

	"ringcli/cli/exit"
	"ringcli/configs"
	"ringcli/repl"
)

// Split takes the text of -c or -f apart into commands, and each into words.
func Split(text string) ([]repl.Command, error) {
	switch l := repl.Lex(text); l.Open {
	case 0:
		if l.Nothing {
			return nil, exit.Usagef("there is nothing to run in the background: expected a command before &")
		}
		return l.Commands, nil
	case '\\':
		return nil, exit.Usagef("line %d ends in a single \\: expected a character after it", l.OpenLine)
	default:
		return nil, exit.Usagef("line %d: a %c is opened and not closed: add the closing %c", l.OpenLine, l.Open, l.Open)
	}
}

// ScriptOf reads a file of commands, or one that the binary carries, and returns the name
// that it has among all.
func ScriptOf(path string) (text, name string, err error) {
	text, name, err = repl.ReadFile(path)
	if err == nil {
		return text, name, nil
	}
	if carried, unknown := configs.Script(path); unknown == nil {
		return carried, path, nil
	}
	return "", "", exit.Usagef("%w: expected a readable file of commands, or one of %s", err, strings.Join(configs.ScriptNames(), ", "))
}
