package main

import (
	"reflect"
	"strings"
	"testing"
)

// A case is made by the seed and its number alone, all kinds come, and none is impossible.
func TestPlans(t *testing.T) {
	kinds, taken := map[string]int{}, map[string]bool{}
	for n := range 2000 {
		p := newPlan(1, n)
		if !reflect.DeepEqual(p, newPlan(1, n)) {
			t.Fatalf("case %d is not the same twice", n)
		}
		kinds[p.Kind+" "+p.Proto+" "+p.Provider+" "+string(p.Expect)]++
		for _, line := range p.Lines {
			fields := strings.Fields(line)
			if len(fields) < 5 {
				continue
			}
			way := fields[0] + " " + fields[2] + " " + fields[4]
			taken[way] = true
			if !p.fits(fields[0], fields[2], fields[4]) || fields[2] == "hierarchical" && p.Hosts == "" || (fields[0] == "broadcast" || fields[0] == "reduce") != strings.Contains(line, " --root ") {
				t.Errorf("%s: %s", &p, line)
			}
		}
		isCut := p.Kind == cut || p.Kind == blip || p.Kind == flap
		if isCut != (p.Peer >= 0) || p.Peer == p.Victim || p.Proto != "" && p.Provider != "soft" {
			t.Errorf("%s: %+v", &p, p)
		}
		if p.Expect != goes && len(p.Lines) == 1 && p.Lines[0] != "sleep 14s" {
			t.Errorf("%s: it may be over before the fault is noticed", &p)
		}
	}
	for _, want := range []string{
		"kill  soft dies", "kill  shm dies", "stop  shm dies", "pause  shm goes", "pause  soft maybe", "cut tcp soft dies", "cut udp soft maybe",
		"cut all soft dies", "isolate all soft dies", "blip udp soft goes", "flap tcp soft goes", "delay  shm goes", "delay  soft goes",
	} {
		if kinds[want] == 0 {
			t.Errorf("no %q among 2000 cases: %v", want, kinds)
		}
	}
	// All-reduce goes all ten ways, barriers six, and the others all but receiver-initiated.
	if want := 10 + 4*9 + 6; len(taken) != want {
		t.Errorf("%d ways of operations among 2000 cases: expected %d: %v", len(taken), want, taken)
	}
}

func TestGrade(t *testing.T) {
	edge := func(from, to int) *verdict {
		v := &verdict{Rank: -1, Confidence: "certain"}
		v.Edge = &struct {
			From int  `json:"from"`
			To   int  `json:"to"`
			Both bool `json:"both"`
		}{From: from, To: to}
		return v
	}
	rank := func(rank int, confidence string) *verdict { return &verdict{Rank: rank, Confidence: confidence} }
	killed, lost, alone := &plan{Kind: kill, Victim: 2, Peer: -1}, &plan{Kind: cut, Victim: 2, Peer: 1}, &plan{Kind: isolate, Victim: 2, Peer: -1}
	for _, c := range []struct {
		p    *plan
		v    *verdict
		want grade
	}{
		{killed, rank(2, "certain"), certain}, {killed, rank(2, "suspect"), right}, {killed, rank(1, "suspect"), wrong},
		{killed, rank(1, "certain"), wrongCertain}, {killed, rank(-1, "suspect"), vague}, {killed, edge(1, 2), wrongCertain},
		{lost, edge(1, 2), certain}, {lost, edge(2, 1), certain}, {lost, edge(2, 3), wrongCertain}, {lost, rank(1, "suspect"), vague},
		{lost, rank(1, "certain"), wrongCertain}, {lost, rank(0, "suspect"), wrong},
		{alone, rank(2, "certain"), certain}, {alone, edge(2, 3), certain}, {alone, edge(0, 1), wrongCertain},
	} {
		if got := c.p.grade(c.v); got != c.want {
			t.Errorf("%s: %+v is %q: expected %q", c.p.Kind, c.v, got, c.want)
		}
	}
}

// One wrong verdict of a hundred is too much if it is certain.
func TestSummary(t *testing.T) {
	all := map[int]outcome{}
	for n := range 100 {
		all[n] = outcome{plan: plan{Number: n, Kind: kill, Provider: "shm", Peer: -1}, Grades: []grade{certain, certain, certain}, Verdicts: make([]verdict, 3), Seconds: []float64{1, 2, 3}}
	}
	var b strings.Builder
	if err := summary(&b, all); err != nil || !strings.Contains(b.String(), "100.0") {
		t.Errorf("%v\n%s", err, b.String())
	}
	for n, c := range map[int][]grade{0: {wrong, certain, certain}, 1: {vague, right, right}, 2: {vague, vague, certain}} {
		o := all[n]
		o.Grades = c
		all[n] = o
	}
	if err := summary(&b, all); err == nil || !strings.Contains(err.Error(), "99 %") {
		t.Errorf("%v: expected too few right ones", err)
	}
}
