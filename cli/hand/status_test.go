package hand

import (
	"fmt"
	"testing"

	"ringcli/cli/render"
)

// What is odd comes first, under a line that sums up.
func TestSummaryOfStatus(t *testing.T) {
	ends := func(change func(rows []LinkStatus)) []LinkStatus {
		var rows []LinkStatus
		for rank := range 8 {
			for _, device := range []string{"shm:0", "soft:lo"} {
				rows = append(rows, LinkStatus{OK: true, Rank: rank, RingState: "ready", Device: device, State: "RTS", MTU: 4096})
			}
		}
		change(rows)
		return rows
	}
	for _, c := range []struct {
		change  func(rows []LinkStatus)
		summary string
		mood    render.Mood
		first   []int // ranks
	}{
		{func([]LinkStatus) {}, "all in RTS", render.Good, []int{0, 0, 1}},
		{func(rows []LinkStatus) {
			rows[10].OK, rows[10].State = false, "ERR"
			rows[0].MTU = 1024
			rows[7].RingState = "error"
		}, "3 not in order or not as the others, shown first", render.Bad, []int{0, 3, 5, 0, 1}},
	} {
		rows, summary, mood := summed(ends(c.change), 8)
		if want := "8 ranks, 16 ends of edges over shm with MTU 4096, soft with MTU 4096: " + c.summary; summary != want || mood != c.mood || len(rows) != 16 {
			t.Errorf("%d rows, mood %v, %q, want %q", len(rows), mood, summary, want)
		}
		var first []int
		for _, r := range rows[:len(c.first)] {
			first = append(first, r.Rank)
		}
		if fmt.Sprint(first) != fmt.Sprint(c.first) {
			t.Errorf("%s: ranks %v first, want %v", c.summary, first, c.first)
		}
	}
}
