package rc

import (
	"testing"

	"ringcli/verbs"
	"ringcli/verbs/soft/wire"
)

// A duplicate SEND or WRITE is acknowledged, with a PSN that is no READ's or
// atomic's: their responses may be lost, and rdma_rxe takes an ACK for one.
func TestDuplicateBeforeAnswer(t *testing.T) {
	for _, answered := range []wire.Opcode{wire.ReadRequest, wire.FetchAdd} {
		q := New(Config{QPN: 16, Memory: everything{}, Counters: &Counters{}, Window: 16})
		var out Output
		a := verbs.QPAttr{State: verbs.StateRTR, PathMTU: verbs.MTU256, RQPSN: wire.PSNMask, MaxDestRDAtomic: 8,
			Access: verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic}
		q.Modify(&a, verbs.AttrState|verbs.AttrAccess|verbs.AttrPathMTU|verbs.AttrRQPSN|verbs.AttrMaxDestRDAtomic, &out)
		step := func(op wire.Opcode, psn uint32) {
			b := make([]byte, op.HeaderLen()+wire.ICRCLen)
			wire.BTH(b).Encode(&wire.BTHFields{Opcode: op, PSN: psn, AckReq: true})
			if op == wire.ReadRequest {
				wire.RETH(b[wire.BTHLen:]).Encode(0, 0, 600) // three packets
			}
			var p wire.Packet
			if err := wire.Parse(&p, b); err != nil {
				t.Fatal(err)
			}
			q.Step(&p, nil, 1, &out)
		}
		acked := func(what string, want uint32) {
			t.Helper()
			out.Packets = out.Packets[:0]
			q.Emit(1, true, 8, &out)
			if len(out.Packets) != 1 {
				t.Fatalf("%s, %s: %d packets, want an ACK", answered, what, len(out.Packets))
			}
			h := wire.BTH(out.Packets[0].Header[:])
			if h.Opcode() != wire.Acknowledge || h.PSN() != want {
				t.Errorf("%s, %s: %s of PSN %d, want an ACK of %d", answered, what, h.Opcode(), h.PSN(), want)
			}
		}
		step(wire.WriteOnly, wire.PSNMask-1)
		acked("a duplicate of what came before all", wire.PSNMask-1)
		step(wire.WriteOnly, wire.PSNMask)
		acked("new", wire.PSNMask)
		step(answered, 0)
		q.Emit(1, true, 8, &out) // and the answer gets lost
		step(wire.WriteOnly, wire.PSNMask)
		acked("a duplicate", wire.PSNMask)
		next := q.Attr().RQPSN
		step(wire.WriteOnly, next)
		acked("what comes next", next)
		step(wire.WriteOnly, wire.PSNMask)
		acked("a duplicate from before both", next)
	}
}
