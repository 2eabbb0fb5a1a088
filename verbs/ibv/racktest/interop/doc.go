// Package interop has one test: the verbs' conformance suite between the two
// providers that speak RoCEv2, ringcli's own in user space (soft) and a device of
// the kernel's through libibverbs, Linux's rdma_rxe say (ibv). Both ends live in
// one process, in a network namespace that the device is not in: a device answers
// for UDP port 4791 in its own.
package interop
