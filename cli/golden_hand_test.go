package cli

import (
	"ringcli/cli/failure"
	"ringcli/cli/hand"
	"ringcli/cli/render"
	"ringcli/ring"
	"ringcli/ring/diagnose"
	"ringcli/verbs"
)

// handExamples are of what is done and looked at by hand.
func handExamples() []example {
	rank, bytes, imm := 249, uint32(5), uint32(0xffffffff)
	send, recv := verbs.WCSend.String(), verbs.WCRecv.String()
	id := ring.WRID(ring.Right.Edge(), ring.WRHand, 1)
	return []example{
		printing("status own", []render.Record{
			hand.PathChoice{
				Command: "status", OK: true, Rank: 1, Choice: "device", Side: "left", Device: "ibv:mlx5_0", Value: "ibv:mlx5_0", Taken: true,
				Why: "port 1 of ibv:mlx5_0 is active and has 10.1.2.3 as RoCE v2 GID",
			},
			hand.PathChoice{
				Command: "status", OK: true, Rank: 1, Choice: "device", Side: "right", Device: "ibv:mlx5_0", Value: "ibv:mlx5_0", Taken: true,
				Why: "port 1 of ibv:mlx5_0 is active and has 10.1.2.3 as RoCE v2 GID",
			},
			hand.PathChoice{
				Command: "status", OK: true, Rank: 1, Choice: "gid", Device: "ibv:mlx5_0", Value: "::ffff:10.1.2.3", GIDIndex: new(3), Taken: true, Why: "RoCE v2, the local address",
				Rejected: []render.Record{hand.PathChoice{
					Command: "status", OK: true, Rank: 1, Choice: "gid", Device: "ibv:mlx5_0", Value: "fe80::1", GIDIndex: new(0), Why: "RoCE v1: v2 passes routers",
				}},
			},
		}, []render.Record{
			hand.StepStatus{Command: "status", OK: true, Rank: 1, Step: "rtr", Left: hand.StepDone, Right: hand.StepDone, State: "RTR"},
			hand.StepStatus{Command: "status", OK: true, Rank: 1, Step: "rts", Left: hand.StepDone, Right: hand.StepOpen, Next: true, State: "RTR"},
			hand.StepStatus{Command: "status", Rank: 1, Step: "rts", Left: hand.StepDone, Right: "ERR", State: "error"},
			hand.StepStatus{Command: "status", Rank: 1, Step: "reset", Left: hand.StepOpen, Right: hand.StepOpen, Next: true, State: "error"},
		}, []render.Record{exampleEnd("status", hand.OwnEnd, verbs.StateRTS), exampleEnd("status", hand.PeerEnd, verbs.StateRTS)}, []render.Record{
			failure.SideFinding{Command: "status", Side: "left", Finding: diagnose.Finding{
				Severity: diagnose.Fault, Attribute: "qp_state", Rank: 249, Own: "RTS", Peer: "ERR", Text: "rank 249's queue pair is in ERR", Fix: "reset both ends",
			}},
		}),
		printing("inject", []render.Record{
			hand.InjectResult{Command: "inject", OK: true, Inject: "soft: loss 1% to 2 on 1, down 2s every 10s"},
			hand.InjectResult{Command: "inject", OK: true, Inject: "stop rank 249 for 10s", Rank: &rank, After: new(0.2)},
		}),
		printing("ping own", []render.Record{
			hand.PingResult{Command: "ping", OK: true, Rank: 249, Peer: 248, Side: "left", Bytes: 128, Iters: 100, RTT: hand.RoundTrip{Min: 8.5, P50: 9.25, P99: 101.5, Max: 123456}},
		}),
		printing("counters own", []render.Record{
			hand.CounterValue{Command: "counters", OK: true, Rank: &rank, Source: "device", Provider: "soft", Name: "port_rcv_packets", Value: 1<<64 - 1, Delta: 1 << 32, PerRank: []uint64{1 << 32}},
		}),
		printing("mr", []render.Record{
			hand.RegionInfo{Command: "mr", OK: true, Rank: 0, Whose: hand.OwnEnd, Device: "soft:lo", Name: "a", Addr: 0x7f0123400000, Length: 4096, LKey: 7, RKey: 0xffff1234, Access: "remote-write,remote-read,remote-atomic"},
			hand.RegionInfo{Command: "mr", OK: true, Rank: 249, Whose: "right", Device: "soft:enp65s0f0np0", Name: hand.SlotsName, Addr: 0x7f0123456000, Length: 1 << 30, RKey: 9, Access: "remote-write"},
		}, []render.Record{
			hand.MemoryLine{Command: "mr", OK: true, Name: "a", Offset: 0, Hex: "68656c6c6f00ff7f68656c6c6f00ff7f", Text: "hello...hello..."},
			hand.MemoryLine{Command: "mr", OK: true, Name: "a", Offset: 1<<30 - 2, Hex: "6869", Text: "hi"},
		}),
		printing("post", []render.Record{
			hand.Posted{
				Command: "post", OK: true, Rank: 0, Peer: 249, Side: "right", Op: "write", WRID: id, What: "RDMA_WRITE_WITH_IMM of a+0, 4096 bytes, to rank 249's a",
				Local: "a+0", Addr: 0x7f0123400000, LKey: 7, Length: 4096, Remote: "a", RemoteAddr: 0x7f0123456000, RKey: 0xffff1234, Imm: &imm, Outstanding: 1,
			},
			hand.Posted{Command: "post", OK: true, Rank: 0, Peer: 249, Side: "left", Op: "recv", WRID: id, What: "receive into no memory, 0 bytes, from rank 249", Local: "no memory", Outstanding: 256},
		}),
		printing("poll", []render.Record{
			hand.CompletionRow{
				Command: "poll", OK: true, Rank: 0, Side: "left", WRID: id, What: "message buffer 127 of init, from rank 249", Status: verbs.Success.String(),
				Opcode: &recv, ByteLen: &bytes, Imm: &imm, QPN: 0x11, Count: 1, Data: "68656c6c6f", Text: "hello",
			},
			hand.CompletionRow{
				Command: "poll", OK: true, Rank: 0, Side: "right", WRID: id, What: "SEND of a text, 5 bytes, to rank 249", Status: verbs.Success.String(),
				Opcode: &send, ByteLen: &bytes, QPN: 0x12, Count: 1,
			},
			hand.CompletionRow{
				Command: "poll", Rank: 0, Side: "right", WRID: id, What: "RDMA_READ of rank 249's a, 4096 bytes, into a+0", Status: verbs.RemoteAccessError.String(),
				StatusNumber: uint32(verbs.RemoteAccessError), QPN: 0xffffff, VendorErr: 0x88, Count: 1,
			},
			hand.CompletionRow{
				Command: "poll", Rank: 0, Side: "right", WRID: ring.WRID(ring.Right.Edge(), ring.WRRecv, 0), What: "message buffer 0 of init, from rank 249",
				Status: verbs.FlushError.String(), StatusNumber: uint32(verbs.FlushError), QPN: 0xffffff, Count: 128,
			},
		}),
	}
}
