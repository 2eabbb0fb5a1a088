package exec

import (
	"errors"
	"slices"
	"testing"

	"ringcli/collective/buffer"
	"ringcli/collective/plan"
	"ringcli/collective/program"
	"ringcli/collective/sharedmem"
	"ringcli/ring"
)

// TestSlots: what was emptied last is written next, and a peer may write into any slot
// that is empty, and into no other.
func TestSlots(t *testing.T) {
	ch := &channel{edge: &ring.Edge{Peer: 1}, slots: 4, empty: []uint8{3, 2, 1, 0}, headers: &buffer.Buffer{}}
	var order []int
	for _, freed := range []uint64{0, 0, 1, 1, 3, 3, 3} {
		if err := ch.release(freed); err != nil {
			t.Fatal(err)
		}
		slot := int(ch.empty[len(ch.empty)-1])
		ch.wrote()
		order = append(order, slot)
	}
	if want := []int{0, 1, 0, 2, 0, 1, 3}; !slices.Equal(order, want) || ch.free() {
		t.Errorf("slots %v were written, and %v are free: expected %v, and none", order, ch.empty, want)
	}
	for _, freed := range []uint64{2, 8} {
		if err := ch.release(freed); !errors.Is(err, sharedmem.ErrProtocol) {
			t.Errorf("%d slots emptied, after 3 of 7: %v", freed, err)
		}
	}
	ch.inUse = 0b0100
	for _, slot := range []uint32{2, 4, 1 << 31} {
		if _, err := ch.arrive(slot, 0); !errors.Is(err, sharedmem.ErrProtocol) {
			t.Errorf("slot %d was written, of 4 of which slot 2 is in use: %v", slot, err)
		}
	}
}

// TestResultPlaced: results are accepted in order, each for a slot that was filled.
func TestResultPlaced(t *testing.T) {
	ch := &channel{edge: &ring.Edge{Peer: 1}, slots: 4, filled: 3}
	other := &channel{edge: &ring.Edge{Peer: 1}}
	p := &pass{
		flow: &flow{call: plan.Call{CallOptions: plan.CallOptions{Protocol: plan.ReceiverInitiated}}},
		left: ends{ch}, right: ends{ch},
		Counts: program.Counts{
			Incoming: 8, Posted: 5, Options: program.Options{Slotted: 1},
			Schedule: program.Schedule{Ranks: 2, Count: 32, PerSegment: 4, Segments: 4, Depth: 2, Transfers: 2},
		},
	}
	p.from.Reset(1)
	p.emptied.Reset(1)
	for _, test := range []struct {
		ch       *channel
		position int
		ok       bool
	}{{ch, 0, false}, {ch, 3, false}, {other, 2, false}, {ch, 2, true}, {ch, 2, false}, {ch, 3, true}, {ch, 4, false}, {ch, 6, true}, {ch, 7, false}} {
		err := p.wroteInPlace(test.ch, test.position)
		if test.ok && err != nil || !test.ok && !errors.Is(err, sharedmem.ErrProtocol) {
			t.Errorf("segment %d written into place after %d: %v", test.position, p.Arrived, err)
		}
	}
	if ch.freed != 3 {
		t.Errorf("%d slots are free by the results, want 3", ch.freed)
	}
}
