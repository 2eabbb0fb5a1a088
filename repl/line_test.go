package repl

import "testing"

// lexed is what the shell asks of a line.
type lexed struct {
	jobs string // of each command whether it is one, and - for an & without a command
	open bool
}

func TestScan(t *testing.T) {
	for _, c := range []struct {
		line string
		want lexed
	}{
		{"", lexed{"", false}},
		{"a b", lexed{".", false}},
		{" a; b ;c", lexed{"...", false}},
		{"a ';' b", lexed{".", false}},
		{"a &", lexed{"&", false}},
		{"a& # why", lexed{"&", false}},
		{"a&# why", lexed{"&", false}},
		{"a '&'", lexed{".", false}},
		{`a \&`, lexed{".", false}},
		{"a & b", lexed{"&.", false}},
		{"a &; b&\nc", lexed{"&&.", false}},
		{"a&b &c", lexed{".", false}},
		{"&", lexed{"-", false}},
		{"a; & b", lexed{"..-", false}},
		{"a & &", lexed{"&-", false}},
		{"a # 'b", lexed{".", false}},
		{"a#b c", lexed{".", false}},
		{"a 'b", lexed{".", true}},
		{`a "b\"`, lexed{".", true}},
		{`a "b\\"`, lexed{".", false}},
		{`a \`, lexed{".", true}},
		{"a # x\nb", lexed{"..", false}},
	} {
		l := Lex(c.line)
		jobs := ""
		for _, command := range l.Commands {
			jobs += map[bool]string{false: ".", true: "&"}[command.Job]
		}
		if l.Nothing {
			jobs += "-"
		}
		if got := (lexed{jobs, l.Open != 0}); got != c.want {
			t.Errorf("%q: got %+v, want %+v", c.line, got, c.want)
		}
	}
}
