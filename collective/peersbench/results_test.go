//go:build linux

package main

import (
	"bytes"
	"errors"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"ringcli/collective"
)

// exampleResults are of one operation: at 8 bytes ours is twice as fast as the better
// peer, at 1M half as fast.
func exampleResults(t *testing.T) *Results {
	o := parse(t, "--sizes", "8,1M", "--ranks", "2", "--operations", "all-reduce", "--rounds", "3")
	r := newResults(o, 2)
	for i, c := range o.cells(2) {
		long := float64(1 + 999*i)
		for round := range 3 {
			slow := []float64{1, 10, 1}[round] // the machine is, for all
			now := taking{line: []float64{50, 400, 60}[round], others: 0.25, us: map[string]float64{}}
			for name, us := range map[string]float64{
				"openmpi": 4 * long, "mpich": 2 * long, "ringcli": 1 * (1 + 3*float64(i)) * long, "openmpi-tcp": 30 * long, "soft": 60 * long, "floor": 0.5 * long,
			} {
				r.of(c, name).Iters = 5
				now.us[name] = us * slow
			}
			r.keep(c, round, now)
		}
	}
	for round := range 3 {
		r.Rounds = append(r.Rounds, r.placement(2, round, time.Second))
	}
	r.Contenders = []About{{"openmpi", 2, "Open <MPI>", "v4", []string{"0", "1"}}}
	r.Notes, r.Failures = []string{"a note"}, []string{"a failure"}
	return r
}

func TestRatios(t *testing.T) {
	r := exampleResults(t)
	ratios := r.ratios()
	want := []struct {
		bytes     uint64
		who, by   string
		ratio     float64
		geometric float64
	}{{8, "ringcli", "mpich", 2, 1}, {8, "soft", "openmpi-tcp", 0.5, 0.5}, {1 << 20, "ringcli", "mpich", 0.5, 1}, {1 << 20, "soft", "openmpi-tcp", 0.5, 0.5}}
	if len(ratios) != len(want) {
		t.Fatalf("%+v", ratios)
	}
	for i, w := range want {
		got := ratios[i]
		if got.Bytes != w.bytes || got.Contender != w.who || got.Reference != w.by || got.Spread != (Spread{w.ratio, w.ratio, w.ratio}) {
			t.Errorf("%+v, want %+v", got, w)
		}
		if mean, n := geometric(ratios, collective.OpAllReduce, 2, w.who); n != 2 || math.Abs(mean-w.geometric) > 1e-12 {
			t.Errorf("%s: mean %g of %d, want %g of 2", w.who, mean, n, w.geometric)
		}
	}
	if mean, n := geometric(ratios, collective.OpAllGather, 2, "ringcli"); mean != 0 || n != 0 {
		t.Errorf("mean %g of %d of nothing", mean, n)
	}
	if p := r.Rounds[1]; p.Line != (Spread{400, 400, 400}) || p.Floor != 5000 || p.FloorOf != 1<<20 {
		t.Errorf("%+v", p)
	}
}

// A round in which one of both has failed has no ratio.
func TestRatioWithoutARound(t *testing.T) {
	r := exampleResults(t)
	c := r.cells[0]
	r.of(c.cell, "ringcli").us[1] = math.NaN()
	r.of(c.cell, "mpich").us = r.of(c.cell, "mpich").us[:2]
	got, ok := c.ratio("ringcli", "mpich")
	if !ok || got.Spread != (Spread{2, 2, 2}) {
		t.Errorf("%+v, %t", got, ok)
	}
	if _, ok := c.ratio("ringcli-slices", "mpich"); ok {
		t.Error("a ratio of what was not measured")
	}
	if got := spread([]float64{4, math.NaN(), 1, 2, 3}); got != (Spread{2.5, 1, 4}) {
		t.Errorf("%+v", got)
	}
	if got := spread(nil); got != (Spread{}) {
		t.Errorf("%+v", got)
	}
}

