package ring

import (
	"time"

	"ringcli/ring/diagnose"
	"ringcli/ring/polling"
	"ringcli/ring/watch"
	"ringcli/verbs"
)

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
		idle := func() bool { return r.tokens.Who().Kind == polling.Nobody && r.State() == StateError }
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
	for _, e := range r.queuePairs() {
		attr, _, known, err := watch.Query(e.QP)
		if err != nil || attr.State != verbs.StateErr && attr.State != verbs.StateSQE || known.Killed {
			continue
		}
		failed := &QueuePairError{Rank: r.rank, Edge: e.ID, Peer: e.Peer, Node: r.nodes[e.Peer].String(), QPN: e.QP.Num(), State: attr.State, Idle: idle}
		failed.Event = r.devices.events.Text(time.Now(), func(device string) bool { return device == e.device.Name })
		if !known.First.HasStatus(verbs.FlushError) {
			failed.First = known.First
		}
		return failed
	}
	return nil
}
