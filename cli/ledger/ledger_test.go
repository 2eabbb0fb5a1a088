package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ringcli/cli/exit"
	"ringcli/cli/schema"
)

// What is taken of a record is what the schema says that it has.
func TestKindsAreOfTheSchema(t *testing.T) {
	var s struct {
		Defs map[string]struct{ Properties map[string]any } `json:"$defs"`
	}
	if err := json.Unmarshal([]byte(schema.JSON), &s); err != nil {
		t.Fatal(err)
	}
	for name, k := range kinds {
		def, is := s.Defs[name]
		if !is {
			t.Errorf("%s: the schema has no such record", name)
			continue
		}
		fields := strings.Fields(k.why)
		os.Expand(k.name, func(field string) string { fields = append(fields, field); return "" })
		for _, each := range strings.Fields(k.labels + " " + k.samples) {
			_, field, renamed := strings.Cut(each, "=")
			if !renamed {
				field = each
			}
			fields = append(fields, field)
		}
		for _, field := range fields {
			if _, is := def.Properties[field]; field != "" && !is {
				t.Errorf("%s: it has no field %q", name, field)
			}
		}
		for _, each := range strings.Fields(k.samples) {
			if metric, _, _ := strings.Cut(each, "="); help[metric] == "" {
				t.Errorf("%s: metric %s has no help", name, metric)
			}
		}
	}
}

// The records of tests have the names of those that they stand for.
type (
	Failure struct {
		Command string `json:"command"`
		Error   string `json:"error"`
		Code    string `json:"code"`
		Verdict any    `json:"verdict,omitempty"`
		Retry   *int   `json:"retry_s,omitempty"`
	}
	Link struct {
		Command string  `json:"command"`
		OK      bool    `json:"ok"`
		From    int     `json:"from"`
		To      int     `json:"to"`
		Write   float64 `json:"write_GBps"`
	}
	LinkFinding struct {
		Command string `json:"command"`
		OK      bool   `json:"ok"`
		Finding string `json:"finding"`
		Culprit string `json:"culprit"`
		From    []int  `json:"from"`
		To      []int  `json:"to"`
		Both    bool   `json:"both_ways"`
		Text    string `json:"text"`
	}
	Measurement struct {
		Command string         `json:"command"`
		OK      bool           `json:"ok"`
		Bytes   int            `json:"bytes"`
		Times   map[string]any `json:"time_us"`
		Wrong   int            `json:"wrong"`
		PerRank []any          `json:"per_rank"`
	}
)

// cases are those of a ledger that was closed: "class name: ok", "... skipped", or "... code".
func cases(l *Ledger) (list []string) {
	for _, c := range l.cases {
		state := c.code
		switch {
		case c.skipped:
			state = "skipped"
		case c.ok:
			state = "ok"
		}
		list = append(list, c.class+" "+c.name+": "+state)
	}
	return list
}

