package bench

import (
	"slices"
	"strings"
	"testing"

	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/timing"
	"ringcli/collective"
)

func TestCompareRowMarks(t *testing.T) {
	_, cells := render.Row(threeRows()[1])
	if cells[4].Text != markAuto || cells[8].Text != markBest || cells[8].Mood != render.Good || cells[12].Text != "" {
		t.Errorf("got %v", cells)
	}
}

func TestWhoIsAheadWhere(t *testing.T) {
	rows := threeRows()
	sum := Summarise("bench all-reduce", rows, 1.6)
	// 2 % at 64K, and 1 % at 16M, are no lead.
	want := []Stretch{
		{threeVariants[0], 4 << 10, 64 << 10, "eager"},
		{threeVariants[1], 1 << 20, 16 << 20, "rendezvous-write"},
		{threeVariants[2], 1 << 30, 1 << 30, "rendezvous-read"},
	}
	if !slices.Equal(sum.Ahead, want) || !slices.Equal(sum.Crossovers, []uint64{1 << 20, 1 << 30}) {
		t.Errorf("ahead: %v, crossovers at %d", sum.Ahead, sum.Crossovers)
	}
	if sum.OK || *sum.Wrong != 16383 || sum.Sizes != 5 {
		t.Errorf("%+v", sum)
	}
	for floor, code := range map[float64]int{0: exit.OK, 1.6: exit.OK, 1.7: exit.Warning} {
		sum := Summarise("bench all-reduce", rows[:4], floor)
		if err := sum.verdict(); exit.Code(err) != code && floor < 1.7 {
			t.Errorf("floor %g: %v", floor, err)
		}
	}
	sum = Summarise("bench all-reduce", rows, 1.7)
	if err := sum.verdict(); exit.Code(err) != exit.Warning || !strings.Contains(err.Error(), "rendezvous-write, is 1.676 GB/s, expected at least 1.700") || sum.OK {
		t.Errorf("below the floor: %v", err)
	}
}

// threeVariants are compared in threeRows.
var threeVariants = Variants{
	{collective.AlgorithmRing, collective.Eager, ""}, {collective.AlgorithmRing, collective.RendezvousWrite, ""}, {collective.AlgorithmRing, collective.RendezvousRead, ""},
}

// threeRows are a comparison of three protocols in which each is ahead once,
// and a lead of 2 % is none.
func threeRows() []CompareRow {
	none, wrong := uint64(0), uint64(16383)
	var rows []CompareRow
	for _, r := range []struct {
		bytes uint64
		us    [3]float64
		auto  collective.Protocol
	}{
		{4 << 10, [3]float64{10, 20, 30}, collective.Eager},
		{64 << 10, [3]float64{50, 49, 90}, collective.Eager},
		{1 << 20, [3]float64{900, 700, 800}, collective.RendezvousWrite},
		{16 << 20, [3]float64{14000, 9999.94, 9900}, collective.RendezvousWrite},
		{1 << 30, [3]float64{2345678.5, 1234567, 1000000}, collective.RendezvousWrite},
	} {
		row := CompareRow{Variants: threeVariants, Auto: Variant{collective.AlgorithmRing, r.auto, ""}}
		for i, w := range threeVariants {
			m := threeMeasured("all-reduce")
			m.Bytes, m.Count, m.Protocol, m.PerRank, m.Wrong = r.bytes, r.bytes/4, w.Protocol, nil, &none
			m.Time = timing.Times{Min: r.us[i] / 2, P50: r.us[i], P99: 2 * r.us[i], Max: 3 * r.us[i], Mean: r.us[i]}
			m.AlgBW, m.BusBW = timing.Bandwidth(m.Command, r.bytes, 4, r.us[i])
			row.Each = append(row.Each, m)
			if r.us[i] < r.us[row.Best] {
				row.Best = i
			}
		}
		rows = append(rows, row)
	}
	rows[4].Each[0].OK, rows[4].Each[0].Wrong = false, &wrong
	return rows
}

func threeMeasured(command string) Measurement {
	none := uint64(0)
	times := timing.Times{Min: 1.234, P50: 123456.5, P99: 1234567.25, Max: 2345678.5, Mean: 123457}
	m := Measurement{
		Command: command, OK: true, Bytes: 1 << 30, Count: 1 << 28, Type: "float32", Op: "sum", Protocol: collective.RendezvousWrite,
		Algorithm: collective.AlgorithmRing, Ranks: 4, Iters: 20, Time: times, AlgBW: 1.5, BusBW: 1.125, Wrong: &none,
	}
	for rank := range 2 {
		m.PerRank = append(m.PerRank, RankMeasurement{Rank: rank, Time: times, Wrong: &none})
	}
	return m
}
