package verbstest

import (
	"testing"
	"time"

	"ringcli/verbs"
)

// Posting and polling allocate nothing once they run.
func testAllocations(t *testing.T, h Harness) {
	h.skip(t, Allocates)
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, op := range operations {
		for _, n := range []int{8, 10000} {
			l := connect(t, h)
			sends := []verbs.WorkRequest{l.b.remote(request(op.op, 1, l.a.sge(0, n)), 0)}
			receives := []verbs.WorkRequest{{ID: 2, SGL: []verbs.SGE{l.b.sge(0, n)}}}
			wc := make([]verbs.Completion, 4)
			expect := func(q *queue, id uint64) {
				for deadline := time.Now().Add(h.Deadline); ; {
					// The other end is polled too, so that nothing depends on the background.
					if got, err := q.cq.Poll(wc); err != nil || got > 0 {
						if err != nil || wc[0].ID != id || wc[0].Status != verbs.Success {
							t.Fatalf("%s of %d bytes: got {%d %s}, %v", op.name, n, wc[0].ID, wc[0].Status, err)
						}
						return
					}
					if q == l.a.send && op.recv == 0 {
						if _, err := l.b.recv.cq.Poll(wc); err != nil {
							t.Fatal(err)
						}
					}
					if time.Now().After(deadline) {
						t.Fatalf("%s of %d bytes: waited %v for completion %d", op.name, n, h.Deadline, id)
					}
				}
			}
			once := func() {
				if op.recv != 0 {
					if _, err := l.b.qp.PostRecv(receives); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := l.a.qp.PostSend(sends); err != nil {
					t.Fatal(err)
				}
				if op.recv != 0 {
					expect(l.b.recv, 2)
				}
				expect(l.a.send, 1)
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
