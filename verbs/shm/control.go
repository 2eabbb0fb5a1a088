package shm

import (
	"sync/atomic"

	"ringcli/verbs"
	"ringcli/verbs/memory"
	"ringcli/verbs/shm/memfd"
)

// Sizes in bytes, and counts.
const (
	// slotCount is how many requests are under way at once; more wait in the send
	// queue. Full-size ones cover 128 MiB.
	slotCount = 128
	// inlineBytes is what a slot carries itself: the rest of its cache line.
	inlineBytes = 24
	// stageBytes holds four of the longest staged payloads.
	stageBytes = 256 << 10
	// stageMost is the longest staged payload. A longer one is sent by reference, if the peer
	// may read it: process_vm_readv costs a microsecond and more to begin with.
	stageMost = 64 << 10
	// referenceLeast is the shortest payload that is sent by reference out of an arena: shorter ones
	// are copied twice in less time than claiming takes.
	referenceLeast = 512
	// referenceMost is the longest piece that is sent by reference: so long does a copier hold a
	// queue pair's lock, and so finely are queue pairs interleaved.
	referenceMost = 1 << 20

	slotsAt   = 4096
	stageAt   = slotsAt + slotCount*64
	blockSize = stageAt + stageBytes
)

// slot is a request, or a piece of one: one cache line.
type slot struct {
	seq   uint32 // atomic: the low half of the request's number plus one, once it is here
	claim uint32 // atomic: who may touch the memory that the slot refers to
	op    uint8  // verbs.Opcode
	flags uint8
	kind  uint8 // where the payload is; of a READ that was answered, where the answer is
	_     uint8
	// length of this piece in bytes, and of the whole message. A READ's answer
	// puts into length how much of it there is.
	length uint32
	total  uint32
	imm    uint32
	rkey   uint32
	_      uint32
	remote uint64 // address of this piece at the responder
	// data is the payload; or the stage's offset and room; or an arena's ID and the
	// offset in it; or an address; or an atomic's operands, then its result.
	data [3]uint64
}

// Bits of slot.flags.
const (
	first     = 1 << iota // the message begins
	last                  // the message ends
	solicited             // raises a solicited event
	readable              // of a READ: the requester can read this process's memory
)

// Values of slot.kind.
const (
	inSlot = iota
	inStage
	inArena
	inProcess
)

// States of a claim.
const (
	open = iota
	copying
	done
	revoked
)

// claim is the word that says who may touch what slot number n refers to. It carries
// the number, so that a late copier cannot touch what the slot refers to next.
func claim(n uint64, state uint32) uint32 { return uint32(n+1)<<2 | state }

// connInfo is what a queue pair's peer must know of it. All but readable is set before
// RTR, and that before bound: a plain word is read once an atomic one has said that it is
// there, and is not written again.
type connInfo struct {
	state    uint32 // atomic: verbs.QPState plus one; 0 once the block is gone
	mtu      uint32
	rqPSN    uint32
	rnrTimer uint32 // atomic
	_        uint32
	readable uint32 // 1: it can read the peer's memory
	destKey  memfd.Key
	destQPN  uint32
	_        uint32
	bound    uint64 // atomic: ID of the peer's block, once that is mapped
	_        [8]byte
}

// block is a queue pair's control memory. Only this package's constants say what
// lies where; no size comes from the block.
type block struct {
	*connInfo
	answer *uint64 // atomic: requests executed << 8 | code
	slots  []slot
	stage  []byte
}

// Codes of an answer: 0, a verbs.Status with which the next request has failed,
// or notReady: it waits for a receive.
const notReady = 0xff

// blockOf views the block that lies at an address.
func blockOf(addr uint64) *block {
	return &block{
		connInfo: &memory.Slice[connInfo](addr, 1)[0],
		answer:   &memory.Slice[uint64](addr+128, 1)[0],
		slots:    memory.Slice[slot](addr+slotsAt, slotCount),
		stage:    memory.Bytes(addr+stageAt, stageBytes),
	}
}

func (b *block) slot(n uint64) *slot { return &b.slots[n%slotCount] }

// accepts reports whether the queue pair takes requests of that one, or will once it
// has found it.
func (c *connInfo) accepts(from *connection) bool {
	state := verbs.QPState(atomic.LoadUint32(&c.state) - 1)
	return state.Receives() && c.destKey == from.ctx.key && c.destQPN == from.qp.QPN
}

func (c *connInfo) setState(s verbs.QPState) { atomic.StoreUint32(&c.state, uint32(s)+1) }

// Rows of a directory.
const (
	// rows is how many queue pairs a Context can have; the low bits of a QPN.
	rows = 1 << 16
	// firstRow leaves out the numbers that rdma_rxe leaves out.
	firstRow = 16

	blocksAt      = 4096
	regionsAt     = blocksAt + rows*8
	directorySize = regionsAt + rows*64
)

// region is a row of a directory: a region that peers may map. It is valid while
// key is the row's. All of it is atomic: key is cleared first and written last, and a
// reader that finds the same key before and after has read one region and no mixture
// only if neither end's accesses pass each other.
type region struct {
	key          uint32
	access       uint32
	_            uint64
	addr, length uint64
	arena        uint64
	offset       uint64
	_            [16]byte
}

// tell writes a row.
func (r *region) tell(key, access uint32, addr, length, arena, offset uint64) {
	atomic.StoreUint32(&r.access, access)
	atomic.StoreUint64(&r.addr, addr)
	atomic.StoreUint64(&r.length, length)
	atomic.StoreUint64(&r.arena, arena)
	atomic.StoreUint64(&r.offset, offset)
	atomic.StoreUint32(&r.key, key)
}

// read copies a row. The region with a key is in it if its key is the row's afterwards.
func (r *region) read() region {
	return region{
		access: atomic.LoadUint32(&r.access),
		addr:   atomic.LoadUint64(&r.addr), length: atomic.LoadUint64(&r.length),
		arena: atomic.LoadUint64(&r.arena), offset: atomic.LoadUint64(&r.offset),
	}
}

// directory is what a Context tells others.
type directory struct {
	// sleeping is 1 while the goroutine sleeps on doorbell, or is about to. The process that
	// clears it wakes the goroutine. Both are atomic.
	sleeping *uint32
	doorbell *uint32
	blocks   []uint64 // atomic, by the low bits of the QPN: the ID of its block's arena
	regions  []region // by the upper bits of the rkey
}

func directoryOf(addr uint64) *directory {
	words := memory.Slice[uint32](addr, 32)
	return &directory{
		sleeping: &words[0], doorbell: &words[16],
		blocks:  memory.Slice[uint64](addr+blocksAt, rows),
		regions: memory.Slice[region](addr+regionsAt, rows),
	}
}

// wake has the Context make progress if nobody does.
func (d *directory) wake() {
	if atomic.LoadUint32(d.sleeping) != 0 && atomic.CompareAndSwapUint32(d.sleeping, 1, 0) {
		atomic.AddUint32(d.doorbell, 1)
		_ = memfd.Wake(d.doorbell)
	}
}
