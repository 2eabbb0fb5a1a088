package cli

import (
	"bytes"
	"strings"
	"testing"

	"ringcli/cli/render"
)

// The names that scripts rely on.
func TestTheContractOfAMeasurement(t *testing.T) {
	var out bytes.Buffer
	if err := render.New(&out, render.JSON).Print(exampleMeasurement("all-reduce")); err != nil {
		t.Fatal(err)
	}
	o := objects(t, out.String())[0]
	for _, name := range strings.Fields("command ok bytes count type op protocol algorithm ranks iters time_us algbw_GBps busbw_GBps wrong per_rank") {
		if _, found := o[name]; !found {
			t.Errorf("no %q in %s", name, out.String())
		}
	}
	for _, name := range strings.Fields("min p50 p99 max") {
		if _, found := o["time_us"].(map[string]any)[name]; !found {
			t.Errorf("no time_us.%s in %s", name, out.String())
		}
	}
}

func TestMerge(t *testing.T) {
	zero, three := uint64(0), uint64(3)
	m := Measurement{Command: "all-reduce", Bytes: 3e6, Ranks: 3}
	m.merge([]RankMeasurement{
		{Rank: 0, Time: Times{Mean: 100}, Wrong: &zero},
		{Rank: 1, Time: Times{Mean: 3000}, Wrong: &three, First: &WrongElement{Rank: 1, Offset: 9}},
		{Rank: 2, Time: Times{Mean: 200}, Wrong: &three, First: &WrongElement{Rank: 2, Offset: 1}},
	})
	if m.OK || *m.Wrong != 6 || m.First.Rank != 1 || m.AlgBW != 1 || m.Time.Mean != 3000 {
		t.Errorf("got %+v, wrong %d, first %+v", m, *m.Wrong, m.First)
	}
	err := m.verdict(0)
	if ExitCode(err) != ExitCritical || !strings.Contains(err.Error(), "rank 1, element 9") {
		t.Errorf("the verdict is %v", err)
	}
	m.Wrong = nil
	if err := m.verdict(100); ExitCode(err) != ExitWarning {
		t.Errorf("below the floor: %v", err)
	}
	if err := m.verdict(1); err != nil {
		t.Errorf("above the floor: %v", err)
	}
}

func TestFigure(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0.000", 0.0014: "0.001", 9.9994: "9.999", 9.9996: "10.00", 99.99: "99.99", 99.996: "100.0", 999.94: "999.9", 999.96: "1000", 123456.7: "123457",
	} {
		if got := render.Figure(v); got != want {
			t.Errorf("%g is %q, want %q", v, got, want)
		}
	}
}

func TestSnakeCase(t *testing.T) {
	for name, want := range map[string]string{"RTS": "rts", "CopiedAllGather": "copied_all_gather", "Sent": "sent", "QPTimeouts": "qp_timeouts"} {
		if got := snakeCase(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}