func expect(t *testing.T, l *Ledger, code int, want ...string) {
	t.Helper()
	if err := l.Close(Run{Command: "connect", Version: "v", ExitCode: code}); err != nil {
		t.Fatal(err)
	}
	if got := cases(l); !slices.Equal(got, want) {
		t.Errorf("the cases are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestTheCulpritFailsAndNotItsVictims(t *testing.T) {
	l := empty(0)
	l.Joined(0, 3, nil)
	l.AddFailure(Failure{"all-reduce", "rank 2 is lost", "lost", map[string]any{"rank": 2}, nil}, false)
	expect(t, l, exit.Critical, "rank rank 0: skipped", "rank rank 1: skipped", "rank rank 2: lost")
}

func TestARankThatWasKilled(t *testing.T) {
	l := empty(-1)
	l.RankEnded(0, exit.Critical, "")
	l.RankEnded(1, exit.Critical, "rank 1 was killed by signal 9")
	l.RankEnded(2, exit.OK, "")
	expect(t, l, exit.Critical, "rank rank 0: skipped", "rank rank 1: lost", "rank rank 2: ok")
}

func TestWrongDataIsItsRanks(t *testing.T) {
	l := empty(0)
	l.Joined(0, 2, nil)
	l.Add(Measurement{"all-reduce", false, 8, nil, 1, []any{map[string]any{"rank": 0, "wrong": 0}, map[string]any{"rank": 1, "wrong": 1}}})
	expect(t, l, exit.Critical, "all-reduce 8 bytes: wrong-data", "rank rank 0: skipped", "rank rank 1: wrong-data")
}

func TestFindingsFailTheirLinks(t *testing.T) {
	l := empty(0)
	for _, ends := range [][2]int{{0, 1}, {0, 2}, {1, 2}} {
		l.Add(Link{"links", true, ends[0], ends[1], 1.5})
	}
	l.Add(LinkFinding{"links", false, "slow", "sender", []int{0}, []int{}, false, "rank 0 sends slowly"})
	expect(t, l, exit.Warning, "link rank 0 () to rank 1 (): slow", "link rank 0 () to rank 2 (): slow",
		"link rank 1 () to rank 2 (): ok", "links rank 0 sends slowly: slow")
	if s := l.samples[prefix+`link_write_bytes_per_second{from="1",to="2"}`]; s.value != 1.5e9 {
		t.Errorf("1.5 GB/s are %g bytes a second", s.value)
	}
}

// Links are those that package links means by a finding, and each fails once.
func TestFindingsOfAllPlacesFailTheirLinks(t *testing.T) {
	for _, c := range []struct {
		culprit  string
		from, to []int
		both     bool
		want     string
	}{
		{"sender", []int{0}, nil, false, "01 02"},
		{"receiver", nil, []int{0}, false, "10 20"},
		{"node", []int{0}, []int{0}, false, "01 02 10 20"},
		{"pair", []int{0}, []int{2}, false, "02"},
		{"pair", []int{0}, []int{2}, true, "02 20"},
		{"group", []int{0}, []int{1, 2}, false, "01 02"},
		{"group", []int{0}, []int{1, 2}, true, "01 02 10 20"},
	} {
		l := empty(0)
		for from := range 3 {
			for to := range 3 {
				if from != to {
					l.Add(Link{"links", true, from, to, 1})
				}
			}
		}
		for range 2 {
			l.Add(LinkFinding{"links", false, "slow", c.culprit, c.from, c.to, c.both, "slow"})
		}
		findings := l.failed
		if err := l.Close(Run{ExitCode: exit.Warning}); err != nil {
			t.Fatal(err)
		}
		var failed []string
		for _, each := range l.cases {
			if each.class == "link" && !each.ok {
				failed = append(failed, fmt.Sprintf("%g%g", each.from, each.to))
			}
		}
		if want := strings.Fields(c.want); !slices.Equal(failed, want) || l.failed != findings+len(want) {
			t.Errorf("%s %d to %d, both ways: %t: links %q fail, %d are counted; want %q", c.culprit, c.from, c.to, c.both, failed, l.failed-findings, want)
		}
	}
}

func TestARetryBeginsAnew(t *testing.T) {
	l := empty(1)
	l.Joined(1, 2, nil)
	l.Add(Link{"links", false, 0, 1, 1})
	l.AddFailure(Failure{"connect", "rank 0 is lost", "lost", map[string]any{"rank": 0}, new(5)}, false)
	l.Joined(1, 2, nil)
	expect(t, l, exit.OK, "rank rank 0: ok", "rank rank 1: ok")
}

func TestAVerdictOfAllIsACaseWhereNoCheckHasIt(t *testing.T) {
	l := empty(-1)
	l.AddFailure(Failure{"doctor", "no such host", "host-unknown", nil, nil}, true)
	expect(t, l, exit.Usage, "run doctor: host-unknown")
	l = empty(-1)
	l.Add(Line{OK: false, Text: "expect wrong == 0", Error: "wrong is 1", Code: "expectation"})
	l.AddFailure(Failure{"expect", "wrong is 1", "expectation", nil, nil}, true)
	expect(t, l, exit.Critical, "command expect wrong == 0: expectation")
}

func TestAChildsLedgerIsItsParents(t *testing.T) {
	var pipe bytes.Buffer
	child := Send(&pipe, true)
	child.Joined(1, 2, nil)
	child.Add(Link{"links", true, 0, 1, 1})
	child.AddFailure(Failure{"ping", "no answer", "timeout", nil, nil}, false)
	text := pipe.String()
	for _, c := range []struct {
		rank int
		want []string
	}{
		{0, []string{"link rank 0 () to rank 1 (): ok", "rank rank 0: skipped", "rank rank 1: timeout"}},
		{1, []string{"rank rank 0: skipped", "rank rank 1: timeout"}},
	} {
		l := empty(-1)
		if err := l.Receive(strings.NewReader(text+`{"kind":"Li`), c.rank); err != nil {
			t.Error(err)
		}
		expect(t, l, exit.Critical, c.want...)
	}
	if err := empty(-1).Receive(strings.NewReader("what\n"), 0); err == nil {
		t.Error("what is no record was taken")
	}
}

func TestAScriptOfDaysHasBounds(t *testing.T) {
	l := empty(0)
	for range most + 5 {
		l.Add(Line{OK: true, Text: "ping"})
	}
	l.Add(Line{Text: "ping", Error: "no answer", Code: "timeout"})
	if n := len(l.cases); n != most+1 || l.left != 5 {
		t.Errorf("%d cases are kept, and %d left out", n, l.left)
	}
}

func TestFilesThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ junit, metrics, log, want string }{
		{filepath.Join(dir, "none", "x.xml"), "", "", "--junit " + dir},
		{"", filepath.Join(dir, "none", "x.prom"), "", "--metrics " + dir},
		{"", "", filepath.Join(dir, "none", "x.log"), "--log-file " + dir},
		{dir, "", "", "no regular file"},
		{"", "", dir, "no regular file"},
		{filepath.Join(dir, "x"), filepath.Join(dir, "x"), "", "both name"},
		{filepath.Join(dir, "x"), "", filepath.Join(dir, "x"), "--junit and --log-file both name"},
	} {
		if _, err := Open(Files{JUnit: c.junit, Metrics: c.metrics, Log: c.log}, Run{}, -1); exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	gone := filepath.Join(dir, "gone")
	if err := os.Mkdir(gone, 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := Open(Files{JUnit: filepath.Join(gone, "x.xml"), Metrics: filepath.Join(dir, "%r.prom")}, Run{}, -1)
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(gone); len(left) > 0 {
		t.Errorf("%v is there before the end", left)
	}
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	l.Joined(3, 4, nil)
	if err := l.Close(Run{}); exit.Code(err) != exit.Critical || !strings.Contains(err.Error(), "--junit x.xml") {
		t.Errorf("a folder that went away: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "3.prom")); err != nil {
		t.Errorf("the other file, with the rank in its name: %v", err)
	}
}

func TestNoLedgerKeepsNothing(t *testing.T) {
	l, err := Open(Files{}, Run{}, 0)
	if l != nil || err != nil {
		t.Fatal(l, err)
	}
	l.Add(Line{})
	l.Joined(0, 1, nil)
	l.Begin("x")
	if err := l.Close(Run{}); err != nil {
		t.Error(err)
	}
	var unwritten failing
	l = Send(unwritten, false)
	l.Add(Line{})
	if l.Close(Run{}) == nil {
		t.Error("a pipe that cannot be written is no error")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
