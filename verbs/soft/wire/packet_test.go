package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
)

func TestParse(t *testing.T) {
	b := unhex(t, "0bb0ffff 40000011 80000064  00007f1122334000 00012345 00000005  cafef00d  68656c6c6f000000  01020304")
	var p Packet
	if err := Parse(&p, b); err != nil {
		t.Fatal(err)
	}
	if p.Opcode != WriteOnlyImm || p.Flags != WriteOnlyImm.Flags() || !p.AckReq || !p.Solicited || p.DestQPN != 0x11 || p.PSN != 100 ||
		p.Imm != 0xcafef00d || icrcOf(b) != 0x04030201 || p.RETH.DMALen() != 5 || string(p.Payload) != "hello" || p.BTH[bthQPN] != 0x40 {
		t.Errorf("parsed as %+v", p)
	}
	if p.AETH != nil || p.Atomic != nil || p.AtomicAck != nil {
		t.Errorf("headers that WRITE_ONLY_IMM has not are not nil: %+v", p)
	}
	if cap(p.Payload) != 5 || cap(p.BTH) != BTHLen || cap(p.RETH) != RETHLen {
		t.Errorf("slices reach beyond their part: %d, %d, %d", cap(p.Payload), cap(p.BTH), cap(p.RETH))
	}
	// A packet that is used again keeps nothing of the one before.
	if err := Parse(&p, unhex(t, "1140ffff 00000012 00000064 1f000001 00000000")); err != nil {
		t.Fatal(err)
	}
	if p.RETH != nil || p.Imm != 0 || p.AETH.Syndrome() != SyndromeAck || p.AETH.MSN() != 1 || p.Payload == nil || len(p.Payload) != 0 {
		t.Errorf("parsed as %+v", p)
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct {
		name, hex string
		want      error
	}{
		{"nothing", "", ErrShort},
		{"no ICRC", "0400ffff 00000011 00000064", ErrShort},
		{"least packet", "0400ffff 00000011 00000064 00000000", nil},
		{"version 1", "0401ffff 00000011 00000064 00000000", ErrVersion},
		{"opcode 0x15", "1500ffff 00000011 00000064 00000000", ErrUnknownOpcode},
		{"opcode of RD", "4400ffff 00000011 00000064 00000000", ErrUnknownOpcode},
		{"RETH cut", "0a00ffff 00000011 00000064 000000000000000000000000 00000000", ErrShort},
		{"no room for pad", "0410ffff 00000011 00000064 00000000", ErrPad},
		{"pad does not fill up", "0410ffff 00000011 00000064 6162 00000000", ErrPad},
		{"payload of two", "0420ffff 00000011 00000064 61620000 00000000", nil},
	} {
		var p Packet
		err := Parse(&p, unhex(t, c.hex))
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: error %v, expected %v", c.name, err, c.want)
		}
		if errors.Is(err, ErrPad) && (p.DestQPN != 0x11 || p.PSN != 100 || p.Opcode != SendOnly) {
			t.Errorf("%s: a NAK cannot be made of %+v", c.name, p)
		}
	}
}

// FuzzParse parses anything; what parses must be built again from its fields.
func FuzzParse(f *testing.F) {
	eachPacket(f, func(_ string, number int, ip []byte) {
		if number%7 == 0 {
			_, _, b := split(ip)
			f.Add(b)
		}
	})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		var p Packet
		if err := Parse(&p, b); err != nil {
			return
		}
		// Reserved bits and what the pad holds are not fields.
		want := bytes.Clone(b)
		want[bthQPN] &= 0xc0 // FECN and BECN
		want[8] &= 0x80
		clear(want[len(b)-ICRCLen-int(p.BTH.PadCount()) : len(b)-ICRCLen])
		if got := encode(&p, icrcOf(b)); !bytes.Equal(got, want) {
			t.Errorf("encoded again it is\n% x, expected\n% x", got, want)
		}
		if n := testing.AllocsPerRun(1, func() { _ = Parse(&p, b) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

// FuzzVerify verifies anything: what has the right ICRC must pass with its ID,
// and what passes must have the ICRC of the ID that came out.
func FuzzVerify(f *testing.F) {
	eachPacket(f, func(_ string, number int, ip []byte) {
		if number%7 == 0 {
			_, id, b := split(ip)
			f.Add(b, id, uint16(0), ip[0]>>4 == 6)
		}
	})
	rng := newRand(7)
	flows := [2]Flow{randomFlow(rng, false), randomFlow(rng, true)}
	f.Fuzz(func(t *testing.T, b []byte, id, hint uint16, v6 bool) {
		if len(b) > 9000 {
			return
		}
		flow := flows[0]
		if v6 {
			flow, id = flows[1], 0
		}
		expect := func(id, flags uint16) uint32 {
			packet := ipPacket(rng, &flow, id, flags, b)
			return referenceICRC(packet[:len(packet)-ICRCLen])
		}
		if got, ok := flow.Verify(b, hint); ok {
			icrc := binary.LittleEndian.Uint32(b[len(b)-ICRCLen:])
			if icrc != expect(got, 0x4000) && (v6 || icrc != expect(got, 0)) {
				t.Errorf("passed with ID %d, whose ICRC it has not", got)
			}
		}
		if len(b) < BTHLen+ICRCLen {
			return
		}
		b = bytes.Clone(b)
		PutICRC(b[len(b)-ICRCLen:], expect(id, 0x4000))
		if got, ok := flow.Verify(b, hint); !ok || got != id {
			t.Errorf("ID %d, %v; expected %d", got, ok, id)
		}
	})
}
