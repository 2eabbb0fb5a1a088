// Package gpu computes collectives over the memory of GPUs.
//
// Ranks of one host whose GPUs reach each other's memory make an all-reduce among themselves:
// the host of each rank queues kernels, which read the peers' memory in place, and goes on to wait
// for the last one. A [Team] is those ranks, and a [Region] memory of each of them that all can
// address ("symmetric memory"): its allocation's IPC handle goes round the control ring, with the
// offset in it, so that memory which exists already is as good as new one.
//
// # Algorithms
//
//	ring                above RingAbove bytes: 2(n-1) steps, in each of which a rank reads a
//	                    chunk of its left neighbour's. Partial results are in the receive buffer.
//	recursive-doubling  up to there: log2 n exchanges, for any n, by way of buffers of the team's own
//
// The order of operands of each is that of package collective's algorithm of that name, so that
// the bits are those that it makes of host memory.
//
// # Order
//
// A rank tells another one by a number in the other's memory that it has come so far, which its
// stream writes behind the kernel, and for which the other's stream waits before its next: no
// host is between. What one rank tells another is numbered from the team's beginning, so that
// each wait is for one value. There is one deadline, the ring's timeout, for all of an operation;
// who has passed it reads from its own numbers whom its device still waits for, then writes them
// itself, which lets the stream run out.
//
// An operation ends, for the host, when nobody reads this rank's buffers any more.
//
// # Staging
//
// Whatever has no path through the devices goes through the host: to pinned memory, round the
// ring of queue pairs, and back. [Path] says which it was and why.
package gpu
