package wire

import "encoding/binary"

// AtomicETH is the atomic extended transport header (IBTA volume 1, section
// 9.3.4): VA 8, R_Key 4, swap or add 8, compare 8.
type AtomicETH []byte

// Encode writes the header. For FetchAdd, swapAdd is the addend and compare
// is 0.
func (h AtomicETH) Encode(va uint64, rkey uint32, swapAdd, compare uint64) {
	_ = h[AtomicETHLen-1]
	binary.BigEndian.PutUint64(h, va)
	binary.BigEndian.PutUint32(h[8:], rkey)
	binary.BigEndian.PutUint64(h[12:], swapAdd)
	binary.BigEndian.PutUint64(h[20:], compare)
}

// VA returns the remote virtual address, which must be a multiple of 8.
func (h AtomicETH) VA() uint64 { return binary.BigEndian.Uint64(h) }

// RKey returns the remote key.
func (h AtomicETH) RKey() uint32 { return binary.BigEndian.Uint32(h[8:]) }

// SwapAdd returns the value to store (CompareSwap) or to add (FetchAdd).
func (h AtomicETH) SwapAdd() uint64 { return binary.BigEndian.Uint64(h[12:]) }

// Compare returns the value to compare with.
func (h AtomicETH) Compare() uint64 { return binary.BigEndian.Uint64(h[20:]) }

// AtomicAckETH is the atomic acknowledge extended transport header (IBTA
// volume 1, section 9.5.3): the 8 bytes that stood in memory before.
type AtomicAckETH []byte

// Encode writes the header.
func (h AtomicAckETH) Encode(orig uint64) { binary.BigEndian.PutUint64(h, orig) }

// Orig returns the value that stood in memory before the operation.
func (h AtomicAckETH) Orig() uint64 { return binary.BigEndian.Uint64(h) }
