package lines

import (
	"os"
	"strings"

	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/session"
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

// ScriptOf returns a script of commands and the name that it has among all: one that the binary
// carries, by its name, or a file. A carried script's name never means a file of the working
// directory, which another user may have put there; ./NAME does.
func ScriptOf(path string) (text, name string, err error) {
	if carried, unknown := configs.Script(path); unknown == nil {
		return carried, path, nil
	}
	if text, name, err = repl.ReadFile(path); err != nil {
		return "", "", exit.Usagef("%w: expected a readable file of commands, or one of %s", err, strings.Join(configs.ScriptNames(), ", "))
	}
	return text, name, nil
}

// NoteHidden says that a file is not run, since a carried script has its name.
func NoteHidden(s *session.Session, path string) error {
	_, unknown := configs.Script(path)
	if _, err := os.Stat(path); unknown != nil || err != nil {
		return nil
	}
	return s.Out.Note(render.Fair, "%s is the script that ringcli carries; ./%s is the file", path, path)
}
