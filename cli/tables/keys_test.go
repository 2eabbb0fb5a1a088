package tables

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"ringcli/cli/exit"
	"ringcli/collective"
	"ringcli/configs"
)

// TestKeys: RCCL's settings choose between ring and tree as RCCLConfig has it, before what a
// table says; without them nothing is chosen.
func TestKeys(t *testing.T) {
	tree := func(most int64) collective.Rule {
		return collective.Rule{Op: collective.OpAllReduce, Algorithm: collective.AlgorithmTree, MaxBytes: most}
	}
	round := collective.Rule{Op: collective.OpAllReduce, Algorithm: collective.AlgorithmRing}
	for _, c := range []struct {
		ring, tree, threshold string
		want                  []collective.Rule
		why                   string
	}{
		{"auto", "auto", "1M", nil, ""},
		{"auto", "auto", "4K", nil, ""},
		{"true", "auto", "1M", []collective.Rule{round}, "use-ring-all-reduce is true"},
		{"true", "false", "1M", []collective.Rule{round}, "round the ring"},
		{"auto", "false", "1M", []collective.Rule{round}, "use-tree-all-reduce is false"},
		{"auto", "true", "1M", []collective.Rule{tree(1 << 20), round}, "by the tree up to 1M"},
		{"true", "true", "4K", []collective.Rule{tree(4096), round}, "by the tree up to 4K"},
		{"false", "true", "4K", []collective.Rule{tree(0)}, "all-reduce by the tree"},
	} {
		t.Setenv("RINGCLI_USE_RING_ALL_REDUCE", c.ring)
		t.Setenv("RINGCLI_USE_TREE_ALL_REDUCE", c.tree)
		t.Setenv("RINGCLI_TREE_THRESHOLD_BYTES", c.threshold)
		config, err := configs.Load(nil, os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		rules, why, err := keyed(config)
		if err != nil || !reflect.DeepEqual(rules, c.want) || !strings.Contains(why, c.why) || (why == "") != (c.want == nil) {
			t.Errorf("ring %s, tree %s, %s: %v, %q, %v: want %v", c.ring, c.tree, c.threshold, rules, why, err, c.want)
		}
		if err := (collective.Table{Rules: rules}).Validate(); err != nil {
			t.Error(err)
		}
		saved := []Saved{{Table: collective.Table{Rules: []collective.Rule{{Op: collective.OpAllReduce, Algorithm: collective.AlgorithmInbox}}}}}
		table, status, err := Take(&Announcement{Path: "file", Tables: saved, Rules: rules, Why: why}, []string{"soft"}, 4)
		if err != nil || len(table.Rules) != len(rules)+1 || status.Rules != len(table.Rules) || !strings.HasPrefix(status.Why, why) || len(rules) > 0 && table.Rules[0] != rules[0] {
			t.Errorf("ring %s, tree %s: %v, %+v, %v", c.ring, c.tree, table, status, err)
		}
	}
	t.Setenv("RINGCLI_USE_RING_ALL_REDUCE", "false")
	for _, other := range []string{"auto", "false"} {
		t.Setenv("RINGCLI_USE_TREE_ALL_REDUCE", other)
		config, err := configs.Load(nil, os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := Of(config); exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), "all-reduce needs one of them") {
			t.Errorf("neither, with use-tree-all-reduce %s: %v", other, err)
		}
	}
}
