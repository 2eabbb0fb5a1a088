// Package memory owns the memory that devices touch: mappings outside the Go heap,
// anonymous or of a file, and views of addresses. All unsafe conversions between an address
// and a slice stand here, so that the rest of the tree can speak in addresses
// (uint64, as an SGE does) without importing unsafe.
package memory

import (
	"fmt"
	"math"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Block is one page-aligned mapping outside the Go heap. Its owner frees it;
// nothing may use its address afterwards.
type Block struct {
	data []byte // the whole mapping; nil once freed
	n    int    // bytes asked for
}

// Live is the number of bytes mapped by this package and not yet freed. Tests hold
// against it that nothing is left behind.
var Live atomic.Int64

// Alloc maps n zeroed bytes that only this process sees. Zero bytes give a block
// with an address and no bytes.
func Alloc(n uint64) (*Block, error) {
	b, err := newBlock(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("allocate %d bytes: %w; use a smaller size or free memory", n, err)
	}
	return b, nil
}

// RoundUp returns the bytes of the whole pages that hold n bytes, at least one
// page; ok is false if that is more than an address space holds.
func RoundUp(n uint64) (size uint64, ok bool) {
	if n > math.MaxInt64/2 {
		return 0, false
	}
	page := uint64(unix.Getpagesize())
	return max(page, (n+page-1)/page*page), true
}

func newBlock(fd int, offset, n uint64, prot, flags int) (*Block, error) {
	size, ok := RoundUp(n)
	if !ok {
		return nil, fmt.Errorf("more than an address space holds")
	}
	if err := room(size, flags&unix.MAP_SHARED == 0); err != nil {
		return nil, err
	}
	data, err := unix.Mmap(fd, int64(offset), int(size), prot, flags)
	if err != nil {
		return nil, fmt.Errorf("mmap: %w", err)
	}
	Live.Add(int64(len(data)))
	return &Block{data: data, n: int(n)}, nil
}

// Addr, Len, Bytes and Free are as verbs.Memory has them.

func (b *Block) Addr() uint64  { return Addr(b.data) }
func (b *Block) Len() int      { return b.n }
func (b *Block) Bytes() []byte { return b.data[:b.n:b.n] }

func (b *Block) Free() error {
	if b == nil || b.data == nil {
		return nil
	}
	data := b.data
	b.data, b.n = nil, 0
	Live.Add(-int64(len(data)))
	if err := unix.Munmap(data); err != nil {
		return fmt.Errorf("free %d bytes: munmap: %w", len(data), err)
	}
	return nil
}

// Bytes views n bytes at an address. The caller answers for the memory's life.
func Bytes(addr uint64, n int) []byte { return Slice[byte](addr, n) }

// Addr returns the address of a slice's first element, or 0 of nil.
func Addr[T any](s []T) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(s)))) }

// Slice views n elements of T at an address, which must be aligned for T.
func Slice[T any](addr uint64, n int) []T {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(pointer(addr)), n)
}

// AsBytes views a typed slice as bytes.
func AsBytes[T any](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(s[0])))
}

// pointer turns an address into a pointer. It goes through memory because the
// address is not derived from a Go pointer, which is what go vet's unsafeptr
// rule (rightly) suspects of a direct conversion.
func pointer(addr uint64) unsafe.Pointer {
	p := uintptr(addr)
	return *(*unsafe.Pointer)(unsafe.Pointer(&p))
}

// Store64 stores v at an address that need not be aligned, in host order.
func Store64(addr, v uint64) {
	if addr%8 == 0 {
		atomic.StoreUint64((*uint64)(pointer(addr)), v)
		return
	}
	*(*[8]byte)(pointer(addr)) = *(*[8]byte)(AsBytes([]uint64{v}))
}

// CompareAndSwap64 stores swap at an 8-byte-aligned address if compare is there,
// atomically, and returns what was there before.
func CompareAndSwap64(addr, compare, swap uint64) uint64 {
	p := (*uint64)(pointer(addr))
	for {
		old := atomic.LoadUint64(p)
		if old != compare || atomic.CompareAndSwapUint64(p, old, swap) {
			return old
		}
	}
}

// FetchAdd64 adds v at an 8-byte-aligned address, atomically, and returns what
// was there before.
func FetchAdd64(addr, v uint64) uint64 {
	return atomic.AddUint64((*uint64)(pointer(addr)), v) - v
}

// MapFile maps n bytes of a file, from an offset that is the start of a page, shared with all
// processes that map it. The file must have the pages that hold them, and the descriptor
// the rights; it may be closed afterwards.
func MapFile(fd int, offset, n uint64, writable bool) (*Block, error) {
	prot := unix.PROT_READ
	if writable {
		prot |= unix.PROT_WRITE
	}
	b, err := newBlock(fd, offset, n, prot, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes of a file: %w", n, err)
	}
	if len(b.data) >= hugePage {
		// Where the system leaves it to programs (shmem_enabled=advise), huge pages make
		// the first touch of 64 MiB 8 to 10 times quicker; elsewhere this does nothing.
		_ = unix.Madvise(b.data, unix.MADV_HUGEPAGE)
	}
	return b, nil
}

// hugePage is the smallest mapping that asks for huge pages: the size of one on
// amd64, and on arm64 with pages of 4 KiB.
const hugePage = 2 << 20

// Blank puts private zeroed pages in the place of the block's, in one step: a
// process that still reads or writes it meets zeros instead of a fault, and what was
// mapped is released. The block must be freed all the same.
func (b *Block) Blank() error {
	if b == nil || b.data == nil {
		return nil
	}
	_, err := unix.MmapPtr(-1, 0, pointer(b.Addr()), uintptr(len(b.data)), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE|unix.MAP_FIXED)
	if err != nil {
		return fmt.Errorf("blank %d bytes: mmap: %w", len(b.data), err)
	}
	return nil
}

// TakeOver moves the block to addr, the start of a page, in place of the as many bytes that are
// mapped there, and takes over their content first. In one step those who read
// there come to read the block's pages, which are no longer the block's: nothing is left to free. What
// somebody writes there before TakeOver returns may be lost.
func (b *Block) TakeOver(addr uint64) (err error) {
	size := len(b.data)
	defer Guard()()
	defer func() {
		if fault := Fault(recover()); fault != nil {
			err = fmt.Errorf("move %d bytes to %#x: %w: is it still mapped?", size, addr, fault)
		}
	}()
	copy(b.data, Bytes(addr, size))
	if _, err := unix.MremapPtr(pointer(b.Addr()), uintptr(size), pointer(addr), uintptr(size), unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED); err != nil {
		return fmt.Errorf("move %d bytes to %#x: mremap: %w", size, addr, err)
	}
	Live.Add(-int64(size))
	b.data, b.n = nil, 0
	return nil
}

// Node is the NUMA node on which the page of an address is, which must have been touched.
func Node(addr uint64) (int, error) {
	const node, ofAddr = 1, 2 // MPOL_F_NODE, MPOL_F_ADDR of get_mempolicy(2)
	var n int32
	_, _, errno := unix.Syscall6(unix.SYS_GET_MEMPOLICY, uintptr(unsafe.Pointer(&n)), 0, 0, uintptr(addr), node|ofAddr, 0)
	if errno != 0 {
		return 0, fmt.Errorf("NUMA node of %#x: get_mempolicy: %w", addr, errno)
	}
	return int(n), nil
}
