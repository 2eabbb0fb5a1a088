package ring

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"ringcli/configs/usage"
	"ringcli/ring/bootstrap"
	"ringcli/ring/watch"
	"ringcli/verbs"
)

// breakQP takes a queue pair to ERR behind the ring's back, as a device does.
func breakQP(t *testing.T, e *Edge) {
	t.Helper()
	if err := e.QP.(*watch.QP).QP.Modify(verbs.QPAttr{State: verbs.StateErr}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
}

// A queue pair that fails while nothing runs is noticed, and told on all ranks as a failure
// of an edge.
func TestQueuePairFailsWhileIdle(t *testing.T) {
	t.Parallel() // it waits
	for _, device := range []string{"soft:lo", "shm:0"} {
		world := connect(t, 3, func(_ int, o *Options) { o.Device = device })
		breakQP(t, world[1].Right())
		for begun := time.Now(); !world[0].Failed() || !world[1].Failed() || !world[2].Failed(); time.Sleep(5 * time.Millisecond) {
			if time.Since(begun) > 20*time.Second {
				t.Fatal("not all ranks have noticed")
			}
		}
		for rank, r := range world {
			var v *Verdict
			err := r.Usable()
			for _, words := range []string{"the right queue pair 0x", "of rank 1 to rank 2 (127.", "failed while nothing ran, and is ERR", "connect again"} {
				if !strings.Contains(textOf(err), words) || usage.Is(err) {
					t.Errorf("rank %d: %v: expected %q, and no matter of order", rank, err, words)
				}
			}
			if errors.As(err, &v) && (v.Kind != bootstrap.KindEdge || v.Rank >= 0 || v.Edge != bootstrap.Direction{From: 1, To: 2, Both: true}) {
				t.Errorf("rank %d: %+v", rank, v)
			}
		}
	}
}

// The same before anybody has noticed: what comes next is told so, and not that it is out of
// order. What an operator takes there by hand is.
func TestQueuePairHasFailed(t *testing.T) {
	world := connect(t, 2, nil)
	for _, r := range world {
		r.control.endLife() // nobody looks while it is idle
		r.watching.Wait()
	}
	breakQP(t, world[0].Left())
	var failed *QueuePairError
	if err := world[0].Usable(); !errors.As(err, &failed) || failed.Edge != Left.Edge() || failed.Peer != 1 || usage.Is(err) {
		t.Errorf("%v", err)
	}
	if err := world[1].Right().QP.Modify(verbs.QPAttr{State: verbs.StateErr}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	var step *StepError
	if err := world[1].Usable(); !errors.As(err, &step) {
		t.Errorf("%v: expected a step out of order", err)
	}
}

// An edge whose peer's end has failed is explained by that.
func TestExplainPeerInError(t *testing.T) {
	world := connect(t, 2, nil)
	breakQP(t, world[1].Left())
	err := &CompletionError{Edge: Right.Edge(), Peer: 1, Status: verbs.RetryExceeded}
	explained := world[0].Stalls().Explain(context.Background(), 1, err)
	if text := textOf(explained); !strings.Contains(text, "the queue pair of rank 1 (") || !strings.Contains(text, "has failed and is ERR") || !errors.Is(explained, err) {
		t.Errorf("%s", text)
	}
}
