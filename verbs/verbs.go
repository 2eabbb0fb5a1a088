package verbs

import (
	"context"
	"time"
)

// Context is an open device (struct ibv_context).
type Context interface {
	Device() Device
	QueryDevice() (DeviceAttr, error)
	QueryPort(port int) (PortAttr, error)
	// QueryGID returns one row of the GID table; ErrInvalid beyond its end.
	QueryGID(port, index int) (GIDEntry, error)
	AllocPD() (PD, error)
	CreateCompChannel() (CompChannel, error)
	// CreateCQ makes a queue of at least cqe completions. The channel may be nil.
	CreateCQ(cqe int, channel CompChannel) (CQ, error)
	// Counters returns the port's counters, in a fixed order.
	Counters(port int) ([]Counter, error)
	// Close releases the context. ErrBusy names what is still open.
	Close() error
}

// PD is a protection domain: queue pairs reach only regions of their own PD.
type PD interface {
	Context() Context
	// RegMR registers length bytes at addr, which must stay mapped until
	// the region is closed.
	RegMR(addr, length uint64, access Access) (MR, error)
	CreateQP(QPInitAttr) (QP, error)
	Close() error
}

// DMABufRegistrar is a PD that registers memory of another device, which has a dma-buf of it.
type DMABufRegistrar interface {
	// RegDMABufMR registers length bytes of the file from an offset on, which requests name by
	// the addresses from addr on. The file may be closed afterwards.
	RegDMABufMR(fd int, offset, addr, length uint64, access Access) (MR, error)
}

// MemoryKind is where a region's memory is.
type MemoryKind uint8

const (
	// MemoryHost is memory of this process alone.
	MemoryHost MemoryKind = iota
	// MemoryArena is memory that other processes of this host can map (Mapper).
	MemoryArena
)

func (k MemoryKind) String() string { return name(uint32(k), "memory kind", "host", "arena") }

// MR is a registered memory region (struct ibv_mr).
type MR interface {
	Addr() uint64     // of the first byte
	Length() uint64   // bytes
	LKey() uint32     // the key for SGEs
	RKey() uint32     // the key for the peer
	Access() Access   // the rights given at registration
	Kind() MemoryKind // where the memory is
	// Close deregisters. When it returns the keys are dead: nothing that
	// arrives later can touch the memory.
	Close() error
}

// CompChannel delivers completion events (struct ibv_comp_channel).
type CompChannel interface {
	// GetEvent waits for an armed queue to get a completion, at most for the
	// timeout: ErrTimeout then. Events need no acknowledgement.
	GetEvent(timeout time.Duration) (CQ, error)
	Close() error
}

// CQ is a completion queue (struct ibv_cq).
type CQ interface {
	// Poll takes up to len(wc) completions without waiting and returns how many.
	// An empty wc takes none and makes progress: a caller that stops polling for a while
	// calls it last, so that a software provider sends the ACKs that it owes.
	Poll(wc []Completion) (int, error)
	// ReqNotify arms the queue: the next completion (or, solicitedOnly, the
	// next solicited or failed one) makes one event on the channel. A
	// completion already queued makes none: poll once more after arming.
	ReqNotify(solicitedOnly bool) error
	Close() error
}

// QP is a queue pair (struct ibv_qp).
type QP interface {
	Num() uint32
	PD() PD
	// Modify sets the attributes that mask names, AttrState among them for a
	// transition. A refusal is a *ModifyError.
	Modify(attr QPAttr, mask AttrMask) error
	// Query returns what the queue pair itself holds now.
	Query() (QPAttr, QPInitAttr, error)
	// PostSend queues work requests in order. At the first bad one it stops:
	// n is its index and the earlier ones run.
	PostSend(wrs []WorkRequest) (n int, err error)
	// PostRecv queues receive requests (ID and SGL count); n as in PostSend.
	PostRecv(wrs []WorkRequest) (n int, err error)
	Close() error
}

