package wire

import (
	"encoding/binary"
	"fmt"

	"ringcli/verbs"
)

// ImmDt is the immediate data header (IBTA volume 1, section 9.3.6). Verbs
// hands the four bytes over in network order; Value reads them so.
type ImmDt []byte

func (h ImmDt) Encode(imm uint32) { binary.BigEndian.PutUint32(h, imm) }
func (h ImmDt) Value() uint32     { return binary.BigEndian.Uint32(h) }

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

func (h RETH) VA() uint64     { return binary.BigEndian.Uint64(h) }
func (h RETH) RKey() uint32   { return binary.BigEndian.Uint32(h[8:]) }
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

func (h AtomicETH) VA() uint64      { return binary.BigEndian.Uint64(h) } // must be a multiple of 8
func (h AtomicETH) RKey() uint32    { return binary.BigEndian.Uint32(h[8:]) }
func (h AtomicETH) SwapAdd() uint64 { return binary.BigEndian.Uint64(h[12:]) } // to store (CompareSwap) or to add (FetchAdd)
func (h AtomicETH) Compare() uint64 { return binary.BigEndian.Uint64(h[20:]) }

// AtomicAckETH is the atomic acknowledge extended transport header (IBTA
// volume 1, section 9.5.3): the 8 bytes that stood in memory before.
type AtomicAckETH []byte

func (h AtomicAckETH) Encode(orig uint64) { binary.BigEndian.PutUint64(h, orig) }
func (h AtomicAckETH) Orig() uint64       { return binary.BigEndian.Uint64(h) }

// AETH is the acknowledge extended transport header (IBTA volume 1, section
// 9.5.2): syndrome 1, MSN 3.
type AETH []byte

// Encode writes the header; msn has 24 bits.
func (h AETH) Encode(s Syndrome, msn uint32) {
	binary.BigEndian.PutUint32(h, uint32(s)<<24|msn&mask24)
}

func (h AETH) Syndrome() Syndrome { return Syndrome(h[0]) }
func (h AETH) MSN() uint32        { return binary.BigEndian.Uint32(h) & mask24 } // the responder's message sequence number

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

func (s Syndrome) IsAck() bool { return s&syndromeKind == kindAck }
func (s Syndrome) IsRNR() bool { return s&syndromeKind == kindRNR } // receiver not ready; its Code goes into verbs.RNRTimer
func (s Syndrome) IsNAK() bool { return s&syndromeKind == kindNAK } // other than RNR

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
