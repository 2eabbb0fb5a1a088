package wire

import "encoding/binary"

// ImmDt is the immediate data header (IBTA volume 1, section 9.3.6). Verbs
// hands the four bytes over in network order; Value reads them so.
type ImmDt []byte

// Encode writes the header.
func (h ImmDt) Encode(imm uint32) { binary.BigEndian.PutUint32(h, imm) }

// Value returns the immediate.
func (h ImmDt) Value() uint32 { return binary.BigEndian.Uint32(h) }

// IETH is the invalidate extended transport header (IBTA volume 1, section
// 9.3.7): the R_Key that the receiver shall invalidate.
type IETH []byte

// RKey returns the key to invalidate.
func (h IETH) RKey() uint32 { return binary.BigEndian.Uint32(h) }

// DETH is the datagram extended transport header of UD packets (IBTA volume 1,
// section 9.3.2): Q_Key 4, reserved 1, source QPN 3.
type DETH []byte

// Encode writes the header, the reserved byte as zero.
func (h DETH) Encode(qkey, srcQPN uint32) {
	_ = h[DETHLen-1]
	binary.BigEndian.PutUint32(h, qkey)
	binary.BigEndian.PutUint32(h[4:], srcQPN&mask24)
}

// QKey returns the queue key.
func (h DETH) QKey() uint32 { return binary.BigEndian.Uint32(h) }

// SrcQPN returns the sender's queue pair number, 24 bits.
func (h DETH) SrcQPN() uint32 { return binary.BigEndian.Uint32(h[4:]) & mask24 }
