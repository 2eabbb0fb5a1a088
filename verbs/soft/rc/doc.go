// Package rc is the reliable-connected queue pair of RoCEv2 as a pure state
// machine (InfiniBand Architecture Specification 1.4, volume 1, chapter 9;
// behaviour as Linux drivers/infiniband/sw/rxe where the specification leaves a
// choice).
//
// Packets, work requests and a clock go in; packets as headers with references
// into memory, placement orders, completions and the next deadline come out. A
// QP never copies payload, allocates, sleeps, locks or reads a clock, so that the
// same code runs over sockets, over an in-memory wire with injected faults and
// under a virtual clock. What comes out is appended to an Output that the caller
// owns; the caller carries out Orders in order before it publishes Completions
// and before it calls Emit again.
//
//	PostSend, PostRecv ─▶ ┌───────────┐ ─▶ Emit: Packets (requests, responses, ACKs)
//	Step(packet, now)  ─▶ │    QP     │ ─▶ Orders (place payload, atomics)
//	Tick(now)          ─▶ └───────────┘ ─▶ Completions; Deadline
//
// The three parts of the specification stand in three files: the requester makes
// request packets from the send queue, the responder answers the peer's requests
// (READs and atomics, which are remembered for replay, in answer.go), the completer
// takes the peer's answers. What they do about loss stands in loss.go.
package rc
