package wire

import (
	"encoding/binary"
	"fmt"

	"ringcli/verbs"
)

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
