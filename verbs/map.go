package verbs

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

// Allocator is a Context that has a better kind of memory than others: a region
// over it can be reached without a copy.
type Allocator interface {
	// AllocMemory returns length zeroed bytes at the start of a page.
	AllocMemory(length uint64) (Memory, error)
}

// Mapper is a QP whose peer's regions can be looked at without a request: the
// host-memory form of peer-to-peer over IPC.
type Mapper interface {
	// Map returns where the peer's bytes [addr, addr+length) of the region rkey lie
	// in this process, from RTR on. Access is AccessRemoteRead for a view that can
	// only be read, with AccessRemoteWrite for one that can be written; the region
	// must have the right. It asks the peer, with a deadline; asking again for the
	// same region is quick. The view is valid until the owner frees the memory or
	// the QP is closed. ErrInvalid: the region cannot be mapped.
	Map(rkey uint32, addr, length uint64, access Access) (local uint64, err error)
}
