package plan

import "testing"

// TestBarrierIsPlanned: what goes by which algorithm and protocol, and what is refused.
func TestBarrierIsPlanned(t *testing.T) {
	here := Agreement{SlotSize: 1 << 20, Slots: 16, Reached: true}
	away := here
	away.NotShared = "they are on two hosts"
	software := away
	software.Software = true
	for _, test := range []struct {
		on    Agreement
		ranks int
		way   CallOptions
		want  string // of the call, or of the error
	}{
		{here, 4, CallOptions{}, "barrier, inbox, direct"},
		{away, 4, CallOptions{}, "barrier, inbox, eager"},
		{software, 4, CallOptions{}, "barrier, recursive-doubling, eager"},
		{away, 1000, CallOptions{Verify: true, Sync: true, Segment: 1 << 16}, "barrier, recursive-doubling, eager"},
		{here, 4, CallOptions{Algorithm: AlgorithmRing}, "barrier, eager"},
		{here, 4, CallOptions{Algorithm: AlgorithmTree}, "barrier, tree, eager"},
		{here, 4, CallOptions{Protocol: Direct, Verify: true}, "barrier, inbox, direct"},
		{away, 4, CallOptions{Protocol: Eager}, "barrier, eager"},
		{away, 4, CallOptions{Protocol: RendezvousWrite}, "barrier: ring by rendezvous-write: there are no data to be put into place; expected eager, auto, or the inbox by direct"},
		{away, 4, CallOptions{Protocol: ReceiverInitiated}, "barrier: ring by receiver-initiated: there are no data to be put into place; expected eager, auto, or the inbox by direct"},
		{here, 4, CallOptions{Algorithm: AlgorithmRing, Protocol: Direct}, "barrier: ring by direct: there are no data to be put into place; expected eager, auto, or the inbox by direct"},
		{here, 4, CallOptions{Algorithm: AlgorithmTree, Protocol: RendezvousRead}, "barrier: tree by rendezvous-read: there are no data to be put into place; expected eager, auto, or the inbox by direct"},
		{away, 9, CallOptions{Algorithm: AlgorithmInbox}, "barrier: inbox on 9 ranks: expected at most 8"},
	} {
		test.on.Ranks = test.ranks
		for _, table := range []Table{{}, {EagerMax: -1}} {
			k, err := test.on.Plan(Call{Op: OpBarrier, CallOptions: test.way}, table)
			got := k.String()
			if err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("%+v on %d ranks is %q, want %q", test.way, test.ranks, got, test.want)
			}
		}
	}
	table := Table{Rules: []Rule{{Op: OpBarrier, Ranks: 4, Algorithm: AlgorithmTree}}}
	away.Ranks = 4
	if k, err := away.Plan(Call{Op: OpBarrier}, table); err != nil || k.Algorithm != AlgorithmTree || table.Validate() != nil {
		t.Errorf("by a rule for the tree: %s, %v, %v", k, err, table.Validate())
	}
}
