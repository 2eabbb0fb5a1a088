package ring

import (
	"time"

	"ringcli/ring/diagnose"
	"ringcli/ring/polling"
)

// idleLook is the pause between two looks at the queue pairs while nothing runs.
const idleLook = 500 * time.Millisecond

// idleWatch watches the queue pairs while nobody polls them.
type idleWatch struct {
	table   *edgeTable
	control *Control
	poll    *poller
	ends    *Ends
	stalls  *Stalls
	fail    func(error)
}

// run looks at the queue pairs while nobody polls them, until the ring's life ends, and
// fails the ring for one that has failed. What an operator posts by hand, at either end, is
// the operator's to look at.
func (w *idleWatch) run() {
	ticker := time.NewTicker(idleLook)
	defer ticker.Stop()
	for !w.table.failed.Load() {
		select {
		case <-w.control.life.Done():
			return
		case <-ticker.C:
		}
		idle := func() bool {
			return w.poll.tokens.Who().Kind == polling.Nobody && w.table.standing(bothSides).State == StateError
		}
		if !idle() {
			continue
		}
		w.poll.peek() // notes what failed first
		err := w.table.failedQueuePair(true)
		if err == nil || ofHand(err.First) {
			continue
		}
		if err.First == nil {
			if _, peer, asked := w.ends.Both(w.control.life, err.Edge); asked == nil && ofHand(peer.Failure) {
				continue
			}
		}
		if explained := w.stalls.Explain(w.control.life, err.Peer, err); idle() {
			w.fail(explained)
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
