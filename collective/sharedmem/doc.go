// Package sharedmem computes collectives among the ranks of one host, up to MaxRanks,
// over memory that they share: with loads, stores and atomics, and with no device,
// queue pair or message. It knows nothing of how the memory came to be shared.
//
// # Use
//
// Each rank provides a board, BoardSize bytes of zeroed control memory that all
// ranks map writable, and makes a [Team] of the boards' local addresses. Then all
// ranks make the same calls in the same order, with one of two engines, which
// differ in the order of operands and so, for floats, in bits:
//
//   - [Team.Inbox] for small vectors: everybody writes into everybody's board, or
//     from some length on refers to its own buffer where that is mapped, and
//     reduces in the order of ranks. In a large team, and in a crowded one what is the
//     same for all, everybody posts in its own board what all others read there.
//   - [Team.Pull] for long ones: each rank reduces its own chunk, reading its
//     peers' buffers in place where these are mapped, in the order of the ring,
//     and the others pull the result.
//
// Nobody returns before all have called, but for calls with a root up to [QueueMost] by
// the inbox: who contributes posts that in its board and goes on, up to queueDepth calls
// ahead of who takes it.
//
// Both take all-reduce, reduce-scatter, all-gather, broadcast, reduce and barrier, any count, in place
// or not, and both wait by themselves: for a few microseconds by spinning, then
// by yielding to other processes, in the end by sleeping for up to a millisecond.
// [Config.Stop] is asked meanwhile.
//
// # Memory ordering
//
// Every word that one rank waits for and another one writes is the first of a line: a
// [Publish] behind all that it stands for, plain stores and plain loads of a peer's memory
// alike, and an atomic load before what it stands for is touched. On amd64 these are plain
// instructions, and streamed stores, which the order of stores leaves out, have a fence; on
// arm64 STLR and LDAR, and there are no streamed stores. No rank stores a word and then has
// to see, by a load of another, whether somebody missed it (which would take a full barrier,
// and amd64's Publish is none): whoever waits looks again. What is overwritten two rounds or
// some slots later is so because of an atomic load of what its readers published after they
// had read. All words of an [Announcement] are atomic, since any rank may read it at any time.
// Package shm's documentation says what an emulator of arm64 shows of that, and what not.
//
// # Trust
//
// Boards guard against mistakes, not against a hostile peer. A rank whose call
// differs is named in a [DisagreementError]; a reference that leads nowhere is an
// error of [Config.Map]; a counter that makes no sense ends in wrong data or in a
// timeout, not in a fault. What a rank reads of a peer's buffer must stay mapped
// until its call returns, whatever becomes of the peer.
package sharedmem
