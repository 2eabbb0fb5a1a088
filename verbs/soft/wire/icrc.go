package wire

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// The invariant CRC (IBTA volume 1, section 7.8.1 and annex A17.3; Linux
// drivers/infiniband/sw/rxe/rxe_icrc.c) is the CRC-32 of Ethernet over
//
//	8 bytes of ones
//	IP header     as sent, but ones for TOS, TTL and header checksum (IPv4)
//	              or traffic class, flow label and hop limit (IPv6)
//	UDP header    as sent, but ones for the checksum
//	BTH           as sent, but ones for byte 4
//	the rest      extension headers, payload, pad
//
// So it covers IPv4's total length, identification and flags.

const (
	ipv4Len = 20
	ipv6Len = 40
	udpLen  = 8

	// Distances in bytes from a field to the end of the UDP header.
	v4LengthToEnd = ipv4Len + udpLen - 2
	v4IDToEnd     = ipv4Len + udpLen - 4
	v6LengthToEnd = ipv6Len + udpLen - 4
	udpLenToEnd   = 4

	// afterOnes is the register after the 8 leading bytes of ones.
	afterOnes = 0xdebb20e3
)

// Flow is one direction of packets between two addresses and ports: what
// [Flow.Start] and [Flow.Verify] must know of the IP and UDP headers. IPv4
// packets have no options and, where sent, DF set. A Flow never changes after
// [NewFlow], so that goroutines may share it.
type Flow struct {
	base     uint32 // register after the masked headers with lengths and ID zero
	v6       bool
	src, dst netip.AddrPort
}

// NewFlow returns the flow from src to dst; dst's port is [UDPPort] in RoCEv2.
// IPv4 addresses in IPv6 clothes count as IPv4. It panics where the addresses
// are not of one family: no packet has such a pair.
func NewFlow(src, dst netip.AddrPort) Flow {
	from, to := src.Addr().Unmap(), dst.Addr().Unmap()
	if !from.IsValid() || from.BitLen() != to.BitLen() {
		panic(fmt.Sprintf("wire.NewFlow: source %v and destination %v: expected two IPv4 or two IPv6 addresses", src, dst))
	}
	f := Flow{v6: from.Is6(), src: netip.AddrPortFrom(from, src.Port()), dst: netip.AddrPortFrom(to, dst.Port())}
	var buf [ipv6Len + udpLen]byte
	h := buf[:0]
	if f.v6 {
		s, d := from.As16(), to.As16()
		h = append(h, 0x6f, 0xff, 0xff, 0xff, 0, 0, 17, 0xff)
		h = append(append(h, s[:]...), d[:]...)
	} else {
		s, d := from.As4(), to.As4()
		h = append(h, 0x45, 0xff, 0, 0, 0, 0, 0x40, 0, 0xff, 17, 0xff, 0xff)
		h = append(append(h, s[:]...), d[:]...)
	}
	h = binary.BigEndian.AppendUint16(h, src.Port())
	h = binary.BigEndian.AppendUint16(h, dst.Port())
	h = append(h, 0, 0, 0xff, 0xff)
	f.base = foldShort(afterOnes, h)
	return f
}

// Src returns the sender's address and port.
func (f *Flow) Src() netip.AddrPort { return f.src }

// IPv6 reports whether the flow is of IPv6, whose packets have no ID.
func (f *Flow) IPv6() bool { return f.v6 }

// afterUDP returns the register after the masked IP and UDP headers of a
// packet. The lengths and the ID stand at fixed distances from the end of the
// UDP header, so their contributions are looked up and added.
func (f *Flow) afterUDP(id uint16, udpPayloadLen int) uint32 {
	n := udpPayloadLen + udpLen
	r := f.base ^ slicing[udpLenToEnd-1][byte(n>>8)] ^ slicing[udpLenToEnd-2][byte(n)]
	if f.v6 {
		return r ^ slicing[v6LengthToEnd-1][byte(n>>8)] ^ slicing[v6LengthToEnd-2][byte(n)]
	}
	n += ipv4Len
	return r ^ slicing[v4LengthToEnd-1][byte(n>>8)] ^ slicing[v4LengthToEnd-2][byte(n)] ^
		slicing[v4IDToEnd-1][id>>8] ^ slicing[v4IDToEnd-2][byte(id)]
}

