// Package simnet is a network of reliable-connected queue pairs (package rc) in
// memory, under a virtual clock: nothing sleeps, and one seed gives one run.
//
// Packets are real: each is encoded to bytes with its pad and its ICRC, as a
// socket would take it, may be lost, doubled, delayed or damaged on its way, and
// is verified and parsed where it arrives. Memory is byte arrays behind synthetic
// addresses, so that an access outside a region is found at once.
//
//	net := simnet.New(simnet.Options{Seed: 1, Faults: simnet.Faults{Loss: 0.05}})
//	a, b := net.NewNode(), net.NewNode()
//	qa, qb := a.NewQP(...), b.NewQP(...)
//	err := simnet.Connect(qa, qb, attrA, attrB)
//	qa.Complete = func(c rc.Completion) { ... }
//	qa.PostSend(&wr)
//	net.Run(time.Second)
//
// Everything runs on the goroutine that calls Step or Run.
package simnet
