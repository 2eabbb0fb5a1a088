package wire

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"
)

// referenceICRC takes the ICRC of a packet, from the first IP byte to before
// the ICRC, from its definition: masked as the specification says, bit by bit.
func referenceICRC(packet []byte) uint32 {
	ip := bytes.Clone(packet)
	h := ipv4Len
	if ip[0]>>4 == 6 {
		h = ipv6Len
		ip[0] |= 0x0f
		ip[1], ip[2], ip[3], ip[7] = 0xff, 0xff, 0xff, 0xff
	} else {
		ip[1], ip[8], ip[10], ip[11] = 0xff, 0xff, 0xff, 0xff
	}
	ip[h+6], ip[h+7], ip[h+udpLen+4] = 0xff, 0xff, 0xff
	r := ^uint32(0)
	for _, b := range append(bytes.Repeat([]byte{0xff}, 8), ip...) {
		r ^= uint32(b)
		for range 8 {
			if r&1 == 1 {
				r = r>>1 ^ 0xedb88320
			} else {
				r >>= 1
			}
		}
	}
	return ^r
}

// ipPacket puts IP and UDP headers in front of a UDP payload; what the ICRC
// leaves out is filled at random.
func ipPacket(rng *rand.Rand, f *Flow, id, flags uint16, udpPayload []byte) []byte {
	var b []byte
	n := uint16(udpLen + len(udpPayload))
	src, dst := f.Src(), f.Dst()
	if f.IPv6() {
		b = binary.BigEndian.AppendUint32(b, 6<<28|rng.Uint32()>>4)
		b = binary.BigEndian.AppendUint16(b, n)
		b = append(b, 17, byte(rng.Uint32()))
	} else {
		b = append(b, 0x45, byte(rng.Uint32()))
		b = binary.BigEndian.AppendUint16(b, n+ipv4Len)
		b = binary.BigEndian.AppendUint16(b, id)
		b = binary.BigEndian.AppendUint16(b, flags)
		b = append(b, byte(rng.Uint32()), 17)
		b = binary.BigEndian.AppendUint16(b, uint16(rng.Uint32()))
	}
	b = append(append(b, src.Addr().AsSlice()...), dst.Addr().AsSlice()...)
	for _, v := range []uint16{src.Port(), dst.Port(), n, uint16(rng.Uint32())} {
		b = binary.BigEndian.AppendUint16(b, v)
	}
	return append(b, udpPayload...)
}

// newRand makes the same numbers in each run.
func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func randomFlow(rng *rand.Rand, v6 bool) Flow {
	addr := func() netip.Addr {
		var b [16]byte
		binary.BigEndian.PutUint64(b[:], rng.Uint64())
		binary.BigEndian.PutUint64(b[8:], rng.Uint64())
		if v6 {
			return netip.AddrFrom16(b)
		}
		return netip.AddrFrom4([4]byte(b[:4]))
	}
	return NewFlow(netip.AddrPortFrom(addr(), uint16(rng.Uint32())), netip.AddrPortFrom(addr(), UDPPort))
}

// randomPacket makes a valid UDP payload without the ICRC's value.
func randomPacket(rng *rand.Rand, payloadLen int) []byte {
	p := Packet{Opcode: SendOnly, DestQPN: rng.Uint32() & mask24, PSN: rng.Uint32() & mask24}
	b := BTH(make([]byte, BTHLen))
	b[bthQPN] = byte(rng.Uint32()) & 0x80 // FECN
	binary.BigEndian.PutUint16(b[bthPKey:], uint16(rng.Uint32()))
	p.BTH = b
	switch rng.IntN(3) {
	case 1:
		p.Opcode, p.RETH = WriteOnly, RETH(make([]byte, RETHLen))
		p.RETH.Encode(rng.Uint64(), rng.Uint32(), rng.Uint32())
	case 2:
		p.Opcode, p.Imm = SendOnlyImm, rng.Uint32()
	}
	p.Flags = p.Opcode.Flags()
	p.Payload = make([]byte, payloadLen)
	for i := range p.Payload {
		p.Payload[i] = byte(rng.Uint32())
	}
	return encode(&p, 0)
}