// QPInitAttr says how to create a queue pair (struct ibv_qp_init_attr).
type QPInitAttr struct {
	SendCQ CQ
	RecvCQ CQ
	Cap    QPCap
	Type   QPType
	SigAll bool // every send makes a completion
}

// SGE is one piece of memory (struct ibv_sge).
type SGE struct {
	Addr   uint64
	Length uint32
	LKey   uint32
}

// WorkRequest is a request to send or receive (struct ibv_send_wr, ibv_recv_wr).
type WorkRequest struct {
	ID         uint64
	SGL        []SGE
	Opcode     Opcode
	Flags      SendFlags
	Imm        uint32 // in host order; on the wire it is big-endian
	RKey       uint32
	RemoteAddr uint64
	CompareAdd uint64 // CAS: compare; FETCH_ADD: addend
	Swap       uint64 // CAS: new value
}

// Completion is a finished work request (struct ibv_wc). If Status is not
// Success only ID, Status, QPN and VendorErr are valid.
type Completion struct {
	ID        uint64
	Status    Status
	Opcode    WCOpcode
	VendorErr uint32
	ByteLen   uint32
	Imm       uint32
	QPN       uint32
	Flags     WCFlags
}

// Memory is memory outside the Go heap. Its owner frees it, after the regions
// that were registered over it are closed.
type Memory interface {
	// Addr is the address of the first byte.
	Addr() uint64
	// Len is the number of bytes.
	Len() int
	// Bytes views the memory. The slice dies with Free.
	Bytes() []byte
	// Free gives the memory back. Freeing twice is harmless.
	Free() error
}

// Allocator is a Context, or its Provider, that has a better kind of memory than others: a region
// over it can be reached without a copy.
type Allocator interface {
	// AllocMemory returns length zeroed bytes at the start of a page.
	AllocMemory(length uint64) (Memory, error)
}

// Adopter is a Context that makes memory which is there already such as its AllocMemory's.
type Adopter interface {
	// AdoptMemory makes length bytes of this process at addr, outside the Go heap, memory that
	// peers can map, where they are and with what they hold. Of private memory that takes a
	// move, and so move: nobody may write to its pages before AdoptMemory returns, no device
	// may have pinned them, and children that are forked share them. It must stay mapped
	// until Free, which undoes all that and leaves the memory there; its Bytes outlive
	// Free. ErrInvalid: it cannot be done with this memory, and why.
	AdoptMemory(addr, length uint64, move bool) (Memory, error)
}

// Mapper is a Context that reaches others whose regions can be looked at without a request
// or a queue pair: the host-memory form of peer-to-peer over IPC.
type Mapper interface {
	// Reach finds the Context that has a GID, which may be of another process.
	Reach(ctx context.Context, gid GID) (Reached, error)
}

// Reached is a Context that another one has reached.
type Reached interface {
	// Map returns where its bytes [addr, addr+length) of the region rkey lie in this
	// process. Access is AccessRemoteRead for a view that can only be read, with
	// AccessRemoteWrite for one that can be written; the region must have the right.
	// It asks the owner, with a deadline; asking again for the same region is quick. The
	// view is valid until the owner frees the memory, or until Close, unless the Context is
	// reached otherwise as well. ErrInvalid: the region cannot be mapped.
	Map(rkey uint32, addr, length uint64, access Access) (local uint64, err error)
	// Close lets go of it. Closing twice is harmless.
	Close() error
}

// Prober is a QP that can find out which packets still reach the peer, from RTR on and once
// it has failed, too.
type Prober interface {
	// Probe sends so many packets of each of these path MTUs that no queue pair takes, as long as
	// those of data can be; 0 is the shortest. The error is that the device is closed. That a packet cannot
	// leave is none, since it is too long for the own interface, the own firewall drops it
	// (EPERM), or there is no route: it does not arrive.
	Probe(mark uint64, mtus []int, each int) error
	// Probed returns the path MTU of each probe with that mark that has come to the QP's device,
	// from whomever, in ascending order.
	Probed(mark uint64) (mtus []int)
}
