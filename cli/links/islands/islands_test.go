package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// A run is made by the seed and its number alone.
func TestPlans(t *testing.T) {
	for _, kind := range kinds {
		sizes := map[int]bool{}
		for n := range 200 {
			p := newPlan(1, kind, n)
			if !reflect.DeepEqual(p, newPlan(1, kind, n)) || p.From == p.To || p.Ranks < 4 || p.Ranks > 8 || p.From >= p.Ranks || p.To >= p.Ranks {
				t.Fatalf("%s %d: %+v", kind, n, p)
			}
			sizes[p.Ranks] = true
		}
		if kind != "thin link" && len(sizes) != 5 {
			t.Errorf("%s: sizes %v: expected 4 to 8", kind, sizes)
		}
	}
}

func TestJudge(t *testing.T) {
	const end = `{"command":"links","ok":true,"findings":0,"ruled_out":1}` + "\n"
	finding := func(kind, culprit, from, to, both string) string {
		return `{"command":"links","finding":"` + kind + `","culprit":"` + culprit + `","from":[` + from + `],"to":[` + to + `],"both_ways":` + both + `,"text":"x"}` + "\n"
	}
	for _, c := range []struct {
		kind string
		out  string
		want grade
	}{
		{"healthy", end, right},
		{"healthy", finding("slow", "pair", "2", "3", "false") + end, wrong},
		{"slow sender", finding("slow", "sender", "2", "", "false") + end, right},
		{"slow sender", finding("slow", "receiver", "", "2", "false") + end, wrong},
		{"slow sender", end, nobody},
		{"slow receiver", finding("slow", "receiver", "", "3", "false") + end, right},
		{"slow pair", finding("slow", "pair", "2", "3", "false") + end, right},
		{"slow pair", finding("slow", "pair", "2", "3", "true") + end, wrong},
		{"slow pair", finding("slow", "pair", "2", "3", "false") + finding("slow", "sender", "2", "", "false") + end, wrong},
		{"crawling pair", finding("slow", "pair", "2", "3", "false") + end, right},
		{"crawling pair", finding("dead", "pair", "2", "3", "true") + end, wrong},
		{"lossy pair", finding("lossy", "pair", "2", "3", "false") + end, right},
		{"late pair", finding("late", "pair", "3", "2", "true") + end, right},
		{"thin link", finding("slow", "group", "1,3,5,7", "0,2,4,6", "true") + end, right},
		{"thin link", finding("slow", "group", "1,3,5", "0,2,4,6", "true") + end, nobody},
		{"thin link", finding("slow", "group", "1,2,5", "0,2,4,6", "true") + end, wrong},
		{"healthy", "", broken},
	} {
		p := plan{Kind: c.kind, Ranks: 8, From: 2, To: 3}
		if got, said := p.judge([]byte(c.out)); got != c.want {
			t.Errorf("%s: %s: %s, expected %s (%s)", c.kind, c.out, got, c.want, said)
		}
	}
}

// A run that is ended from outside says which it was, so that its plan can be made again.
func TestEndedRun(t *testing.T) {
	p := newPlan(7, "slow pair", 3)
	o := isolated("/nowhere", p, 0) // this program knows none of islands' flags
	if o.Grade != broken || o.Seed != 7 || o.Kind != "slow pair" || o.Number != 3 || o.Want != p.want() || o.Said == "" {
		t.Errorf("%+v", o)
	}
	line, err := json.Marshal(o)
	if err != nil || !strings.Contains(string(line), `"Seed":7,"Kind":"slow pair","Number":3`) {
		t.Errorf("%s (%v)", line, err)
	}
}

