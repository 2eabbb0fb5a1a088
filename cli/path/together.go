package path

import (
	"fmt"
	"slices"

	"ringcli/cli/doctor"
	"ringcli/configs/codes"
	"ringcli/ring/bootstrap/calls"
	"ringcli/ring/bootstrap/verdict"
)

// together is what all checks that failed have in common: a rank as receiver, as sender or as
// both, as the ring's roll-up has it, or an edge; nil if one of them has nothing to do with it.
func together(rows []PathCheck, summary string, name func(rank int) string) *verdict.Verdict {
	var tests []verdict.Test // whether a direction is well stands for what arrives
	failed, edges := 0, map[[2]int]bool{}
	for _, p := range rows {
		i := slices.IndexFunc(tests, func(t verdict.Test) bool { return t.From == p.From && t.To == p.To })
		if i < 0 {
			i, tests = len(tests), append(tests, verdict.Test{From: p.From, To: p.To, Sent: []int{0}, Arrived: []int{0}})
		}
		if p.Verdict == doctor.Fail {
			tests[i].Arrived = nil
			failed++
			edges[[2]int{min(p.From, p.To), max(p.From, p.To)}] = true
		}
	}
	found := verdict.RollUp(tests, name)
	if found == nil || found.Rank < 0 && len(edges) > 1 {
		return nil
	}
	if found.Rank >= 0 && slices.ContainsFunc(tests, func(t verdict.Test) bool {
		to, from := t.To == found.Rank && found.Culprit != verdict.Sender, t.From == found.Rank && found.Culprit != verdict.Receiver
		return t.Result() != verdict.All && !to && !from
	}) {
		return nil
	}
	v := &verdict.Verdict{Kind: verdict.KindEdge, Code: codes.Path, Rank: found.Rank, Culprit: found.Culprit, Edge: found.Edge, Confidence: verdict.Certain, Evidence: []string{summary}}
	switch {
	case v.Rank < 0 && v.Edge.Both:
		v.Text = fmt.Sprintf("between %s and %s, in both directions", name(v.Edge.From), name(v.Edge.To))
	case v.Rank < 0:
		v.Text = fmt.Sprintf("from %s to %s", name(v.Edge.From), name(v.Edge.To))
	default:
		v.Text = map[verdict.Culprit]string{
			verdict.Receiver: "from its neighbours to %s", verdict.Sender: "from %s to its neighbours", verdict.Whole: "between %s and its neighbours",
		}[v.Culprit]
		v.Text = fmt.Sprintf(v.Text, name(v.Rank))
		var others []int
		for edge := range edges {
			others = append(others, edge[0]+edge[1]-v.Rank)
		}
		v.Text += ", " + calls.Ranks(others)
	}
	v.Text = fmt.Sprintf("%d of %d checks failed, all of the path %s", failed, len(rows), v.Text)
	return v
}
