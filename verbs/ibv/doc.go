// Package ibv is the verbs provider of RDMA devices: NICs, InfiniBand adapters
// and Linux rdma_rxe, through the system's libibverbs. The library is loaded when
// it is first needed, so that a program with this provider runs without one: the
// provider then says why it lists nothing. Devices are named "ibv:mlx5_0".
//
// # Ownership and locks
//
// A Context's lock guards its tree of objects: which is a child of which, and what
// is closed. Creating, closing and queries of the device take it. A queue pair has
// three locks: for Modify and Query, since a Modify may wait in the kernel for an
// address to be resolved, for posting sends, and for posting receives. A completion
// queue and a channel have one each. They are taken in this order:
//
//	queue pair: control, send, receive
//	Context
//	completion queue; channel
//
// # Memory
//
// What C reads and writes lies outside the Go heap: work requests, completions
// and attributes are mapped once for each object and reused under its lock. A call
// of C passes a slice of arguments that lives as long as its object, because
// nothing else is free of allocation in purego.
//
// # Events
//
// The descriptors of completion channels and of asynchronous events are made
// non-blocking and wait in Go's poller. An event is acknowledged as soon as it is
// read: destroying the object waits in C for that.
//
// The build tag nodl leaves the library out, for a static program.
package ibv
