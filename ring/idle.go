package ring

import (
	"fmt"
	"slices"
	"time"

	"ringcli/configs/codes"
	"ringcli/ring/diagnose"
	"ringcli/ring/watch"
	"ringcli/verbs"
)

// QueuePairError is that a queue pair has failed and no request of an operation tells why.
type QueuePairError struct {
	Rank  int
	Edge  EdgeID
	Peer  int
	Node  string // the peer's
	QPN   uint32
	State verbs.QPState
	First *diagnose.Failure // nil if no request of its own failed by itself
	Idle  bool              // it failed while nothing ran
	Event string            // what the device reported before, "" if nothing
}

// FailureCode is that of its first error: that of a peer's, if it had none.
func (e *QueuePairError) FailureCode() codes.Code {
	if e.First == nil {
		return codes.Flushed
	}
	return statusCode(verbs.Status(e.First.Status))
}

func (e *QueuePairError) Error() string {
	idle := ""
	if e.Idle {
		idle = " while nothing ran"
	}
	text := fmt.Sprintf("the %s queue pair 0x%06x of rank %d to rank %d (%s) failed%s, and is %s: ", e.Edge.Side(), e.QPN, e.Rank, e.Peer, e.Node, idle, e.State)
	if e.First == nil {
		text += "no request of its own failed, so it refused one of its peer's, or was taken there by force"
	} else {
		text += "its first error was " + e.First.String()
	}
	if e.Event != "" {
		text += "; " + e.Event
	}
	return text + ": connect again; if it fails again, look at rank " + fmt.Sprint(e.Peer)
}

// idleLook is the pause between two looks at the queue pairs while nothing runs.
const idleLook = 500 * time.Millisecond

// watchIdle looks at the queue pairs while nobody polls them, until the ring's life ends, and
// fails the ring for one that has failed. What an operator posts by hand, at either end, is
// the operator's to look at.
func (r *Ring) watchIdle() {
	ticker := time.NewTicker(idleLook)
	defer ticker.Stop()
	for !r.Failed() {
		select {
		case <-r.life.Done():
			return
		case <-ticker.C:
		}
		idle := func() bool { return r.tokens.who().kind == nobody && r.State() == StateError }
		if !idle() {
			continue
		}
		peek(r) // notes what failed first
		err := r.failedQueuePair(true)
		if err == nil || ofHand(err.First) {
			continue
		}
		if err.First == nil {
			if _, peer, asked := r.Ends(r.life, err.Edge); asked == nil && ofHand(peer.Failure) {
				continue
			}
		}
		if explained := r.Explain(r.life, err.Peer, err); idle() {
			r.Fail(explained)
		}
	}
}

// ofHand tells whether a request was one of an operator.
func ofHand(f *diagnose.Failure) bool {
	if f == nil {
		return false
	}
	_, kind, _ := ParseWRID(f.WRID)
	return kind == WRHand
}

// failedQueuePair returns the queue pair that has failed by itself, nil if none has.
func (r *Ring) failedQueuePair(idle bool) *QueuePairError {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil || r.state != StateOpened {
		return nil
	}
	for _, e := range slices.Concat(r.edges[:], r.mesh.list) {
		if e == nil {
			continue
		}
		attr, _, known, err := watch.Query(e.QP)
		if err != nil || attr.State != verbs.StateErr && attr.State != verbs.StateSQE || known.Killed {
			continue
		}
		failed := &QueuePairError{Rank: r.rank, Edge: e.ID, Peer: e.Peer, Node: r.nodes[e.Peer].String(), QPN: e.QP.Num(), State: attr.State, Idle: idle}
		failed.Event = r.devices.events.text(time.Now(), func(device string) bool { return device == e.device.Name })
		if !known.First.HasStatus(verbs.FlushError) {
			failed.First = known.First
		}
		return failed
	}
	return nil
}
