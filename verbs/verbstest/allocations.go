package verbstest

import (
	"runtime"
	"testing"
	"time"

	"ringcli/verbs"
)

// Posting and polling allocate nothing once they run.
func testAllocations(t *testing.T, h Harness) {
	h.skip(t, Allocates)
	if Race {
		t.Skip("the race detector allocates")
	}
	for _, op := range operations {
		for _, n := range []int{8, 10000} {
			l := connect(t, h)
			sends := []verbs.WorkRequest{l.b.remote(request(op.op, 1, l.a.sge(0, n)), 0)}
			receives := []verbs.WorkRequest{{ID: 2, SGL: []verbs.SGE{l.b.sge(0, n)}}}
			wc := make([]verbs.Completion, 4)
			// Both ends are polled, so that nothing depends on the background.
			ends := []*end{l.a, l.b}
			left := 0
			poll := func() {
				for deadline := time.Now().Add(h.Deadline); left > 0; runtime.Gosched() {
					for _, e := range ends {
						for _, q := range [...]*queue{e.send, e.recv} {
							got, err := q.cq.Poll(wc)
							if err != nil || got > 0 && wc[0].Status != verbs.Success {
								t.Fatalf("%s of %d bytes: polled {%d %s}, %v", op.name, n, wc[0].ID, wc[0].Status, err)
							}
							left -= got
						}
					}
					if time.Now().After(deadline) {
						t.Fatalf("%s of %d bytes: waited %v for %d completions", op.name, n, h.Deadline, left)
					}
				}
			}
			once := func() {
				left = 1
				if op.recv != 0 {
					left = 2
					if _, err := l.b.qp.PostRecv(receives); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := l.a.qp.PostSend(sends); err != nil {
					t.Fatal(err)
				}
				poll()
			}
			for range 200 { // scratch memory grows to its size
				once()
			}
			if got := testing.AllocsPerRun(200, once); got != 0 {
				t.Errorf("%s of %d bytes: %v allocations a message, want none", op.name, n, got)
			}
		}
	}
}
