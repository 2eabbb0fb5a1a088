package bench

import (
	"strings"
	"testing"

	"ringcli/cli/bench/corruption"
	"ringcli/cli/exit"
	"ringcli/cli/timing"
)

func TestMerge(t *testing.T) {
	zero, three := uint64(0), uint64(3)
	m := Measurement{Command: "all-reduce", Bytes: 3e6, Ranks: 3}
	m.merge([]RankMeasurement{
		{Rank: 0, Time: timing.Times{Mean: 100}, Wrong: &zero},
		{Rank: 1, Time: timing.Times{Mean: 3000}, Wrong: &three, First: &corruption.WrongElement{Rank: 1, Offset: 9}},
		{Rank: 2, Time: timing.Times{Mean: 200}, Wrong: &three, First: &corruption.WrongElement{Rank: 2, Offset: 1}},
	}, []float64{100, 1, 2, 3, 4}, false)
	if m.OK || *m.Wrong != 6 || m.First.Rank != 1 || m.AlgBW != 1 || m.Time.Mean != 3000 || *m.Spread != 33.3 {
		t.Errorf("got %+v, wrong %d, first %+v", m, *m.Wrong, m.First)
	}
	err := m.verdict(0, nil)
	if exit.Code(err) != exit.Critical || !strings.Contains(err.Error(), "rank 1, element 9") {
		t.Errorf("the verdict is %v", err)
	}
	// Where nobody said how many iterations, it is the median of the batches.
	m.merge([]RankMeasurement{{Time: timing.Times{Mean: 100}}}, []float64{100, 1, 2, 3, 4}, true)
	if m.Time.Mean != 3 || m.AlgBW != 1000 {
		t.Errorf("got %+v", m)
	}
	m.AlgBW, m.BusBW = 1, 4./3
	m.Wrong = nil
	if err := m.verdict(100, nil); exit.Code(err) != exit.Warning {
		t.Errorf("below the floor: %v", err)
	}
	if err := m.verdict(1, nil); err != nil {
		t.Errorf("above the floor: %v", err)
	}
}
