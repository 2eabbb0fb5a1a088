package tables

import (
	"fmt"

	"ringcli/cli/exit"
	"ringcli/collective"
	"ringcli/configs"
)

// The settings that choose between ring and tree.
const (
	useRing   = "use-ring-all-reduce"
	useTree   = "use-tree-all-reduce"
	threshold = "tree-threshold-bytes"
)

// keyed are the rules of these settings, and why they are: none where neither says anything.
// What one of them leaves open is as RCCLConfig has it: the ring is used, and the tree is not.
func keyed(c *configs.Config) (rules []collective.Rule, why string, err error) {
	const yes, auto = "true", "auto"
	ring, tree, bytes := c.Get(useRing), c.Get(useTree), c.Get(threshold)
	if ring.Value == auto && tree.Value == auto {
		return nil, "", nil
	}
	byRing, byTree := ring.Value == yes || ring.Value == auto, tree.Value == yes
	up := collective.Rule{Op: collective.OpAllReduce, Algorithm: collective.AlgorithmTree}
	round := collective.Rule{Op: collective.OpAllReduce, Algorithm: collective.AlgorithmRing}
	said := func(name string, v configs.Value) string { return fmt.Sprintf("%s is %s (%s)", name, v, v.Origin) }
	switch {
	case byRing && byTree:
		up.MaxBytes = int64(bytes.Value.(uint64))
		return []collective.Rule{up, round}, fmt.Sprintf("%s: all-reduce by the tree up to %s bytes, else round the ring", said(useTree, tree), bytes), nil
	case byTree:
		return []collective.Rule{up}, fmt.Sprintf("%s and %s: all-reduce by the tree", said(useRing, ring), said(useTree, tree)), nil
	case byRing && ring.Value == yes:
		return []collective.Rule{round}, said(useRing, ring) + ": all-reduce round the ring", nil
	case byRing:
		return []collective.Rule{round}, said(useTree, tree) + ": all-reduce round the ring", nil
	}
	return nil, "", exit.Usagef("%s, and %s: all-reduce needs one of them: set %s or %s to true", said(useRing, ring), said(useTree, tree), useRing, useTree)
}
