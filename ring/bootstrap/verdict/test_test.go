package verdict

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func name(rank int) string { return fmt.Sprintf("rank %d", rank) }

// tested are tests in words: "2>3 nothing", of an edge that failed "2>3! nothing".
func tested(words ...string) (list []Test) {
	for _, w := range words {
		t := Test{Sent: []int{0, 256, 1024}, Address: "a", Port: 4791}
		edge, result, _ := strings.Cut(w, " ")
		if failed, is := strings.CutSuffix(edge, "!"); is {
			edge, t.Since = failed, time.Second
		}
		if _, err := fmt.Sscanf(edge, "%d>%d", &t.From, &t.To); err != nil {
			panic(err)
		}
		switch result {
		case "all":
			t.Arrived = t.Sent
		case "short":
			t.Arrived = t.Sent[:2]
		case "some":
			t.Arrived = []int{1024}
		case "counted":
			t.Sent, t.Counted = nil, "expects 7"
		}
		list = append(list, t)
	}
	return list
}

// A rank is named if all its edges in a direction are bad in the same way, two at least.
func TestRollUp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tests   []Test
		rank    int
		culprit Culprit
		edge    Direction
		sure    Confidence
		text    string
	}{
		{tested("2>3! all", "3>2! all"), -1, "", Direction{}, "", ""},
		{tested("2>3! nothing", "3>2! all"), -1, "", Direction{2, 3, false}, Certain, "what rank 2 sends to rank 3 over UDP port 4791 does not arrive; what rank 3 sends does (for 1s)"},
		{tested("2>3! nothing", "3>2! nothing"), -1, "", Direction{2, 3, true}, Certain, "in either direction"},
		{tested("2>3! nothing", "3>2! all", "4>3 nothing", "3>4 all", "1>2 all", "2>1 all"), 3, Receiver, Direction{}, Certain, "rank 3 receives nothing over UDP port 4791, from ranks 2, 4; what it sends arrives"},
		{tested("3>2! all", "2>3! nothing", "4>3 nothing", "3>4 nothing"), 3, Receiver, Direction{}, Certain, "rank 3 receives nothing over UDP port 4791, from ranks 2, 4 (for 1s)"},
		{tested("2>3! all", "3>2! nothing", "4>3 all", "3>4 nothing"), 3, Sender, Direction{}, Certain, "nothing that rank 3 sends over UDP port 4791 arrives at ranks 2, 4; what they send arrives at it"},
		{tested("2>3! nothing", "3>2! nothing", "4>3 nothing", "3>4 nothing"), 3, Whole, Direction{}, Certain, "nothing passes between rank 3 and ranks 2, 4 over UDP port 4791, in either direction"},
		{tested("2>3! short", "3>2! all", "4>3 short", "3>4 all"), 3, Receiver, Direction{}, Certain, "rank 3 receives no packet with over 256 bytes of payload"},
		{tested("2>3! some", "3>2! all", "4>3 some", "3>4 all"), 3, Receiver, Direction{}, Suspect, "receives only a part of the packets"},
		{tested("2>3! counted", "4>3! counted"), 3, Receiver, Direction{}, Suspect, "rank 3 receives nothing"},
		// One edge of a rank, twice over or with another fault at the other, is no verdict on the rank.
		{tested("2>3! nothing", "3>2! all", "4>3 all", "3>4 all"), -1, "", Direction{2, 3, false}, Certain, "does not arrive"},
		{tested("2>3! nothing", "2>3 nothing", "3>2! all"), -1, "", Direction{2, 3, false}, Certain, "does not arrive"},
		{tested("2>3! nothing", "3>2! all", "4>3 short", "3>4 all"), -1, "", Direction{2, 3, false}, Certain, "does not arrive"},
		{tested("2>3! nothing", "3>2! all", "4>3 all", "3>4 nothing"), -1, "", Direction{2, 3, false}, Certain, "does not arrive"},
		// What has failed counts, not a probe that was lost elsewhere.
		{tested("2>3! short", "3>2! all", "1>2 some", "2>1 all"), -1, "", Direction{2, 3, false}, Certain, "over 256 bytes of payload from rank 2"},
	} {
		for range 2 {
			v := RollUp(c.tests, name)
			slices.Reverse(c.tests)
			switch {
			case v == nil && c.text == "":
			case v == nil || c.text == "" || v.Kind != KindEdge || v.Rank != c.rank || v.Culprit != c.culprit || v.Edge != c.edge || v.Confidence != c.sure || !strings.Contains(v.Text, c.text):
				t.Errorf("%+v\nof %+v\nexpected rank %d as %q, edge %v, %s, %q", v, c.tests, c.rank, c.culprit, c.edge, c.sure, c.text)
			}
		}
	}
}

// Whatever the order in which ranks hear of verdicts on edges, they come to the same one.
func TestCombine(t *testing.T) {
	t.Parallel()
	var all []*Verdict
	for by, tests := range [][]Test{tested("2>3! nothing", "3>2! all"), tested("4>3! nothing", "3>4! all"), tested("4>3! nothing", "3>4! all", "4>5 all")} {
		v := RollUp(tests, name)
		v.By = by
		all = append(all, v)
	}
	var first *Verdict
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		v := all[order[0]]
		for _, i := range order[1:] {
			v = Combine(all[i], v, name)
		}
		if first == nil {
			first = v
		}
		if v.Rank != 3 || v.Culprit != Receiver || v.Text != first.Text || !slices.Equal(v.Evidence, first.Evidence) {
			t.Errorf("in the order %v: %+v\nexpected receiver 3, as in the first: %+v", order, v, first)
		}
	}
	if v := Combine(all[0], &Verdict{Kind: KindLost, Rank: 3, Confidence: Certain}, name); v != nil {
		t.Errorf("with a verdict that rests on no tests: %+v", v)
	}
}
