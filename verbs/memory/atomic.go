package memory

import "sync/atomic"

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
