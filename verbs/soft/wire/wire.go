// Package wire is the RoCEv2 wire format: headers, opcodes, sequence numbers
// and the invariant CRC, as pure functions over byte slices. It does no I/O,
// keeps no state that changes after start-up and allocates nothing.
//
// A packet on the wire, with its lengths in bytes:
//
//	Ethernet | IPv4 (20) or IPv6 (40) | UDP (8) | BTH (12) | extension headers | payload | pad (0..3) | ICRC (4)
//
// Everything is big-endian but the ICRC, which is stored least significant
// byte first. "UDP payload" in this package means BTH to ICRC inclusive.
//
// Header types are views over a []byte in the manner of gVisor's tcpip/header:
// a getter or setter on a slice that is too short panics, so lengths are
// checked once, by [Parse] or by the caller that sized the buffer.
//
// Sources: InfiniBand Architecture Specification volume 1, chapter 9 and
// annex A17 (RoCEv2); Linux include/rdma/ib_pack.h and
// drivers/infiniband/sw/rxe/rxe_hdr.h.
package wire

// UDPPort is the UDP destination port of RoCEv2, as assigned by IANA.
const UDPPort = 4791

// Lengths in bytes of the headers (IBTA volume 1, section 9.2 and 9.3).
const (
	BTHLen          = 12
	RETHLen         = 16
	AtomicETHLen    = 28
	AETHLen         = 4
	AtomicAckETHLen = 8
	ImmDtLen        = 4
	ICRCLen         = 4

	// MaxHeaderLen is the longest run of headers that an RC packet has: a
	// BTH and an AtomicETH. (RETH and ImmDt together are shorter.)
	MaxHeaderLen = BTHLen + AtomicETHLen
)

// DefaultPKey is the partition key of the default partition with full
// membership. Linux rdma_rxe knows no other.
const DefaultPKey = 0xffff

// Pad returns how many zero bytes, 0 to 3, follow a payload of n bytes.
func Pad(n int) int { return -n & 3 }

// PSNMask covers the 24 bits of a packet or message sequence number.
const PSNMask = mask24

// PSNDiff returns a-b modulo 2^24 as a signed number, -2^23 to 2^23-1: negative
// where a comes before b.
func PSNDiff(a, b uint32) int32 { return int32((a-b)<<8) >> 8 }

// PSNAdd returns a+n modulo 2^24; n may be negative.
func PSNAdd(a uint32, n int) uint32 { return (a + uint32(n)) & PSNMask }
