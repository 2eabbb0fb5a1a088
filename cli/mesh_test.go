package cli

import (
	"sync"
	"testing"

	"ringcli/cli/exit"
	"ringcli/cli/failure"
	"ringcli/ring"
	"ringcli/verbs"
)

// Status shows edges beyond the ring once they are there, at both ends, and what is
// wrong with them; a failure on one is explained by its own two ends.
func TestStatusOfAMesh(t *testing.T) {
	all := handShells(t, 4)
	allDo(t, all, "open; init")
	for _, line := range []string{"exchange", "rtr", "rts"} {
		allDo(t, all, line)
	}
	var wg sync.WaitGroup
	errs := make([]error, len(all))
	for i, h := range all {
		wg.Go(func() { _, errs[i] = h.Ring.Mesh(t.Context(), ring.Purpose{What: "across"}, []int{i ^ 2}) })
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("rank %d: %v", i, err)
		}
	}
	a := all[0]
	says(t, a.must("status"), "left own 0 RTS", "right peer 1 RTS", "mesh own 0 RTS", "mesh peer 2 RTS")
	edge := all[2].Ring.MeshEdges()[0]
	if err := edge.QP.Modify(verbs.QPAttr{State: verbs.StateErr}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	says(t, a.must("status"), "mesh peer 2 ERR", "mesh fault qp_state")
	err := failure.Explain(t.Context(), a.Session, "all-reduce", &ring.CompletionError{Edge: ring.Mesh.Edge(), Peer: 2, Node: "c", Status: verbs.RetryExceeded})
	a.log.Reset()
	failure.Report(a.Session, "all-reduce", err, exit.Critical)
	says(t, a.log.String(), "mesh edge to rank 2", "mesh, fault: the queue pair of rank 2", "ERR")
}
