package ledger

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Preflight has the name of doctor's record.
type Preflight struct {
	Command string `json:"command"`
	OK      bool   `json:"ok"`
	Ranks   []int  `json:"ranks"`
	Check   string `json:"check"`
	Verdict string `json:"verdict"`
}

func TestHostsAreGoodOrBad(t *testing.T) {
	type verdict = map[string]any
	blamed := func(v verdict) func(*Ledger) {
		return func(l *Ledger) {
			l.AddFailure(Failure{"all-reduce", "why", "lost", v, nil}, true)
		}
	}
	finding := func(from, to []int, culprit string) func(*Ledger) {
		return func(l *Ledger) {
			l.Add(LinkFinding{Command: "links", Finding: "slow", Culprit: culprit, From: from, To: to, Text: "slow"})
		}
	}
	for _, c := range []struct {
		name      string
		what      func(*Ledger)
		code      int
		good, bad string
	}{
		{"all well", func(*Ledger) {}, 0, "a b c", ""},
		{"nothing says why", func(*Ledger) {}, 2, "", ""},
		{"lost", blamed(verdict{"kind": "lost", "rank": 2}), 2, "a b", "c"},
		{"absent", blamed(verdict{"kind": "timeout", "code": "absent", "rank": 1}), 2, "a c", "b"},
		{"late", blamed(verdict{"kind": "timeout", "code": "timeout", "rank": 1}), 2, "a c", ""},
		{"an edge", blamed(verdict{"kind": "edge", "rank": 1, "edge": verdict{"from": 1, "to": 2}}), 2, "a", ""},
		{"canceled", blamed(verdict{"kind": "canceled", "rank": 1}), 2, "", ""},
		{"no such rank", blamed(verdict{"kind": "lost", "rank": 7}), 2, "", ""},
		{"a slow sender", finding([]int{0}, nil, "sender"), 1, "b c", "a"},
		{"a slow pair", finding([]int{0}, []int{1}, "pair"), 1, "c", ""},
		{"groups", finding([]int{0}, []int{1}, "group"), 0, "a b c", ""},
		{"wrong data", func(l *Ledger) {
			l.Add(Measurement{"all-reduce", false, 8, nil, 1, []any{map[string]any{"rank": 1, "wrong": 1}}})
		}, 2, "a c", ""},
		{"a preflight", func(l *Ledger) {
			l.Add(Preflight{"doctor", false, []int{0, 2}, "port", "FAIL"})
			l.Add(Preflight{"doctor", false, []int{1}, "clock", "WARN"})
		}, 2, "b", "a c"},
		{"a retry", func(l *Ledger) {
			l.AddFailure(Failure{"connect", "why", "lost", verdict{"kind": "lost", "rank": 2}, new(5)}, true)
		}, 0, "a b c", ""},
		{"regrouped", func(l *Ledger) {
			blamed(verdict{"kind": "lost", "rank": 1})(l)
			l.Joined(0, 2, []string{"a", "c"})
		}, 0, "a c", "b"},
		{"two ranks of a host", func(l *Ledger) {
			l.Joined(0, 3, []string{"a", "a", "b"})
			blamed(verdict{"kind": "lost", "rank": 1})(l)
		}, 2, "b c", "a"},
	} {
		dir := t.TempDir()
		files := Files{Good: filepath.Join(dir, "good"), Bad: filepath.Join(dir, "bad")}
		l, err := Open(files, Run{}, 0)
		if err != nil {
			t.Fatal(err)
		}
		l.Joined(0, 3, []string{"a", "b", "c"})
		c.what(l)
		if err := l.Close(Run{ExitCode: c.code}); err != nil {
			t.Fatal(err)
		}
		for file, want := range map[string]string{files.Good: c.good, files.Bad: c.bad} {
			text, err := os.ReadFile(file)
			if got := strings.Join(strings.Fields(string(text)), " "); err != nil || got != want {
				t.Errorf("%s: %s has %q, %v: want %q", c.name, filepath.Base(file), got, err, want)
			}
		}
	}
}
