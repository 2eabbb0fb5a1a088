package rc

import (
	"testing"

	"ringcli/verbs"
	"ringcli/verbs/soft/wire"
)

// everything is memory that allows all.
type everything struct{}

func (everything) Local(uint32, uint64, uint32, bool) bool          { return true }
func (everything) Remote(uint32, uint64, uint64, verbs.Access) bool { return true }

// An atomic that is repeated is answered with its own value, even where one of a
// whole round of PSNs before is still remembered. Two READs of 2^31 bytes in
// packets of 256 bytes make nearly a round; they are not carried out.
func TestReplayAfterRound(t *testing.T) {
	q := New(Config{QPN: 16, Memory: everything{}, Counters: &Counters{}, Window: 16})
	var out Output
	a := verbs.QPAttr{State: verbs.StateRTR, PathMTU: verbs.MTU256, RQPSN: 5, MaxDestRDAtomic: 8, Access: verbs.AccessRemoteRead | verbs.AccessRemoteAtomic}
	q.Modify(&a, verbs.AttrState|verbs.AttrAccess|verbs.AttrPathMTU|verbs.AttrRQPSN|verbs.AttrMaxDestRDAtomic, &out)

	step := func(op wire.Opcode, psn, dmaLen uint32) {
		b := make([]byte, op.HeaderLen()+wire.ICRCLen)
		wire.BTH(b).Encode(&wire.BTHFields{Opcode: op, PSN: psn})
		if op == wire.ReadRequest {
			wire.RETH(b[wire.BTHLen:]).Encode(0, 0, dmaLen)
		}
		var p wire.Packet
		if err := wire.Parse(&p, b); err != nil {
			t.Fatal(err)
		}
		q.Step(&p, nil, 1, &out)
	}
	carry := func(v uint64) {
		if len(out.Orders) != 1 {
			t.Fatalf("%d orders, want 1", len(out.Orders))
		}
		*out.Orders[0].Result = v
		out.Orders = out.Orders[:0]
	}
	const half = 1 << 23
	step(wire.FetchAdd, 5, 0)
	carry(111)
	step(wire.ReadRequest, 6, verbs.MaxMessage)
	step(wire.ReadRequest, 6+half, verbs.MaxMessage-256)
	if got := q.Attr().RQPSN; got != 5 {
		t.Fatalf("after a round PSN %d is expected, want 5", got)
	}
	step(wire.FetchAdd, 5, 0)
	carry(222)
	q.responder.clear() // as if all had been answered
	step(wire.FetchAdd, 5, 0)
	if len(out.Orders) != 0 {
		t.Fatal("a repeated atomic was done twice")
	}
	q.Emit(1, true, 8, &out)
	if len(out.Packets) != 1 {
		t.Fatalf("%d packets, want 1", len(out.Packets))
	}
	h := out.Packets[0].Header[wire.BTHLen+wire.AETHLen:]
	if got := wire.AtomicAckETH(h).Orig(); got != 222 {
		t.Errorf("the repeated atomic found %d, want 222", got)
	}
}
