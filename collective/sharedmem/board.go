package sharedmem

import (
	"sync/atomic"

	"ringcli/verbs/memory"
)

const (
	// MinRanks and MaxRanks bound a team: each rank looks at a line of each other one.
	MinRanks, MaxRanks = 2, 256
	// inboxRanks is the largest team in which every rank writes into the boards of all
	// others. In a larger one it posts in its own, once, what the others read there: n lines
	// change hands and not n*n, and a board has as many whatever the number of ranks.
	inboxRanks = 8

	// lineBytes is what one control line takes: a cache line of 64 bytes, and the
	// next, which some processors fetch along with it.
	lineBytes = 128
	// linePayload is what rides in a line behind its tag. Two adjacent words go out
	// together. A third one gives the peer, which polls the line, the time to take it
	// away before the tag is in it; then another line, which nobody polls, is quicker:
	// 0.08 us between two near ranks against 0.11.
	linePayload = 8
	// InboxPiece is the most that an inbox takes at a time. It is the longest
	// message that the inbox is meant for; longer ones come in pieces.
	InboxPiece = 32 << 10

	// slotBytes is the longest segment. Slots of 64 to 256 KiB and 2 to 4 MiB in
	// all differ by less than a tenth; the shortest stays in L2 best.
	slotBytes = 64 << 10
	// slotDepth segments may lie in slots: one is filled, one is read, and two make
	// up for ranks that do not run all the time.
	slotDepth = 4
	// sendBytes is what a board has for send slots, if that leaves each peer shortestSlot:
	// where there are more peers their slots are shorter.
	sendBytes, shortestSlot = slotDepth * (inboxRanks - 1) * slotBytes, pageBytes

	pageBytes = 4096
)

// The lines of a board that its owner alone writes.
const (
	callLine    = iota // digest and count of the owner's call
	stagedLine         // steps whose input segments lie in the owner's slots
	reducedLine        // steps of the owner's chunk that are complete
	takenLine          // steps of the others' chunks that the owner has
	readLine           // the last round whose references the owner has read
	passedLine         // the calls through queues that the owner is past
	ownLines
)

// announcedLines is what an announcement takes.
const announcedLines = (8*announcedEnd + lineBytes - 1) / lineBytes

// line is control memory: a tag or a counter, and words that belong to it. The
// first word is accessed atomically only; the others are written before it and
// read after it.
type line [lineBytes / 8]uint64

func (l *line) load() uint64       { return atomic.LoadUint64(&l[0]) }
func (l *line) store(value uint64) { Publish(&l[0], value) }

// layout is where things lie in a board of a team of n ranks:
//
//	own lines       call, staged, reduced, taken, read, passed
//	announcement    what the owner is in
//	queue           lines that the owner posts, for calls with a root
//	payloads        of those that do not fit their lines
//	inbox lines     one per entry and parity: the tag and a word
//	inbox areas     InboxPiece bytes for each of these lines
//	send slots      slotDepth times n-1 segments: the owner's input, for each peer
//	result slots    slotDepth segments: the owner's chunk, complete
//
// The inbox entry for the owner itself is its scratch memory; beyond inboxRanks that is the
// only one. In one more the owner posts what all others read.
type layout struct {
	ranks                        int
	inboxes                      uint64
	slot                         uint64 // bytes
	inboxLines, queues, payloads uint64 // offsets
	areas, sends, results, bytes uint64 // offsets, and the size of it all
}

// scratch is that entry beyond inboxRanks.
const scratch = 0

func layoutOf(ranks int) layout {
	n := uint64(ranks)
	l := layout{ranks: ranks, inboxes: n + 1, slot: slotBytes}
	if ranks > inboxRanks {
		l.inboxes = 2
		l.slot = max(sendBytes/slotDepth/(n-1)/pageBytes*pageBytes, shortestSlot)
	}
	l.inboxLines = (ownLines + announcedLines) * lineBytes
	l.queues = l.inboxLines + 2*l.inboxes*lineBytes
	l.payloads = (l.queues + queueDepth*lineBytes + pageBytes - 1) / pageBytes * pageBytes
	l.areas = l.payloads + queueBytes
	l.sends = l.areas + 2*l.inboxes*InboxPiece
	l.results = l.sends + slotDepth*(n-1)*l.slot
	l.bytes = l.results + slotDepth*l.slot
	return l
}

// BoardSize returns the bytes of control memory that each rank of a team of so
// many ranks needs. It starts at a page, is mapped writable by all ranks, and is
// zeroed before any of them makes its Team.
func BoardSize(ranks int) uint64 { return layoutOf(ranks).bytes }

func (l *layout) own(board uint64, which int) *line {
	return &memory.Slice[line](board+uint64(which)*lineBytes, 1)[0]
}

func (l *layout) announcement(board uint64) *Announcement {
	return &memory.Slice[Announcement](board+ownLines*lineBytes, 1)[0]
}

// posted is the entry that a board's owner posts in.
func (l *layout) posted() int { return int(l.inboxes) - 1 }

// inbox returns the line of an entry that is written in rounds of a parity: by rank entry, or
// by the board's owner.
func (l *layout) inbox(board uint64, entry int, parity uint32) *line {
	return &memory.Slice[line](board+l.inboxLines+(2*uint64(entry)+uint64(parity))*lineBytes, 1)[0]
}

// area returns the memory that belongs to that line.
func (l *layout) area(board uint64, entry int, parity uint32) []byte {
	return memory.Bytes(board+l.areas+(2*uint64(entry)+uint64(parity))*InboxPiece, InboxPiece)
}

// queued returns a line of the owner's queue.
func (l *layout) queued(board, slot uint64) *line {
	return &memory.Slice[line](board+l.queues+slot*lineBytes, 1)[0]
}

// payload returns n bytes of the memory for payloads of the owner's queue.
func (l *layout) payload(board, at uint64, n int) []byte {
	return memory.Bytes(board+l.payloads+at, n)
}

// send returns the address of what the owner of the board has for a peer in a
// step.
func (l *layout) send(board, step uint64, owner, peer int) uint64 {
	index := step%slotDepth*uint64(l.ranks-1) + uint64((peer-owner-1+l.ranks)%l.ranks)
	return board + l.sends + index*l.slot
}

// result returns the address of the owner's complete segment of a step.
func (l *layout) result(board, step uint64) uint64 {
	return board + l.results + step%slotDepth*l.slot
}
