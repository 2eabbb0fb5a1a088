package path

import (
	"fmt"
	"testing"

	"ringcli/cli/doctor"
)

func TestTogether(t *testing.T) {
	name := func(rank int) string { return fmt.Sprintf("rank %d (n%d)", rank, rank) }
	for _, c := range []struct {
		what   string
		failed [][2]int // from, to
		want   string
	}{
		{"nothing", nil, ""},
		{"a receiver", [][2]int{{2, 3}, {4, 3}}, "2 of 12 checks failed, all of the path from its neighbours to rank 3 (n3), ranks 2, 4"},
		{"a sender", [][2]int{{3, 2}, {3, 4}}, "2 of 12 checks failed, all of the path from rank 3 (n3) to its neighbours, ranks 2, 4"},
		{"a rank", [][2]int{{2, 3}, {4, 3}, {3, 2}, {3, 4}}, "4 of 12 checks failed, all of the path between rank 3 (n3) and its neighbours, ranks 2, 4"},
		{"a direction", [][2]int{{2, 3}}, "1 of 12 checks failed, all of the path from rank 2 (n2) to rank 3 (n3)"},
		{"an edge", [][2]int{{2, 3}, {3, 2}}, "2 of 12 checks failed, all of the path between rank 2 (n2) and rank 3 (n3), in both directions"},
		{"two edges", [][2]int{{2, 3}, {5, 0}}, ""},
		{"a receiver, and another edge", [][2]int{{2, 3}, {4, 3}, {0, 1}}, ""},
		{"a receiver that one neighbour does not hear, too", [][2]int{{2, 3}, {4, 3}, {3, 2}}, ""},
	} {
		var rows []PathCheck
		for rank := range 6 {
			for _, to := range []int{(rank + 1) % 6, (rank + 5) % 6} {
				p := PathCheck{From: rank, To: to, Verdict: doctor.Pass}
				for _, f := range c.failed {
					if f == [2]int{rank, to} {
						p.Verdict = doctor.Fail
					}
				}
				rows = append(rows, p)
			}
		}
		got := ""
		if v := together(rows, "summary", name); v != nil {
			got = v.Text
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}
