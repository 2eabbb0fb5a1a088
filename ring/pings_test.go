package ring

import (
	"testing"

	"ringcli/verbs"
)

// What is no ping's is told by the half of a ping of all ranks that runs, whichever that
// is, and is deferred when both have ended.
func TestPingHalfEnded(t *testing.T) {
	r := &Ring{table: new(edgeTable), poll: new(poller)}
	for _, ended := range []int{0, 1} {
		p := newPings(r)
		halves := []*ping{{asks: true}, {}}
		p.enter(halves...)
		close(halves[ended].ended)
		r.poll.deferred = nil
		foreign := verbs.Completion{ID: WRID(0, WRUser, 7)}
		p.take(Token{p: r.poll}, &foreign)
		if runs := halves[1-ended]; runs.err == nil || len(r.poll.deferred) != 0 {
			t.Errorf("half %d has ended, the other one's error is %v, %d completions are deferred: expected an error, and none", ended, runs.err, len(r.poll.deferred))
		}
		p.take(Token{p: r.poll}, &foreign)
		if len(r.poll.deferred) != 1 {
			t.Errorf("both have ended: %d completions are deferred, expected 1", len(r.poll.deferred))
		}
	}
}
