package hostteam

import (
	"slices"
	"testing"

	"ringcli/collective/exec"
	"ringcli/collective/plan"
	"ringcli/collective/topology"
)

// TestSets: the parts of the vector that a rank takes care of are where the script says, and those of a host are
// all of it.
func TestSets(t *testing.T) {
	for _, h := range []*topology.Hosts{topology.Sized(3, 1), topology.Sized(2, 3), topology.Of([]string{"a", "b", "a", "b", "a"})} {
		for host := range h.Number() {
			for _, order := range [][]int{nil, h.Order()} {
				j := &exec.Job{Call: plan.Call{Op: plan.OpAllReduce, Count: 103}, Role: &exec.Role{}}
				j.Role.Order = order
				s := &Team{ranks: h.Ranks(host)}
				seen := make([]int, j.Call.Count)
				for _, set := range s.sets(j, h) {
					for _, run := range set {
						for i := run.Lo; i < run.Hi; i++ {
							seen[i]++
						}
					}
				}
				if slices.Min(seen) != 1 || slices.Max(seen) != 1 {
					t.Errorf("%s, host %d: elements are in so many sets: %d", h, host, seen)
				}
			}
		}
	}
}