// Start begins the invariant CRC of a packet whose payload comes in pieces.
// udpPayloadLen counts the bytes of the whole UDP payload, from BTH to ICRC
// with the pad; headers are BTH and extension headers. Go on with [Update] for
// each piece and with [UpdatePad]; the last value is the ICRC.
func (f *Flow) Start(id uint16, udpPayloadLen int, headers []byte) uint32 {
	r := f.afterUDP(id, udpPayloadLen)
	return ^foldShort(foldBTH(r, headers), headers[BTHLen:])
}

// Update adds a piece of the payload to an invariant CRC.
func Update(crc uint32, piece []byte) uint32 { return ^fold(^crc, piece) }

// UpdatePad adds pad zero bytes, 0 to 3, to an invariant CRC.
func UpdatePad(crc uint32, pad int) uint32 { return ^foldShort(^crc, make([]byte, 3)[:pad]) }

// PutICRC stores an invariant CRC in the last bytes of a packet.
func PutICRC(b []byte, crc uint32) { binary.LittleEndian.PutUint32(b, crc) }

// Verify checks the invariant CRC of a UDP payload, BTH to ICRC inclusive,
// whose IP header was not seen.
//
// IPv6 leaves nothing unknown: all 32 bits are checked and id is 0. For IPv4
// the identification and the DF flag are solved for: ok says that some ID
// explains the ICRC, with DF or without, and id is that one. A damaged packet
// has ok with a probability of 2^-15, unless the caller goes on to check id
// against what the peer may send: each ID it would accept adds 2^-31.
// A packet with the ID hint costs a little less than others; an unconnected Linux UDP
// socket with IP_PMTUDISC_DO sends 0.
func (f *Flow) Verify(udpPayload []byte, hint uint16) (id uint16, ok bool) {
	id, flags, ok := f.solve(udpPayload, hint)
	return id, ok && flags&^noDF == 0
}

// VerifyBelow is Verify of a peer that sends with DF and IDs below a limit: a damaged packet
// passes with a probability of the limit times 2^-32.
func (f *Flow) VerifyBelow(udpPayload []byte, hint, limit uint16) bool {
	id, flags, ok := f.solve(udpPayload, hint)
	return ok && flags == 0 && id < limit
}

// noDF is how the flags differ, as solve returns them, without DF.
const noDF = 0x40

// solve returns the ID that explains the invariant CRC of a packet, and how the flags and the
// fragment's offset would have to differ from those of a whole packet with DF.
func (f *Flow) solve(udpPayload []byte, hint uint16) (id, flags uint16, ok bool) {
	end := len(udpPayload) - ICRCLen
	if end < BTHLen {
		return 0, 0, false
	}
	r := f.afterUDP(hint, len(udpPayload))
	crc := ^fold(foldBTH(r, udpPayload), udpPayload[BTHLen:end])
	diff := crc ^ binary.LittleEndian.Uint32(udpPayload[end:])
	switch {
	case f.v6:
		return 0, 0, diff == 0
	case diff == 0:
		return hint, 0, true
	}
	// Taken back to where the ID stands, the difference is the XOR of the four
	// bytes there, ID and flags, first byte lowest: see crc.go.
	diff = times(diff, unwind(v4IDToEnd+end))
	return hint ^ uint16(diff<<8|diff>>8&0xff), uint16(diff >> 16), true
}

// unwindWords covers the longest RoCEv2 packet in words of 4 bytes.
const unwindWords = (v4IDToEnd + MaxHeaderLen + 4096) / 4

// unwound[i] is x^(-32i), which takes a register back over 4i bytes.
var unwound = func() (t [unwindWords + 1]uint32) {
	r := uint32(1 << 31) // x^0
	for i := range t {
		t[i] = r
		for range 32 {
			r = overX(r)
		}
	}
	return t
}()

// unwind returns x^(-8n).
func unwind(n int) uint32 {
	words := n / 4
	r := unwound[min(words, unwindWords)]
	for ; words > unwindWords; words -= unwindWords {
		r = times(r, unwound[min(words-unwindWords, unwindWords)])
	}
	for range n % 4 * 8 {
		r = overX(r)
	}
	return r
}