func TestTables(t *testing.T) {
	r := exampleResults(t)
	var out bytes.Buffer
	if err := r.print(&out); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`size +openmpi +mpich +floor +ringcli +best peer +by ringcli`,
		`8 +4\.00 +2\.00 +0\.50 +1\.00 +mpich +2\.00`,
		`1M +4000 +2000 +500 +4000 +mpich +0\.50`,
		`size +openmpi-tcp +soft +by soft +least +greatest`,
		`8 +30\.0 +60\.0 +0\.50 +0\.50 +0\.50`,
		`all-reduce +2 +1\.00 +0\.50 +1M +0\.50 +0\.50 +8`,
		`2 +2 +400 +400 +400 +5000 +1M +0\.25 +0\.25 +0\.00 +1\.0`,
		`all-reduce of 1M on 2 ranks, ringcli: 8\.00 \(8\.00-8\.00\) times the floor`,
		` +all-reduce +2 ranks +1M: ringcli 0\.50 \(0\.50-0\.50\) of mpich`,
		`failed: a failure`, `note: a note`,
	} {
		if !regexp.MustCompile(`(?m)^ *` + line + `$`).MatchString(out.String()) {
			t.Errorf("no line %s in\n%s", line, &out)
		}
	}
	for v, want := range map[float64]string{0: "-", 0.0049: "0.0049", 0.05: "0.050", 0.0996: "0.10", 9.994: "9.99", 9.996: "10.0", 99.96: "100", 123456: "123456"} {
		if got := figure(v); got != want {
			t.Errorf("%g is written %s, want %s", v, got, want)
		}
	}
}

// Rounds that have ended early are told of, and what there is has all its tables.
func TestStopped(t *testing.T) {
	o := parse(t, "--sizes", "8,1M,4M", "--ranks", "2,4", "--operations", "all-reduce,barrier", "--rounds", "3")
	why := errors.New("not done")
	for _, c := range []struct {
		cells int // that were measured once
		says  string
	}{{0, "after 0 of 6 rounds and 0 cells of the next"}, {2, "after 0 of 6 rounds and 2 cells of the next"}, {4, "after 1 of 6 rounds and 0 cells of the next"}} {
		r := newResults(o, 2)
		for i, in := range o.cells(2) {
			r.of(in, "ringcli").Iters = 5
			if i < c.cells {
				r.keep(in, 0, taking{us: map[string]float64{"ringcli": 1}})
			}
		}
		if c.cells == len(o.cells(2)) {
			r.Rounds = append(r.Rounds, r.placement(2, 0, time.Second))
		}
		if err := r.stop(why); !errors.Is(err, why) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want %q", err, c.says)
		}
		var text, lines bytes.Buffer
		if err := errors.Join(r.print(&text), r.json(&lines)); err != nil {
			t.Error(err)
		}
		for _, out := range []*bytes.Buffer{&text, &lines} {
			if !strings.Contains(out.String(), c.says) {
				t.Errorf("no %q in\n%s", c.says, out)
			}
		}
	}
}

// What has become slower by more than 3 % is said.
func TestBaselineTable(t *testing.T) {
	r := exampleResults(t)
	if text := r.baselineTable(); text != "" {
		t.Errorf("a table without a baseline:\n%s", text)
	}
	for i, c := range r.cells {
		for round, us := range r.of(c.cell, "ringcli").us {
			r.of(c.cell, "baseline").put(round, us*[]float64{2, 0.96}[i])
		}
	}
	text := r.baselineTable()
	for _, line := range []string{
		`all-reduce +2 +8 +2\.000 \(2\.000-2\.000\)`, `all-reduce +2 +1M +0\.960 \(.*`, `all-reduce +2 +mean +1\.386`, // the root of 1.92
		`slower than the baseline by more than 3 %:`, `all-reduce +2 ranks +1M: ringcli 0\.96 \(0\.96-0\.96\) of baseline`,
	} {
		if !regexp.MustCompile(`(?m)^ *` + line + `$`).MatchString(text) {
			t.Errorf("no line %s in\n%s", line, text)
		}
	}
}

func TestPlaces(t *testing.T) {
	for want, cpus := range map[string][]string{"0 | 1 | 0": {"0", "1", "0"}, "2,3": {"2,3", "2,3", "2,3"}, "": nil} {
		if got := (About{CPUs: cpus}).Places(); got != want {
			t.Errorf("%q: %q, want %q", cpus, got, want)
		}
	}
}
