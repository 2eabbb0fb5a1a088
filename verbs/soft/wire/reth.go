package wire

import "encoding/binary"

// RETH is the RDMA extended transport header (IBTA volume 1, section 9.3.3):
// VA 8, R_Key 4, DMALen 4. The first or only packet of a WRITE and a READ
// request have it; later packets of a WRITE go on at the running address.
type RETH []byte

// Encode writes the header: remote virtual address, remote key and the bytes
// of the whole message.
func (h RETH) Encode(va uint64, rkey, dmaLen uint32) {
	_ = h[RETHLen-1]
	binary.BigEndian.PutUint64(h, va)
	binary.BigEndian.PutUint32(h[8:], rkey)
	binary.BigEndian.PutUint32(h[12:], dmaLen)
}

// VA returns the remote virtual address.
func (h RETH) VA() uint64 { return binary.BigEndian.Uint64(h) }

// RKey returns the remote key.
func (h RETH) RKey() uint32 { return binary.BigEndian.Uint32(h[8:]) }

// DMALen returns the length of the message in bytes.
func (h RETH) DMALen() uint32 { return binary.BigEndian.Uint32(h[12:]) }
