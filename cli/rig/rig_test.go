package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// The seed and the number define a case, and a cycle has every kind.
func TestPlans(t *testing.T) {
	n := len(cycle())
	count := map[string]int{}
	for number := range 20 * n {
		p := newPlan(1, number)
		if !reflect.DeepEqual(p, newPlan(1, number)) || p.Rank == p.To || max(p.Rank, p.To) >= ranks || !slices.Contains(p.kind().scripts, p.Script) {
			t.Fatalf("case %d: %+v", number, p)
		}
		if i := p.textual(); i == 0 || i == p.Rank || i == p.To {
			t.Errorf("%s: rank %d prints text", &p, i)
		}
		count[p.Kind]++
	}
	faults := 0
	for _, k := range kinds {
		if count[k.name] != 20*k.cases {
			t.Errorf("%s: %d cases of %d", k.name, count[k.name], 20*n)
		}
		if k.judge != nil {
			faults += count[k.name]
		}
	}
	if faults < 300 || count["healthy under load"] < 60 {
		t.Errorf("%d cases with a culprit and %d healthy ones under load: expected 300 and 60", faults, count["healthy under load"])
	}
}

// What is said in JSON, and what it is beside the fault.
func TestGrades(t *testing.T) {
	late := func(kind string, rank, to int) string {
		return fmt.Sprintf(`{"command":"all-reduce","ok":true,"late":[{"kind":"%s","rank":%d,"to":%d,"text":"x"}]}`, kind, rank, to)
	}
	found := func(kind, culprit, from, to string, both bool) string {
		return fmt.Sprintf(`{"command":"links","finding":"%s","culprit":"%s","from":[%s],"to":[%s],"both_ways":%t,"confidence":"certain","text":"x"}`, kind, culprit, from, to, both)
	}
	verdict := func(text string) string { return `{"command":"connect","ok":false,"verdict":{` + text + `}}` }
	for _, c := range []struct {
		kind, script string
		out          string
		want         []opinion
	}{
		{"healthy", reduce, `{"command":"all-reduce","ok":true}`, nil},
		{"healthy", reduce, late("no-cpu", 2, -1), []opinion{misleads}},
		{"CPU hog on the host", reduce, late("no-cpu", 2, -1), []opinion{misleads}},
		{"CPU hog on a rank", reduce, late("no-cpu", 2, -1), []opinion{names}},
		{"CPU hog on a rank", reduce, late("no-cpu", 3, 2), []opinion{misleads}},
		{"CPU hog on a rank", reduce, late("slow-edge", 2, 3), []opinion{misleads}},
		{"loss", reduce, late("no-cpu", 3, -1), []opinion{misleads}},
		{"loss", reduce, late("lossy-edge", 2, 3), []opinion{names}},
		{"loss", measure, found("lossy", "pair", "3", "2", false), []opinion{names}},
		{"loss", measure, found("lossy", "pair", "2", "3", true), []opinion{names}},
		{"one-way loss", measure, found("lossy", "pair", "2", "3", true), []opinion{misleads}},
		{"one-way loss", measure, found("lossy", "pair", "3", "2", false), []opinion{misleads}},
		{"one-way loss", reduce, late("slow-edge", 2, 3), []opinion{harmless}},
		{"one-way loss", reduce, late("no-cpu", 2, 3), []opinion{misleads}},
		{"rate of an edge", measure, found("slow", "pair", "2", "3", false), []opinion{names}},
		{"rate of an edge", measure, found("slow", "sender", "2", "", false), []opinion{misleads}},
		{"rate of a sender", measure, found("slow", "sender", "2", "", false), []opinion{names}},
		{"rate of a sender", measure, found("slow", "pair", "2", "3", false), []opinion{misleads}},
		{"rate of a sender", reduce, late("slow-edge", 2, 3), []opinion{names}},
		{"rate of a sender", reduce, late("slow-edge", 1, 2), []opinion{misleads}},
		{"rate of a sender", reduce, late("slow-sender", 2, -1), []opinion{names}},
		{"rate of a sender", reduce, late("slow-rank", 2, -1), []opinion{harmless}},
		{"rate of a receiver", reduce, late("slow-edge", 1, 2), []opinion{names}},
		{"rate of a receiver", measure, found("slow", "receiver", "", "2", false), []opinion{names}},
		{"rate of a receiver", measure, found("slow", "receiver", "", "3", false), []opinion{misleads}},
		{"thin uplink", measure, found("slow", "group", "3,4,5", "0,1,2", true), []opinion{names}},
		{"thin uplink", measure, found("slow", "group", "3,4", "0,1,2", true), []opinion{misleads}},
		{"late edge", measure, found("late", "pair", "3", "2", true), []opinion{names}},
		{"one-way block", reduce, verdict(`"kind":"edge","rank":-1,"edge":{"from":2,"to":3},"text":"does not arrive"`), []opinion{names}},
		{"one-way block", reduce, verdict(`"kind":"edge","rank":-1,"edge":{"from":2,"to":3,"both":true},"text":"does not arrive"`), []opinion{misleads}},
		{"dead receiver", reduce, verdict(`"kind":"edge","rank":-1,"edge":{"from":1,"to":2},"text":"does not arrive"`), []opinion{harmless}},
		{"dead receiver", reduce, verdict(`"kind":"edge","rank":2,"text":"rank 2 receives nothing"`), []opinion{names}},
		{"kill", reduce, verdict(`"kind":"lost","rank":2,"text":"x"`), []opinion{names}},
		{"kill", reduce, verdict(`"kind":"lost","rank":1,"text":"x"`), []opinion{misleads}},
		{"kill", reduce, verdict(`"kind":"canceled","rank":1,"text":"x"`), nil},
		{"mtu hole of a port", look, `{"command":"path","check":"size","verdict":"FAIL","from":1,"to":2}`, []opinion{harmless}},
		{"wrong route", look, `{"command":"doctor","ranks":[2],"check":"route","verdict":"FAIL"}`, []opinion{names}},
		{"wrong route", look, `{"command":"doctor","ranks":[4],"check":"route","verdict":"FAIL"}`, []opinion{misleads}},
		{"port taken", reduce, `{"command":"connect","ok":false,"code":"port-taken","error":"x"}`, []opinion{names}},
	} {
		o := outcome{plan: plan{Kind: c.kind, Script: c.script, Rank: 2, To: 3}}
		var got []opinion
		for _, a := range accusations(2, c.out) {
			got = append(got, o.opinion(a))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %s: %v, expected %v", c.kind, c.out, got, c.want)
		}
	}
}

