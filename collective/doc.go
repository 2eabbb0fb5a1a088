// Package collective computes over a ring of queue pairs: reduce-scatter,
// all-gather, all-reduce (Patarasuk and Yuan, "Bandwidth optimal all-reduce
// algorithms for clusters of workstations", 2009), broadcast, reduce and barrier.
//
// # Vocabulary
//
//   - A chunk is the part of the vector that one rank owns: rank r of n owns the
//     elements [r*count/n, (r+1)*count/n).
//   - A segment is the unit that is pipelined within a chunk: one transfer, one
//     reduction.
//   - A slot is a receive buffer that the left neighbour may write into without
//     asking, as long as it has a credit for it.
//   - A position is the place of a segment in the stream of transfers between
//     two neighbours. Data flows from left to right; what leaves one rank as
//     position p arrives at the next as position p.
//
// # Operations
//
// What is particular to an operation is in one table, and what is particular to an
// algorithm in another; both are in package plan, which says what a call is and how it is to
// run. This package runs it.
//
// count is the number of elements of the whole vector in all operations,
// so that all-gather after reduce-scatter is all-reduce. Any count will do: zero,
// fewer than there are ranks, and those that the ranks do not divide.
//
//	                send buffer              receive buffer           in place if
//	all-reduce      count elements           count elements           recv == send
//	reduce-scatter  count elements           own chunk                recv == send + own chunk's offset
//	all-gather      own chunk                count elements           send == recv + own chunk's offset
//	broadcast       count at the root        count elements           recv == send at the root
//	reduce          count elements           count at the root        recv == send at the root
//	barrier         none                     none
//
// Buffers are equal in this sense, or disjoint. A send buffer is never written,
// except where it is the receive buffer. In place, reduce-scatter writes the
// own chunk and nothing else.
//
// An operation with a root goes round the ring as a chain of neighbours, whose one chunk is
// the whole vector, and otherwise along the algorithm's tree, turned so that it begins or ends
// at the root, and the order of operands is turned likewise, but under inbox and hierarchical
// (package reference has it). Its ranks do not wait for all others: the root of a broadcast returns when its
// vector is on its way, ahead of the others by as many messages as there are slots.
//
// A barrier returns on no rank before all have called it. It moves nothing: it is an
// all-gather of no elements, n-1 hops round the ring, by doubling a dissemination of ⌈log2 n⌉
// exchanges for any n, and among ranks that share memory a line of cache from each.
//
// # Algorithms
//
//	ring                chunks go round the ring, 2(n-1) hops: bandwidth
//	recursive-doubling  log2 n exchanges with ranks at distance p/2 ... 2, 1, for any n;
//	                    long all-reduces by halves, there and back
//	tree                up an in-order binary tree, and down it
//	inbox               one hop from every rank to every other, up to 8 ranks, or any
//	                    number that share memory
//	hierarchical        within the hosts of the ranks, and between them each rank for its part;
//	                    within a host through memory, if the ranks of each host share it
//
// Those between are for short vectors. All but the ring run over edges of a mesh,
// which the first call of each makes, by scripts: step lists that are pure
// functions of operation, rank and size. Without a [Table], up to 32 KiB go by the
// inbox on up to 8 ranks and where all share memory (an all-reduce on more than 4 up to 16
// KiB), on more by recursive doubling up to where package crossover says, and longer
// vectors round the ring.
//
// # Order of operands
//
// Each algorithm has one order of operands, so that all ranks, runs and protocols
// of it give the same bits; package reduce says what one step computes. In the
// ring chunk c starts at rank c+1 and travels right to its owner, rank c. The
// result is
//
//	((x[c+1] op x[c+2]) op ...) op x[c]     (ranks modulo n)
//
// and an average is divided once, at the owner. The others are documented where
// they are made, in package script; [Algorithm.Order] names them.
//
// # Protocols
//
//	eager              WRITE_WITH_IMM into a slot of the neighbour; one copy (or
//	                   the reduction itself) takes it out, and a credit goes back.
//	rendezvous-write   RTS, then CTS with address and rkey, then WRITE_WITH_IMM
//	                   straight into place.
//	rendezvous-read    RTS with address and rkey, then READ into place, then FIN.
//	receiver-initiated of all-reduce round a ring of few ranks: the first phase goes
//	                   through slots, whose headers bring the address and rkey that
//	                   the second writes into; no handshake and no credits.
//
// RTS, CTS, FIN and credits travel over the queue pair. In all-gather, and in
// the second phase of all-reduce, rendezvous lands in the user's buffer: no CPU
// copies a byte.
//
// Where a neighbour has several channels, position k goes over channel k modulo their number,
// with all its messages. So each channel keeps its order, and both ends know by which one the
// next position comes (package turns); slots and credits are each channel's own.
//
// # The life of a call
//
//	New, Agree    what is per ring: what the ranks can, the table, memory that they share
//	Prepare       what is per call: its plan, its buffers, the edges it needs
//	Prepared.Run  the call, any number of times
//	Run, Start    Prepare, unless the call is the one of before, and the call
//
// Package agree is what the ranks tell each other first, buffer the memory, exec what runs over queue
// pairs, hostteam what runs in memory that ranks share, and watch where a rank is and who keeps it
// waiting. None of them knows a Comm.
//
// # Memory
//
// Buffers come from [Comm.Alloc]; [Comm.Register] takes memory that is there already as it is,
// and [Comm.Share] such that the ranks of the host map it, as they do Alloc's: without that what goes over
// shared memory is copied through segments. It costs a rank nothing but time if another's is not
// shared: each buffer says of itself whether it is mapped, and all ranks take the same steps.
// [Comm.Symmetric] gives a rank the views of all ranks' buffers.
//
// # Operations in flight
//
// [Comm.Run] runs a call on the goroutine of its caller, [Comm.Start] begins one and returns a
// [Handle]: Wait waits for it, Done is closed at its end, Err says how it ended. Any number
// are in flight on one ring, and run one at a time in the order in which they were begun,
// those of Run among them. The buffers belong to a call until its handle resolves, which it
// always does: with nil, with the verdict where a rank is lost, with the cancellation on all
// ranks where the context of one ends. Package async says whose the goroutines are.
//
// # Agreement
//
// Every slot, RTS, CTS and FIN starts with a header that holds the epoch, the
// operation's number and the operation itself. Ranks that call different
// operations get a [*DisagreementError], not a hang or a wrong sum: whoever sees the
// difference tells what it knows round the control ring, as all others then do, and fails the
// ring with the table of who calls what, the minority first. Who calls nothing, or says
// nothing, stands in it as such. Before the first
// operation the ranks tell each other what they can ([Comm.Agree]).
//
// # Failure
//
// A failed or cancelled operation fails the ring: queue pairs go to ERR and the
// regions are deregistered before the call returns, so that nothing that is
// still on its way lands in a buffer that the caller has back. A Comm that
// failed stays failed; its error is that of every later call. An error of usage
// (see [ErrUsage]) is found before anything is sent and harms nothing, but the
// other ranks wait for this one until their deadline.
package collective
