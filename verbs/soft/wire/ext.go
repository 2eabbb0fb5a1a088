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