// Files that accuse another rank than JSON, or nobody.
func TestFilesDisagree(t *testing.T) {
	dir := t.TempDir()
	write := func(metrics, junit, bad, good string) {
		for name, text := range map[string]string{"rig-0.prom": metrics, "junit-0.xml": junit, "bad-0": bad, "good-0": good} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	const code = `ringcli_run_exit_code{ring="rig-*"} 2` + "\n"
	o := outcome{plan: plan{Kind: "kill", Rank: 2, To: 3}, Codes: []int{2, 2, -1, 2, 2, 2}}
	o.accused = accusations(0, `{"verdict":{"kind":"lost","rank":2,"confidence":"certain"}}`)
	for _, c := range []struct{ metrics, junit, bad, good, want string }{
		{code + `ringcli_rank_success{of_rank="2"} 0` + "\n", "rank 2", address(2), address(0), ""},
		{code + `ringcli_rank_success{of_rank="0"} 0` + "\n", "rank 0", address(2), address(0), "JUnit accuses the reporting rank, JSON does not|metrics accuse the reporting rank, JSON does not"},
		{code, "rank 2", "", address(2), "--bad-hosts lacks rank 2, which JSON accuses|rank 2 has failed in JUnit: true, in metrics: false"},
		{`ringcli_run_exit_code{} 0` + "\n", "", address(2), "", "exit code 2, but 0 in metrics"},
	} {
		write(c.metrics, `<testsuites><testsuite><testcase name="`+c.junit+`"><failure/></testcase></testsuite></testsuites>`, c.bad, c.good)
		got := o.disagreements(0, dir)
		slices.Sort(got)
		if strings.Join(got, "|") != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// A wrong accusation and too few right ones are errors.
func TestSummary(t *testing.T) {
	all := map[int]outcome{}
	for n := range 100 {
		all[n] = outcome{plan: plan{Kind: "kill", Number: n}, Grade: right, Seconds: float64(n), Wall: 3}
	}
	put := func(n int, g grade, bad ...string) {
		all[n] = outcome{plan: plan{Kind: "stop", Number: n}, Grade: g, Bad: bad}
	}
	for n := range 5 {
		put(n, nobody)
	}
	var b strings.Builder
	if err := summary(&b, all); err != nil {
		t.Error(err)
	}
	const want = "" +
		"  kind  cases  right  nobody  wrong  broken  bad  p50 s  p99 s  wall s\n" +
		"  kill     95     95       0      0       0    0   52.0   98.0     3.0\n" +
		"  stop      5      0       5      0       0    0      -      -     0.0\n" +
		"   all    100     95       5      0       0    0   52.0   98.0     2.9\n"
	if b.String() != want {
		t.Errorf("%s, expected\n%s", &b, want)
	}
	for n, g := range map[int]grade{5: nobody, 6: wrong} {
		put(n, g)
		if err := summary(&b, all); err == nil {
			t.Errorf("%s: no error", g)
		}
		put(n, right)
	}
	put(7, right, "exit code 3")
	if err := summary(&b, all); err == nil {
		t.Error("bad: no error")
	}
}

// A case of each kind, for real, two at a time.
func TestRig(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes; `make test-long` runs it")
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root, for network namespaces")
	}
	for _, program := range []string{"ip", "tc", "iptables", "prlimit"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s: %v", program, err)
		}
	}
	dir := t.TempDir()
	ringcli, rig := filepath.Join(dir, "ringcli"), filepath.Join(dir, "rig")
	for target, from := range map[string]string{ringcli: "ringcli/cli/ringcli", rig: "ringcli/cli/rig"} {
		if out, err := exec.Command("go", "build", "-o", target, from).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	var inOrder []string
	for _, k := range cycle() {
		inOrder = append(inOrder, k.name)
	}
	one := func(kind string, seed int) outcome {
		log := filepath.Join(dir, fmt.Sprintf("%s %d", kind, seed))
		number := slices.Index(inOrder, kind)
		said, _ := exec.Command(rig, "-ringcli", ringcli, "-from", fmt.Sprint(number), "-cases", "1", "-seed", fmt.Sprint(seed), "-log", log, "-keep", filepath.Join(dir, "keep")).CombinedOutput()
		var o outcome
		if text, err := os.ReadFile(log); err != nil || json.Unmarshal(text, &o) != nil {
			t.Errorf("%s: %v\n%s", kind, err, said)
		}
		return o
	}
	var workers sync.WaitGroup
	jobs := make(chan string)
	begun := time.Now()
	for range 2 {
		workers.Go(func() {
			for kind := range jobs {
				tried(t, kind, one)
			}
		})
	}
	count := 0
	for _, k := range kinds {
		if k.open != "" {
			t.Logf("NOT TRIED, but by `make rig`: %s: %s", k.name, k.open)
			continue
		}
		jobs <- k.name
		count++
	}
	close(jobs)
	workers.Wait()
	t.Logf("%d kinds in %.0f s", count, time.Since(begun).Seconds())
}

// tried runs a kind once more, up to three times in all, where nobody was named or the rig
// broke: the tests of other packages take the CPUs at times. A wrong accusation fails at
// once, whatever the load.
func tried(t testing.TB, kind string, run func(kind string, seed int) outcome) {
	t.Helper()
	for seed := 1; seed <= 3; seed++ {
		o := run(kind, seed)
		switch {
		case o.Grade == wrong, o.Grade == right && len(o.Bad) > 0:
			t.Errorf("%s: %s: %s\n%s", &o.plan, o.Grade, strings.Join(o.Said, "\n"), strings.Join(o.Bad, "\n"))
			return
		case o.Grade == right:
			return
		case o.Grade == broken && len(o.Said) > 0 && strings.HasPrefix(o.Said[0], noGroup):
			t.Logf("%s: not run: %s", kind, o.Said[0])
			return
		}
		t.Logf("%s: %s: %s", &o.plan, o.Grade, strings.Join(o.Said, "\n"))
	}
	t.Errorf("%s: not right in three runs", kind)
}

// failing is a test that may fail.
type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Helper()               {}
func (f *failing) Logf(string, ...any)   {}
func (f *failing) Errorf(string, ...any) { f.failed = true }

// A wrong accusation is no noise.
func TestTried(t *testing.T) {
	for _, c := range []struct {
		grades []grade
		fails  bool
	}{
		{[]grade{right}, false}, {[]grade{nobody, broken, right}, false},
		{[]grade{wrong, right}, true}, {[]grade{nobody, wrong, right}, true}, {[]grade{broken, nobody, nobody, right}, true},
	} {
		f := failing{TB: t}
		tried(&f, "kill", func(_ string, seed int) outcome {
			return outcome{plan: newPlan(1, 0), Grade: c.grades[seed-1]}
		})
		if f.failed != c.fails {
			t.Errorf("%v: fails: %t, expected %t", c.grades, f.failed, c.fails)
		}
	}
}
