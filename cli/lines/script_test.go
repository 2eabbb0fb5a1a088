package lines

import (
	"reflect"
	"strings"
	"testing"

	"ringcli/cli/exit"
)

func TestSplitScript(t *testing.T) {
	type commands = [][]string
	for _, c := range []struct {
		text string
		want commands
	}{
		{"", nil},
		{" ;; \n; ", nil},
		{"ping", commands{{"ping"}}},
		{"ping; all-reduce --size 1M\nstatus", commands{{"ping"}, {"all-reduce", "--size", "1M"}, {"status"}}},
		{"# all of it\nping # the link\n#ping", commands{{"ping"}}},
		{"a#b c", commands{{"a#b", "c"}}},
		{`say "a;b" 'c # "d"' e\ f ""`, commands{{"say", "a;b", `c # "d"`, "e f", ""}}},
		{`"a\"b\\c\d" 'x\y'`, commands{{`a"b\c\d`, `x\y`}}},
		{"all-reduce \\\n  --check\r\nping", commands{{"all-reduce", "--check"}, {"ping"}}},
		{"a'b'\"c\"", commands{{"abc"}}},
		{"ping & all-reduce --size 1K&; wait", commands{{"ping"}, {"&"}, {"all-reduce", "--size", "1K"}, {"&"}, {"wait"}}},
	} {
		got, err := Split(c.text)
		var all commands
		for _, command := range got {
			if all = append(all, command.Words); command.Job {
				all = append(all, []string{"&"})
			}
		}
		if err != nil || !reflect.DeepEqual(all, c.want) {
			t.Errorf("%q: got %q, %v, want %q", c.text, all, err, c.want)
		}
	}
}

func TestSplitScriptRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"ping\n'open":     "line 2",
		"say \"a\\\"":     "closing \"",
		"ping;\nstatus\\": "line 2",
		"ping; &":         "a command before &",
	} {
		_, err := Split(text)
		if err == nil || !strings.Contains(err.Error(), want) || exit.Code(err) != exit.Usage {
			t.Errorf("%q: got %v (exit %d), want an error of usage with %q", text, err, exit.Code(err), want)
		}
	}
}

func FuzzSplitScript(f *testing.F) {
	for _, seed := range []string{"ping; all-reduce --size 1M", `say "a;b" 'c'`, "a\\\nb", "'", "# x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		commands, err := Split(text)
		if err != nil {
			return
		}
		for _, words := range commands {
			if len(words.Words) == 0 {
				t.Errorf("%q yields a command without a word", text)
			}
		}
	})
}
