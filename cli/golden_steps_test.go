package cli

import (
	"strings"

	"ringcli/cli/failure"
	"ringcli/cli/hand"
	"ringcli/cli/render"
	"ringcli/ring/diagnose"
	"ringcli/verbs"
)

// stepExamples are of the steps of a bring-up, and of what shows both ends.
func stepExamples() []example {
	list := []example{
		printing("open", []render.Record{
			hand.OpenResult{
				Command: "open", OK: true, Rank: 1, Ranks: 2, Node: "127.0.0.2:18600", Address: "127.0.0.2", Device: "soft:lo", Port: 1,
				PortState: "ACTIVE", LinkLayer: "Ethernet", ActiveMTU: 4096, NetDev: "lo", GID: exampleGID, GIDIndex: 3, GIDType: "RoCE v2", Seconds: 0.125,
			},
		}),
		printing("reconnect", []render.Record{
			hand.ReconnectResult{
				Command: "reconnect", OK: true, Epoch: 4052706280, Ranks: 249, Rank: 248, Was: 249, Without: []string{exampleHost + ":65535"},
				Old: []int{0, 2, -1}, Seconds: 0.125,
			},
		}),
		printing("qp", exampleAttributes()),
	}
	for command, state := range map[string]verbs.QPState{
		"init": verbs.StateInit, "exchange": verbs.StateInit, "rtr": verbs.StateRTR, "rts": verbs.StateRTS, "reset": verbs.StateReset, "connect": verbs.StateRTS,
	} {
		ends := []render.Record{
			exampleEnd(command, hand.OwnEnd, state), exampleEnd(command, hand.PeerEnd, state),
			hand.EdgeEnd{
				Command: command, Side: "right", Whose: hand.PeerEnd, Unknown: "no exchange with " + exampleHost + " yet",
				End: diagnose.End{Rank: 249, Node: exampleHost, Peer: 0},
			},
		}
		var findings []render.Record
		if state == verbs.StateRTR || state == verbs.StateRTS {
			findings = append(findings, failure.SideFinding{Command: command, Side: "left", Finding: diagnose.Finding{
				Severity: diagnose.Fault, Attribute: "rq_psn", Rank: 1, Own: "000005", Peer: "abcdef",
				Text: "rank 1 expects PSN 0x000005 first, but rank 249 sends 0xabcdef: its packets are taken for old ones and are dropped",
				Fix:  "on rank 1: reset, init, exchange, and rtr without --psn",
			}})
		}
		list = append(list, printing(command, ends, findings))
	}
	return list
}

// exampleEnd is an end of an edge with long values everywhere.
func exampleEnd(command, whose string, state verbs.QPState) hand.EdgeEnd {
	psn := uint32(0xabcdef)
	e := diagnose.End{
		Rank: 0, Node: "127.0.0.1:18600", Side: "left", Peer: 249, PeerNode: exampleHost + ":65535",
		Device: "soft:enp65s0f0np0", Provider: "soft", NetDev: "enp65s0f0np0", LinkLayer: diagnose.Is(verbs.LinkEthernet), PortState: diagnose.Is(verbs.PortActive),
		GID: exampleGID, GIDType: diagnose.Is(verbs.GIDTypeRoCEv2), GIDIndex: 3, Port: 1, ActiveMTU: 4096, UDPPort: 4791,
		QPN: 0x11, QPState: diagnose.Is(state), FirstPSN: psn, MTU: 4096, Slots: diagnose.MemoryInfo{Addr: 0x7f0123456000, RKey: 0xffff1234, Length: 4 << 20},
		SlotCount: 16, SlotSize: 256<<10 + 64, AccessFlags: []string{"LOCAL_WRITE", "REMOTE_WRITE"}, Access: 3,
		Cap:     verbs.QPCap{MaxSendWR: 256, MaxRecvWR: 256, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInlineData: 220},
		Regions: []diagnose.Region{{Name: "mine", Addr: 0x7f0123400000, Length: 4096, LKey: 7, RKey: 7, Access: 3, Flags: []string{"LOCAL_WRITE", "REMOTE_WRITE"}}},
		PortNum: 1, ReceivesPosted: 128, RingState: strings.ToLower(state.String()),
		Counters: map[string]uint64{"port_rcv_packets": 1<<64 - 1, "port_xmit_packets": 12},
	}
	if state == verbs.StateRTR || state == verbs.StateRTS {
		e.PathMTU, e.RQPSN, e.DestQPN, e.DGID, e.DestUDPPort, e.SGIDIndex, e.HopLimit = 4096, psn, 0x10, exampleGID, 4791, 3, 64
		e.MinRNRTimer, e.MaxDestRDAtomic, e.RQPSNFirst = 12, 16, &psn
	}
	if state == verbs.StateRTS {
		e.SQPSN, e.QPTimeout, e.RetryCnt, e.RNRRetry, e.MaxRDAtomic, e.SQPSNFirst = psn, 14, 6, 7, 16, &psn
	}
	if whose == hand.PeerEnd {
		e.Rank, e.Peer, e.QPState = 249, 0, diagnose.Is(verbs.StateErr)
		e.FirstError = "WRITE: remote access error"
		e.Failure = &diagnose.Failure{Status: 10, Text: "remote access error", WRID: 1 << 63, Opcode: diagnose.Is(verbs.OpWrite), Length: 4096, Addr: 0x7f0123400000, LKey: 7, RemoteAddr: 0x7f0123456000, RKey: 8}
	}
	return hand.EdgeEnd{Command: command, OK: whose == hand.OwnEnd, Side: "left", Whose: whose, End: e}
}

// exampleAttributes is what `qp` shows of two ends that do not agree.
func exampleAttributes() []render.Record {
	disagree := []diagnose.Finding{{Attribute: "qp_state", Severity: diagnose.Fault}}
	return render.Records(hand.Attributes(exampleEnd("qp", hand.OwnEnd, verbs.StateRTS), exampleEnd("qp", hand.PeerEnd, verbs.StateRTS), disagree))
}
