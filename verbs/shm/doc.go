// Package shm is the verbs provider between processes of one host: one device,
// "shm:0", whose queue pairs speak through shared memory.
//
// # Which process writes where
//
// Nobody writes into another process's user memory. A SEND or WRITE is copied by
// its target, out of the requester's arena or memory; a READ is granted by the
// responder and copied by the requester. What processes do write into each
// other's is control memory: the blocks of queue pairs. Nothing that is read
// there is believed: a number out of range fails a request, and no more.
//
// # What is shared
//
// Each Context has a Hub (package memfd), whose key is the GID, and a directory: an
// arena that says which block each queue pair has, where each region lies, and
// whether anybody is awake. The GID ends with the directory's ID.
//
// Each queue pair has a block, a new one each time that it leaves RESET, so that
// the peer of its last connection cannot disturb the next:
//
//	info     what the peer must know of this end, its state among it; written here
//	answer   how many requests the peer has executed, and how the next one failed;
//	         written by the peer
//	slots    requests, one cache line each; filled here, answered by the peer
//	stage    payloads that are too long for a slot and too short for a reference
//
// A slot is full once its number is the expected one, so a request of up to 24
// bytes needs one cache line to travel, and the answer another.
//
// # Payloads by reference
//
// Long payloads are not staged. The slot says where they lie: in an arena, which
// the copier maps, or at an address of the process, which it reads with
// process_vm_readv. The slot's claim says who may touch them:
//
//	open ──▶ copying ──▶ done     the copier
//	  └────▶ revoked              the owner: the region is closed, the request fails
//
// An owner that wants its memory back revokes what is open and waits for what is being
// copied, unless the copier is dead.
//
// # Ownership and locks
//
// A queue pair's lock guards all of it and both blocks' words that this end
// writes. Context.mu guards lists of objects and may be taken within a queue pair's
// lock, never the other way round. A completion queue's lock is the innermost.
//
// # Memory ordering
//
// The two ends are compiled for amd64, where loads pass no load and stores no store, and for
// arm64, where they do unless sync/atomic says otherwise: its stores are releases there, its
// loads acquires, of which none passes the other. On both:
//
//   - seq of a slot, a queue pair's answer, bound, state: stored atomically behind the plain
//     words that they announce, loaded before these are read. The words are written again
//     only once the other end's atomic word has said that they were read.
//   - claim: what a copier reads lies between two compare-and-swaps of one word. Whatever
//     overtakes the second half of the first (arm64 without LSE lets later loads do so)
//     reads what nobody could take back meanwhile.
//   - sleeping and the requests that end the sleep: each end stores its word and then loads
//     the other's. That needs stores not to be passed by later loads, which amd64 has from
//     XCHG, and arm64 from STLR before LDAR; a plain store would lose wake-ups on both.
//   - a region's row in the directory is atomic in all its words: on arm64 a plain load may
//     come after a later acquire, and a plain store before an earlier release.
//
// The tests on arm64 run under an emulator whose host is amd64 (.ci/run arm64), which cannot
// show a missing barrier.
//
// # Progress
//
// A caller that polls a completion queue makes the progress of the Context's queue
// pairs. While nobody polls, a goroutine does, and sleeps on a word of the
// directory when there is nothing to do; a peer that gives it something to do looks
// whether it sleeps and only then makes a system call.
//
// Like a NIC, a process that is alive answers: timeout and retry_cnt run only
// while the peer's process is gone, or its queue pair is not in RTR or better.
package shm