// TestReferenceICRC compares with the definition for every length of payload
// at which another branch may be taken, and beyond the tables' longest packet.
func TestReferenceICRC(t *testing.T) {
	rng := newRand(1)
	lengths := []int{255, 256, 511, 1000, 1023, 1024, 2048, 4095, 4096, 4097, 9000, 20001, 65450}
	for n := range 150 {
		lengths = append(lengths, n)
	}
	for _, n := range lengths {
		f := randomFlow(rng, n%3 == 0)
		b := randomPacket(rng, n)
		id := uint16(rng.Uint32())
		end := len(b) - ICRCLen
		for _, flags := range []uint16{0x4000, 0} {
			packet := ipPacket(rng, &f, id, flags, b)
			PutICRC(b[end:], referenceICRC(packet[:len(packet)-ICRCLen]))
			switch {
			case f.IPv6():
				checkICRC(t, f, 0, b)
			case flags == 0x4000:
				checkICRC(t, f, id, b)
			default:
				if got, ok := f.Verify(b, 0); !ok || got != id {
					t.Errorf("%d bytes without DF: ID %d, %v; expected %d", n, got, ok, id)
				}
			}
		}
	}
}

// TestVerifyDamage damages packets. Solving for the ID leaves the chance of
// 2^-15 that a damage passes, an ID policy next to none, IPv6 none to speak of.
func TestVerifyDamage(t *testing.T) {
	const runs = 50000
	rng := newRand(3)
	passed, small := 0, 0
	for i := range runs {
		f := randomFlow(rng, i%5 == 0)
		b := randomPacket(rng, rng.IntN(60))
		end := len(b) - ICRCLen
		var p Packet
		if err := Parse(&p, b); err != nil {
			t.Fatal(err)
		}
		PutICRC(b[end:], f.ICRC(uint16(i&63), b[:p.Opcode.HeaderLen()], p.Payload))
		at := rng.IntN(len(b) * 8)
		if at/8 == 4 {
			at += 8 // the masked byte of the BTH
		}
		b[at/8] ^= 1 << (at % 8)
		if id, ok := f.Verify(b, uint16(i&63)); ok {
			passed++
			if f.IPv6() || id < 128 {
				small++
			}
		}
	}
	if passed > 10 || small != 0 { // 1.2 and 0.005 are to be expected
		t.Errorf("%d of %d damaged packets passed, %d of them with an ID below 128 or over IPv6", passed, runs, small)
	}
}

func TestVerifyShort(t *testing.T) {
	f := NewFlow(netip.MustParseAddrPort("192.0.2.1:1"), netip.MustParseAddrPort("192.0.2.2:4791"))
	for n := range BTHLen + ICRCLen {
		if _, ok := f.Verify(make([]byte, n), 0); ok {
			t.Errorf("%d bytes pass", n)
		}
	}
}

func TestNewFlow(t *testing.T) {
	v4, v6 := netip.MustParseAddrPort("192.0.2.1:7"), netip.MustParseAddrPort("[2001:db8::1]:7")
	mapped := netip.AddrPortFrom(netip.AddrFrom16(v4.Addr().As16()), 7)
	if NewFlow(mapped, v4) != NewFlow(v4, v4) {
		t.Error("an IPv4 address mapped into IPv6 makes another flow than the IPv4 address")
	}
	for _, c := range [][2]netip.AddrPort{{v4, v6}, {v6, v4}, {v4, {}}, {{}, {}}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("NewFlow(%v, %v) does not panic", c[0], c[1])
				}
			}()
			NewFlow(c[0], c[1])
		}()
	}
}

func TestAllocations(t *testing.T) {
	rng := newRand(5)
	f := randomFlow(rng, false)
	b := randomPacket(rng, 4093)
	end := len(b) - ICRCLen
	var p Packet
	var crc uint32
	if n := testing.AllocsPerRun(100, func() {
		if err := Parse(&p, b); err != nil {
			t.Fatal(err)
		}
		crc = f.ICRC(9, b[:p.Opcode.HeaderLen()], p.Payload)
		PutICRC(b[end:], crc)
		crc = UpdatePad(Update(f.Start(9, len(b), b[:p.Opcode.HeaderLen()]), p.Payload), 3)
		if id, ok := f.Verify(b, 0); !ok || id != 9 {
			t.Fatal("packet refused")
		}
		BTH(b).Encode(&BTHFields{Opcode: p.Opcode, PSN: PSNAdd(p.PSN, 1), PadCount: 3})
		flow := NewFlow(f.Src(), f.Dst())
		crc ^= flow.ICRC(1, b[:BTHLen], nil)
	}); n != 0 {
		t.Errorf("%v allocations a packet, expected none", n)
	}
}
