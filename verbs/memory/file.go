package memory

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// MapFile maps the first n bytes of a file, shared with all processes that map it. The file
// must have the whole pages that hold them (see RoundUp), and the descriptor the
// rights; it may be closed afterwards.
func MapFile(fd int, n uint64, writable bool) (*Block, error) {
	prot := unix.PROT_READ
	if writable {
		prot |= unix.PROT_WRITE
	}
	b, err := newBlock(fd, n, prot, unix.MAP_SHARED)
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
