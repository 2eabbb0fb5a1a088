package wire

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"
)

// vectors are packets from the first IP byte on and their ICRCs. The last two
// are those of Scapy's tests (test/contrib/roce.uts), the CNP one that hardware
// sent.
var vectors = []struct{ name, ip, icrc string }{
	{"write only, ID 0", `45000044000040004011b6a5c0000201c0000202c01112b700300000
		0a70ffff0000001180000064 00007f11223340000001234500000005 68656c6c6f000000`, "376b4c9f"},
	{"write only, ID 7", `45000044000740004011b69ec0000201c0000202c01112b700300000
		0a70ffff0000001180000064 00007f11223340000001234500000005 68656c6c6f000000`, "a174d95a"},
	{"ack", `45000030000040004011b6b9c0000202c0000201c01212b7001c0000
		1140ffff0000001200000064 1f000001`, "f8b12a43"},
	{"sequence nak", `45000030000040004011b6b9c0000202c0000201c01212b7001c0000
		1140ffff0000001200000065 60000001`, "8228164d"},
	{"ipv6 send with immediate", `600000000020114020010db800000000000000000000000120010db8000000000000000000000002
		c01112b700200000 0540ffff0000001180000065 deadbeef 72696e67`, "4a7e2ea5"},
	{"UC send, pad 2, ID 1144", `45010040047840004011b4d5c0a80007c0a80007c00012b7002caca2
		2460ffff000000d300cf1710 4630818be28935d90e9a95505401be885e500000`, "78f353f3"},
	{"CNP of a ConnectX-4 Lx", `45c2003c718c4000401191610a0011010a001201000012b700280000
		8100ffff4000011800000000 00000000000000000000000000000000`, "82fd002a"},
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// split takes an IP packet apart: its flow, its IPv4 ID and its UDP payload.
func split(ip []byte) (f Flow, id uint16, udpPayload []byte) {
	src, h := 12, ipv4Len
	size := 4
	if ip[0]>>4 == 6 {
		src, h, size = 8, ipv6Len, 16
	} else {
		id = uint16(ip[4])<<8 | uint16(ip[5])
	}
	from, _ := netip.AddrFromSlice(ip[src : src+size])
	to, _ := netip.AddrFromSlice(ip[src+size : src+2*size])
	sport, dport := uint16(ip[h])<<8|uint16(ip[h+1]), uint16(ip[h+2])<<8|uint16(ip[h+3])
	return NewFlow(netip.AddrPortFrom(from, sport), netip.AddrPortFrom(to, dport)), id, ip[h+udpLen:]
}

func TestICRCVectors(t *testing.T) {
	for _, v := range vectors {
		t.Run(v.name, func(t *testing.T) {
			f, id, p := split(append(unhex(t, v.ip), unhex(t, v.icrc)...))
			checkICRC(t, f, id, p)
			if got, want := referenceICRC(unhex(t, v.ip)), binary.LittleEndian.Uint32(unhex(t, v.icrc)); got != want {
				t.Errorf("by definition the ICRC is %08x, expected %08x", got, want)
			}
		})
	}
}

// checkICRC computes a packet's ICRC in each of the ways there are.
func checkICRC(t *testing.T, f Flow, id uint16, p []byte) {
	t.Helper()
	var pkt Packet
	if err := Parse(&pkt, p); err != nil {
		t.Fatal(err)
	}
	headers := p[:pkt.Opcode.HeaderLen()]
	if got := f.ICRC(id, headers, pkt.Payload); got != icrcOf(p) {
		t.Errorf("ICRC is %08x, expected %08x", got, icrcOf(p))
	}
	crc := f.Start(id, len(p), headers)
	for rest := pkt.Payload; len(rest) > 0; {
		n := min(len(rest), 1+len(rest)/3)
		crc, rest = Update(crc, rest[:n]), rest[n:]
	}
	if crc = UpdatePad(crc, Pad(len(pkt.Payload))); crc != icrcOf(p) {
		t.Errorf("ICRC in pieces is %08x, expected %08x", crc, icrcOf(p))
	}
	for _, hint := range []uint16{0, id, id + 1, 0xffff} {
		if got, ok := f.Verify(p, hint); !ok || got != id {
			t.Errorf("Verify(%d) is %d, %v; expected %d", hint, got, ok, id)
		}
	}
}
