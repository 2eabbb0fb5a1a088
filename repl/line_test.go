package repl

import (
	"reflect"
	"testing"
)

// lexed is what the shell asks of a line.
type lexed struct {
	starts []int
	jobs   string // of each command whether it is one, and - for an & without a command
	open   bool
}

func TestScan(t *testing.T) {
	for _, c := range []struct {
		line string
		want lexed
	}{
		{"", lexed{nil, "", false}},
		{"a b", lexed{[]int{0}, ".", false}},
		{" a; b ;c", lexed{[]int{1, 4, 7}, "...", false}},
		{"a ';' b", lexed{[]int{0}, ".", false}},
		{"a &", lexed{[]int{0}, "&", false}},
		{"a& # why", lexed{[]int{0}, "&", false}},
		{"a&# why", lexed{[]int{0}, "&", false}},
		{"a '&'", lexed{[]int{0}, ".", false}},
		{`a \&`, lexed{[]int{0}, ".", false}},
		{"a & b", lexed{[]int{0, 4}, "&.", false}},
		{"a &; b&\nc", lexed{[]int{0, 5, 8}, "&&.", false}},
		{"a&b &c", lexed{[]int{0}, ".", false}},
		{"&", lexed{nil, "-", false}},
		{"a; & b", lexed{[]int{0, 5}, "..-", false}},
		{"a & &", lexed{[]int{0}, "&-", false}},
		{"a # 'b", lexed{[]int{0}, ".", false}},
		{"a#b c", lexed{[]int{0}, ".", false}},
		{"a 'b", lexed{[]int{0}, ".", true}},
		{`a "b\"`, lexed{[]int{0}, ".", true}},
		{`a "b\\"`, lexed{[]int{0}, ".", false}},
		{`a \`, lexed{[]int{0}, ".", true}},
		{"a # x\nb", lexed{[]int{0, 6}, "..", false}},
	} {
		l := Lex(c.line)
		jobs := ""
		for _, command := range l.Commands {
			jobs += map[bool]string{false: ".", true: "&"}[command.Job]
		}
		if l.Nothing {
			jobs += "-"
		}
		if got := (lexed{l.starts, jobs, l.Open != 0}); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: got %+v, want %+v", c.line, got, c.want)
		}
	}
}

func TestExpand(t *testing.T) {
	s := &Shell{aliases: map[string]string{
		"ar": "all-reduce", "big": "ar --size 1G", "a": "b x", "b": "a y", "self": "self again", "both": "ar; big",
	}}
	for line, want := range map[string]string{
		"ar":                   "all-reduce",
		"  ar --check; big;ar": "  all-reduce --check; all-reduce --size 1G;all-reduce",
		"echo ar":              "echo ar",
		"'ar'":                 "'ar'",
		"ara":                  "ara",
		"a":                    "a y x",
		"self":                 "self again",
		"both":                 "all-reduce; all-reduce --size 1G",
		"ar&":                  "all-reduce&",
		"# ar":                 "# ar",
	} {
		if got := s.expand(line); got != want {
			t.Errorf("%q: got %q, want %q", line, got, want)
		}
	}
	for _, name := range []string{"", "a b", "a;b", "'a'", "#"} {
		if s.Alias(name, "x") == nil {
			t.Errorf("the name %q was taken", name)
		}
	}
	if s.Alias("x", " ") == nil || s.Unalias("none") {
		t.Error("an alias of nothing, or one that is not, was taken")
	}
	if !s.Unalias("ar") || s.Aliases()["ar"] != "" {
		t.Errorf("alias ar is left: %v", s.Aliases())
	}
}
