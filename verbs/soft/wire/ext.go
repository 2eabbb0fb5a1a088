package wire

import (
	"encoding/binary"
	"fmt"

	"ringcli/verbs"
)

// ImmDt is the immediate data header (IBTA volume 1, section 9.3.6). Verbs
// hands the four bytes over in network order; Value reads them so.
type ImmDt []byte

// Encode writes the header.
func (h ImmDt) Encode(imm uint32) { binary.BigEndian.PutUint32(h, imm) }

// Value returns the immediate.
func (h ImmDt) Value() uint32 { return binary.BigEndian.Uint32(h) }

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

// AETH is the acknowledge extended transport header (IBTA volume 1, section
// 9.5.2): syndrome 1, MSN 3.
type AETH []byte

// Encode writes the header; msn has 24 bits.
func (h AETH) Encode(s Syndrome, msn uint32) {
	binary.BigEndian.PutUint32(h, uint32(s)<<24|msn&mask24)
}

// Syndrome returns what the responder says.
func (h AETH) Syndrome() Syndrome { return Syndrome(h[0]) }

// MSN returns the responder's message sequence number, 24 bits.
func (h AETH) MSN() uint32 { return binary.BigEndian.Uint32(h) & mask24 }

// Syndrome says, in bits 7..5, whether an AETH is an ACK, an RNR NAK or a NAK,
// and in bits 4..0 a credit, timer or error code.
type Syndrome uint8

// Syndromes (IBTA volume 1, tables 43 to 45; Linux include/rdma/ib_hdrs.h).
const (
	SyndromeAck       Syndrome = 0x1f // ACK without credit information
	NakPSNSeq         Syndrome = 0x60 // a PSN was skipped; the packet's PSN is the one expected
	NakInvalidRequest Syndrome = 0x61
	NakRemoteAccess   Syndrome = 0x62
	NakRemoteOp       Syndrome = 0x63

	syndromeKind = 0xe0
	kindAck      = 0x00
	kindRNR      = 0x20
	kindNAK      = 0x60
)

// RNRSyndrome returns the RNR NAK syndrome with a timer code, 0 to 31.
func RNRSyndrome(code uint8) Syndrome { return Syndrome(kindRNR | code&0x1f) }

// IsAck reports whether s acknowledges.
func (s Syndrome) IsAck() bool { return s&syndromeKind == kindAck }

// IsRNR reports whether s is a receiver-not-ready NAK; its Code goes into
// [RNRTimer].
func (s Syndrome) IsRNR() bool { return s&syndromeKind == kindRNR }

// IsNAK reports whether s is a NAK other than RNR.
func (s Syndrome) IsNAK() bool { return s&syndromeKind == kindNAK }

// Code returns bits 4..0: the credit code of an ACK, the timer code of an RNR
// NAK, the error code of a NAK.
func (s Syndrome) Code() uint8 { return uint8(s) & 0x1f }

// String names s for people.
func (s Syndrome) String() string {
	switch name := syndromeNames[s]; {
	case name != "":
		return name
	case s.IsAck():
		return fmt.Sprintf("ACK, credit code %d", s.Code())
	case s.IsRNR():
		return fmt.Sprintf("RNR NAK, %v", verbs.RNRTimer(s.Code()))
	}
	return fmt.Sprintf("reserved syndrome %#02x", uint8(s))
}

var syndromeNames = map[Syndrome]string{
	SyndromeAck: "ACK", NakPSNSeq: "NAK, PSN sequence error", NakInvalidRequest: "NAK, invalid request",
	NakRemoteAccess: "NAK, remote access error", NakRemoteOp: "NAK, remote operational error",
}