// The table is of the whole log, and a run that was made again counts once.
func TestSummary(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	add := func(kind string, number int, g grade) {
		line, err := json.Marshal(outcome{plan: newPlan(1, kind, number), Grade: g, Seconds: 2})
		if err == nil {
			err = appendLine(log, line)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	add("healthy", 0, right)
	add("slow pair", 0, nobody)
	add("healthy", 1, broken)
	add("healthy", 1, right) // again
	add("slow pair", 1, wrong)
	ended, err := readLog(log)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	bad := summary(&b, ended)
	const want = "" +
		"       kind  runs  right  wrong  nobody  broken  s each\n" +
		"    healthy     2      2      0       0       0     2.0\n" +
		"  slow pair     2      0      1       1       0     2.0\n"
	if b.String() != want || bad == nil || bad.Error() != "slow pair: 2 of 2 runs are not right" {
		t.Errorf("%s%v, expected\n%s", b.String(), bad, want)
	}
	for _, line := range []string{`{"Seed":1,"Kind":"heal`, `{"Seed":1,"Kind":"","Number":0}` + "\n", `{"Kind":"healthy","Ranks":4}` + "\n"} {
		if err := os.WriteFile(log, []byte(line), 0o644); err != nil {
			t.Fatal(err)
		}
		if ended, err := readLog(log); err == nil {
			t.Errorf("%s: %v, expected an error", line, ended)
		}
	}
}

// One run of each kind, for real.
func TestIslands(t *testing.T) {
	if testing.Short() {
		t.Skip("takes two minutes; `make test-long` runs it")
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root, for network namespaces")
	}
	for _, program := range []string{"ip", "tc"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s: %v", program, err)
		}
	}
	dir := t.TempDir()
	ringcli, islands := filepath.Join(dir, "ringcli"), filepath.Join(dir, "islands")
	for target, from := range map[string]string{ringcli: "ringcli/cli/ringcli", islands: "ringcli/cli/links/islands"} {
		if out, err := exec.Command("go", "build", "-o", target, from).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	for _, kind := range kinds {
		tried(t, kind, func(seed int) (grade, string) {
			log := filepath.Join(dir, "log")
			said, err := exec.Command(islands, "-ringcli", ringcli, "-runs", "1", "-only", kind, "-seed", fmt.Sprint(seed), "-log", log).CombinedOutput()
			ended, wrongLog := readLog(log)
			if wrongLog != nil || len(ended) == 0 {
				t.Fatalf("%s: %v, %v\n%s", kind, err, wrongLog, said)
			}
			return ended[len(ended)-1].Grade, string(said)
		})
	}
}

// tried runs a kind once more, up to three times in all, where nobody was named or the run broke:
// the other packages' tests take the CPUs at times, which links that a CPU carries feel. Whoever is
// named must be the right one, whatever the load.
func tried(t testing.TB, kind string, run func(seed int) (grade, string)) {
	t.Helper()
	for seed := 1; seed <= 3; seed++ {
		g, said := run(seed)
		switch g {
		case right:
			return
		case wrong:
			t.Errorf("%s, seed %d: a wrong name\n%s", kind, seed, said)
			return
		}
		t.Logf("%s, seed %d: %s\n%s", kind, seed, g, said)
	}
	t.Errorf("%s: not right in three runs", kind)
}

// verdict is a test that may fail.
type verdict struct {
	testing.TB
	failed bool
}

func (v *verdict) Helper()               {}
func (v *verdict) Logf(string, ...any)   {}
func (v *verdict) Errorf(string, ...any) { v.failed = true }

// A wrong name is no noise.
func TestTried(t *testing.T) {
	for _, c := range []struct {
		grades []grade
		fails  bool
	}{
		{[]grade{right}, false}, {[]grade{nobody, broken, right}, false},
		{[]grade{wrong, right}, true}, {[]grade{nobody, wrong, right}, true}, {[]grade{broken, nobody, nobody, right}, true},
	} {
		v := verdict{TB: t}
		tried(&v, "slow pair", func(seed int) (grade, string) { return c.grades[seed-1], "" })
		if v.failed != c.fails {
			t.Errorf("%v: fails: %v, expected %v", c.grades, v.failed, c.fails)
		}
	}
}
