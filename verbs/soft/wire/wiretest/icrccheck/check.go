package main

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// rocePort is RoCEv2's UDP port.
const rocePort = 4791

// operation is the name and the bytes of extension headers behind an opcode.
type operation struct {
	name string
	ext  int
}

// connected are the operations in bits 4..0 of RC and UC opcodes.
var connected = map[byte]operation{
	0: {"SEND_FIRST", 0}, 1: {"SEND_MIDDLE", 0}, 2: {"SEND_LAST", 0}, 3: {"SEND_LAST_IMM", 4},
	4: {"SEND_ONLY", 0}, 5: {"SEND_ONLY_IMM", 4},
	6: {"WRITE_FIRST", 16}, 7: {"WRITE_MIDDLE", 0}, 8: {"WRITE_LAST", 0}, 9: {"WRITE_LAST_IMM", 4},
	10: {"WRITE_ONLY", 16}, 11: {"WRITE_ONLY_IMM", 20}, 12: {"READ_REQUEST", 16},
	13: {"READ_RESP_FIRST", 4}, 14: {"READ_RESP_MIDDLE", 0}, 15: {"READ_RESP_LAST", 4}, 16: {"READ_RESP_ONLY", 4},
	17: {"ACK", 4}, 18: {"ATOMIC_ACK", 12}, 19: {"COMPARE_SWAP", 28}, 20: {"FETCH_ADD", 28},
	22: {"SEND_LAST_INV", 4}, 23: {"SEND_ONLY_INV", 4},
}

// lookup returns the operation of an opcode.
func lookup(opcode byte) (operation, bool) {
	low := opcode & 31
	op, known := connected[low]
	switch {
	case opcode>>5 == 0:
		op.name = "RC_" + op.name
	case opcode>>5 == 1 && low < 12:
		op.name = "UC_" + op.name
	case opcode == 0x64:
		op = operation{"UD_SEND_ONLY", 8}
	case opcode == 0x65:
		op = operation{"UD_SEND_ONLY_IMM", 12}
	case opcode == 0x81:
		op, known = operation{"CNP", 16}, true
	default:
		known = false
	}
	return op, known
}

// ipHeader returns the bytes of an IP header and whether UDP follows at once.
func ipHeader(ip []byte) (size int, udp bool) {
	switch {
	case len(ip) >= 20 && ip[0]>>4 == 4:
		size = int(ip[0]&15) * 4
		return size, ip[9] == 17 && binary.BigEndian.Uint16(ip[6:])&0x1fff == 0
	case len(ip) >= 40 && ip[0]>>4 == 6:
		return 40, ip[6] == 17
	}
	return 0, false
}

// isRoCE reports whether ip is a UDP packet to RoCEv2's port.
func isRoCE(ip []byte) bool {
	h, udp := ipHeader(ip)
	return udp && len(ip) >= h+8 && binary.BigEndian.Uint16(ip[h+2:]) == rocePort
}

// check verifies one RoCEv2 packet from its IP header to its ICRC. It returns
// the opcode's name where the packet is long enough to have one.
func check(ip []byte) (name string, err error) {
	h, _ := ipHeader(ip)
	size := int(binary.BigEndian.Uint16(ip[2:]))
	if ip[0]>>4 == 6 {
		size = 40 + int(binary.BigEndian.Uint16(ip[4:]))
	}
	if len(ip) < size {
		return "", fmt.Errorf("%d bytes of %d: capture with a larger snap length", len(ip), size)
	}
	if ip[0]>>4 == 4 && (h != 20 || ip[6]&0x20 != 0) {
		return "", errors.New("IPv4 options or a fragment")
	}
	if n := int(binary.BigEndian.Uint16(ip[h+4:])); n != size-h {
		return "", fmt.Errorf("UDP length %d in an IP packet with room for %d", n, size-h)
	}
	bth, icrc := h+8, size-4
	if icrc < bth+12 {
		return "", errors.New("no room for BTH and ICRC")
	}
	op, known := lookup(ip[bth])
	if !known {
		return "", fmt.Errorf("unknown opcode %#02x", ip[bth])
	}
	if want := icrcOf(ip[:icrc], h); want != binary.LittleEndian.Uint32(ip[icrc:]) {
		return op.name, fmt.Errorf("%s has ICRC % x, expected % x", op.name, ip[icrc:size], binary.LittleEndian.AppendUint32(nil, want))
	}
	if ip[bth+1]&15 != 0 {
		return op.name, fmt.Errorf("transport header version %d", ip[bth+1]&15)
	}
	pad := int(ip[bth+1] >> 4 & 3)
	rest := icrc - (bth + 12 + op.ext)
	if rest < pad || rest%4 != 0 {
		return op.name, fmt.Errorf("%d bytes behind the headers of %s with pad count %d", rest, op.name, pad)
	}
	for _, b := range ip[icrc-pad : icrc] {
		if b != 0 {
			return op.name, fmt.Errorf("pad bytes % x", ip[icrc-pad:icrc])
		}
	}
	if ip[bth] == 17 {
		return ackName(ip[bth+12]), nil
	}
	return op.name, nil
}

// ackName tells the kinds of acknowledgement apart.
func ackName(syndrome byte) string {
	switch syndrome >> 5 {
	case 0:
		return "RC_ACK"
	case 1:
		return "RC_NAK_RNR"
	case 3:
		return fmt.Sprintf("RC_NAK_%d", syndrome&31)
	}
	return fmt.Sprintf("RC_ACK_RESERVED_%#02x", syndrome)
}

// icrcOf returns the invariant CRC of a packet that ends before its ICRC and
// whose IP header has h bytes.
func icrcOf(packet []byte, h int) uint32 {
	b := make([]byte, 0, 8+len(packet))
	b = append(b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
	b = append(b, packet...)
	ip := b[8:]
	if ip[0]>>4 == 4 {
		ip[1] = 0xff                // type of service
		ip[8] = 0xff                // time to live
		ip[10], ip[11] = 0xff, 0xff // header checksum
	} else {
		ip[0] |= 0x0f                          // traffic class, upper half
		ip[1], ip[2], ip[3] = 0xff, 0xff, 0xff // traffic class, lower half, and flow label
		ip[7] = 0xff                           // hop limit
	}
	ip[h+6], ip[h+7] = 0xff, 0xff // UDP checksum
	ip[h+8+4] = 0xff              // FECN, BECN and reserved bits
	return ieee(b)
}

// ieee is the CRC of IEEE 802.3, section 3.2.9, bit by bit, least significant
// bit of each byte first.
func ieee(b []byte) uint32 {
	r := ^uint32(0)
	for _, c := range b {
		for bit := range 8 {
			feedback := (r ^ uint32(c)>>bit) & 1
			r >>= 1
			if feedback == 1 {
				r ^= 0xedb88320 // x^32+x^26+x^23+x^22+x^16+x^12+x^11+x^10+x^8+x^7+x^5+x^4+x^2+x+1
			}
		}
	}
	return ^r
}
