// Package verbs is libibverbs in Go: devices, contexts, protection domains,
// memory regions, completion queues and reliable-connected queue pairs, with the
// names, the numbers and the checks of the original (rdma-core,
// libibverbs/verbs.h; InfiniBand Architecture Specification 1.4, volume 1,
// chapters 10 and 11).
//
// # How the objects hang together
//
//	Provider → Device → Context ─┬─ PD ─┬─ MR   (lkey, rkey)
//	                             │      └─ QP   (RESET → INIT → RTR → RTS)
//	                             ├─ CompChannel
//	                             └─ CQ ← Completion
//
// A provider registers itself with Register; its devices are named
// "provider:device", for example "soft:lo".
//
// # Providers
//
//	ibv    RDMA devices, through the system's libibverbs
//	soft   RoCE v2 in this process, over UDP, on any network interface
//	shm    shared memory, between processes of one host
//
// Package providers links them in. What stands above them asks what a device can do
// (DeviceAttr, Capabilities, Allocator, Adopter, Mapper), not who provides it. Package
// objects is what soft and shm have alike, verbstest the suite that all three pass.
//
// # From a device to a queue pair that works
//
// Package route chooses device, GID and address vector and says why; package bringup
// opens it and makes the objects on it; Advance takes a queue pair to the next state.
//
// # Addresses, not slices
//
// A scatter/gather element names memory by address, length and lkey. Memory that
// a device touches lies outside the Go heap (package verbs/memory) and stays
// mapped for as long as it is registered.
//
// # Concurrency
//
// Every object is safe for concurrent use. Posting and polling allocate nothing.
// A work request belongs to the caller again when PostSend or PostRecv returns;
// the memory that its SGL names belongs to the device until the completion. Closing
// an object twice is harmless.
//
// # Progress
//
// A software provider makes progress in Poll and in PostSend, and in the
// background while nobody polls. How to wait for a completion is Waiter's matter.
package verbs
