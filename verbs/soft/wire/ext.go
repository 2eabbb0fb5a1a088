package wire

import "encoding/binary"

// ImmDt is the immediate data header (IBTA volume 1, section 9.3.6). Verbs
// hands the four bytes over in network order; Value reads them so.
type ImmDt []byte

// Encode writes the header.
func (h ImmDt) Encode(imm uint32) { binary.BigEndian.PutUint32(h, imm) }

// Value returns the immediate.
func (h ImmDt) Value() uint32 { return binary.BigEndian.Uint32(h) }
