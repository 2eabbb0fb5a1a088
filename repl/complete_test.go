package repl

import (
	"context"
	"strings"
	"testing"
)

func TestSuggest(t *testing.T) {
	words := func(texts ...string) (all []Candidate) {
		for _, text := range texts {
			all = append(all, Candidate{Text: text})
		}
		return all
	}
	for _, c := range []struct {
		name         string
		candidates   []Candidate
		typed, rest  string
		insert, list string
	}{
		{"none", words("left"), "x", "", "", ""},
		{"one", words("left", "right"), "l", "", "eft ", ""},
		{"the same twice", words("left", "left"), "l", "", "eft ", ""},
		{"within a line", words("left"), "l", " more", "eft", ""},
		{"a directory", words("/etc/"), "/e", "", "tc/", ""},
		{"a flag with a value", words("--size="), "--s", "", "ize=", ""},
		{"the common part", words("all-reduce", "all-gather"), "a", "", "ll-", ""},
		{"a list", words("all-reduce", "all-gather"), "all-", "", "", "all-reduce  all-gather\n"},
		{"needs quotes", words("my file;x"), "my", "", `\ file\;x `, ""},
		{"within quotes", words("my file"), `"my f`, "", `ile" `, ""},
		{"within quotes that are closed", words("my file"), `'my f`, "'", `ile`, ""},
		{"escaped", words("my file"), `my\ f`, "", `ile `, ""},
		{"not in the middle of a character", words("aä", "aö"), "a", "", "", "aä  aö\n"},
		{"hints", []Candidate{{"echo", "prints"}, {"exit", "leaves the shell at once"}}, "e", "", "", "echo  prints\nexit  leaves the shell \n"},
	} {
		insert, list := suggest(c.candidates, c.typed, c.rest, func() int { return 24 })
		if insert != c.insert || list != c.list {
			t.Errorf("%s: got %q and %q, want %q and %q", c.name, insert, list, c.insert, c.list)
		}
	}
}

func TestLayOutNarrow(t *testing.T) {
	var many []Candidate
	for range 100 {
		many = append(many, Candidate{Text: strings.Repeat("x", 30)})
	}
	for columns := 1; columns < 80; columns++ {
		list := layOut(many, columns)
		for line := range strings.Lines(list) {
			if len(line)-1 > max(1, columns-1) && !strings.HasPrefix(line, "... ") {
				t.Fatalf("%d columns: %q", columns, line)
			}
		}
		if lines := strings.Count(list, "\n"); lines > suggestLimit+1 {
			t.Errorf("%d columns: %d lines", columns, lines)
		}
	}
}

// liar is a host whose completion has a defect.
type liar struct {
	runner
	from int
}

func (l liar) Complete(string, int) ([]Candidate, int) {
	if l.from < 0 {
		panic("oh")
	}
	return nil, l.from
}

func TestSuggestSurvivesTheHost(t *testing.T) {
	p := newTypist(t, Options{}, true)
	for from, want := range map[int]string{-1: "panic: oh", 9: "expected 0 to 1"} {
		p.Shell.host = liar{func(context.Context, string) error { return nil }, from}
		if insert, list := p.suggest("ab", 1); insert != "" || !strings.Contains(list, want) || strings.Count(list, "\n") != 1 {
			t.Errorf("from %d: %q, %q", from, insert, list)
		}
	}
	p.Shell.host = p.host
	if insert, _ := p.suggest("ec", 2); insert != "ho " {
		t.Errorf("got %q", insert)
	}
}
