package wire

import (
	"bytes"
	"testing"
)

func TestBTH(t *testing.T) {
	b := BTH(bytes.Repeat([]byte{0xff}, BTHLen))
	b.Encode(&BTHFields{Opcode: WriteOnly, MigReq: true, AckReq: true, PadCount: 3, PKey: 0x8001, DestQPN: 0xff123456, PSN: 0xffabcdef})
	if want := []byte{0x0a, 0x70, 0x80, 0x01, 0, 0x12, 0x34, 0x56, 0x80, 0xab, 0xcd, 0xef}; !bytes.Equal(b, want) {
		t.Fatalf("encoded % x, expected % x", []byte(b), want)
	}
	if b.Opcode() != WriteOnly || b.Solicited() || !b.MigReq() || !b.AckReq() || b.PadCount() != 3 || b.TVer() != 0 ||
		b.PKey() != 0x8001 || b.DestQPN() != 0x123456 || b.PSN() != 0xabcdef {
		t.Errorf("getters disagree with % x", []byte(b))
	}
}

// TestBTHGetters has each field alone set, and all but it: it must see its own bits
// and no others.
func TestBTHGetters(t *testing.T) {
	flag := func(get func(BTH) bool) func(BTH) uint32 {
		return func(b BTH) uint32 {
			if get(b) {
				return 1
			}
			return 0
		}
	}
	for _, f := range []struct {
		name string
		mask [BTHLen]byte
		get  func(BTH) uint32
		ones uint32
	}{
		{"opcode", [BTHLen]byte{0: 0xff}, func(b BTH) uint32 { return uint32(b.Opcode()) }, 0xff},
		{"pad", [BTHLen]byte{1: 0x30}, func(b BTH) uint32 { return uint32(b.PadCount()) }, 3},
		{"version", [BTHLen]byte{1: 0x0f}, func(b BTH) uint32 { return uint32(b.TVer()) }, 15},
		{"pkey", [BTHLen]byte{2: 0xff, 3: 0xff}, func(b BTH) uint32 { return uint32(b.PKey()) }, 0xffff},
		{"qpn", [BTHLen]byte{5: 0xff, 6: 0xff, 7: 0xff}, BTH.DestQPN, mask24},
		{"psn", [BTHLen]byte{9: 0xff, 10: 0xff, 11: 0xff}, BTH.PSN, mask24},
		{"solicited", [BTHLen]byte{1: 0x80}, flag(BTH.Solicited), 1},
		{"migreq", [BTHLen]byte{1: 0x40}, flag(BTH.MigReq), 1},
		{"ackreq", [BTHLen]byte{8: 0x80}, flag(BTH.AckReq), 1},
	} {
		others := f.mask
		for i := range others {
			others[i] = ^others[i]
		}
		if alone, none := f.get(f.mask[:]), f.get(others[:]); alone != f.ones || none != 0 {
			t.Errorf("%s is %#x where it alone is set and %#x where all others are, expected %#x and 0", f.name, alone, none, f.ones)
		}
	}
}

func TestExtensionHeaders(t *testing.T) {
	reth := RETH(make([]byte, RETHLen))
	reth.Encode(0x0102030405060708, 0x11121314, 0x21222324)
	atomic := AtomicETH(make([]byte, AtomicETHLen))
	atomic.Encode(0x0102030405060708, 0x11121314, 0x2122232425262728, 0x3132333435363738)
	aeth := AETH(make([]byte, AETHLen))
	aeth.Encode(NakRemoteOp, 0xff010203)
	orig := AtomicAckETH(make([]byte, AtomicAckETHLen))
	orig.Encode(0x0102030405060708)
	imm := ImmDt(make([]byte, ImmDtLen))
	imm.Encode(0x01020304)
	for _, c := range []struct {
		name string
		got  []byte
		want string
		ok   bool
	}{
		{"RETH", reth, "0102030405060708 11121314 21222324",
			reth.VA() == 0x0102030405060708 && reth.RKey() == 0x11121314 && reth.DMALen() == 0x21222324},
		{"AtomicETH", atomic, "0102030405060708 11121314 2122232425262728 3132333435363738",
			atomic.VA() == 0x0102030405060708 && atomic.RKey() == 0x11121314 &&
				atomic.SwapAdd() == 0x2122232425262728 && atomic.Compare() == 0x3132333435363738},
		{"AETH", aeth, "63 010203", aeth.Syndrome() == NakRemoteOp && aeth.MSN() == 0x010203},
		{"AtomicAckETH", orig, "0102030405060708", orig.Orig() == 0x0102030405060708},
		{"ImmDt", imm, "01020304", imm.Value() == 0x01020304},
	} {
		if !bytes.Equal(c.got, unhex(t, c.want)) || !c.ok {
			t.Errorf("%s is % x, expected %s; getters agree: %v", c.name, c.got, c.want, c.ok)
		}
	}
}

func TestSyndrome(t *testing.T) {
	for s := range 256 {
		s := Syndrome(s)
		ack, rnr, nak := s>>5 == 0, s>>5 == 1, s>>5 == 3
		if s.IsAck() != ack || s.IsRNR() != rnr || s.IsNAK() != nak || s.Code() != uint8(s&31) {
			t.Errorf("%#02x: ack %v, rnr %v, nak %v, code %d", uint8(s), s.IsAck(), s.IsRNR(), s.IsNAK(), s.Code())
		}
		if rnr && RNRSyndrome(s.Code()) != s {
			t.Errorf("RNRSyndrome(%d) is %#02x, expected %#02x", s.Code(), uint8(RNRSyndrome(s.Code())), uint8(s))
		}
	}
	for s, want := range map[Syndrome]string{
		SyndromeAck: "ACK", 0: "ACK, credit code 0", RNRSyndrome(12): "RNR NAK, 640µs", NakPSNSeq: "NAK, PSN sequence error",
		NakInvalidRequest: "NAK, invalid request", NakRemoteAccess: "NAK, remote access error",
		NakRemoteOp: "NAK, remote operational error", 0x64: "reserved syndrome 0x64", 0xff: "reserved syndrome 0xff",
	} {
		if s.String() != want {
			t.Errorf("%#02x is %q, expected %q", uint8(s), s, want)
		}
	}
}

func TestPSN(t *testing.T) {
	for _, c := range []struct {
		a, b uint32
		diff int32
	}{
		{0, 0, 0}, {1, 0, 1}, {0, 1, -1}, {0, 0xffffff, 1}, {0xffffff, 0, -1}, {2, 0xfffffe, 4},
		{0x7fffff, 0, 1<<23 - 1}, {0x800000, 0, -1 << 23}, {0x800001, 0, 1 - 1<<23},
	} {
		if got := PSNDiff(c.a, c.b); got != c.diff {
			t.Errorf("PSNDiff(%#x, %#x) is %d, expected %d", c.a, c.b, got, c.diff)
		}
		if got := PSNAdd(c.b, int(c.diff)); got != c.a {
			t.Errorf("PSNAdd(%#x, %d) is %#x, expected %#x", c.b, c.diff, got, c.a)
		}
	}
	if got := PSNAdd(5, 3<<24); got != 5 {
		t.Errorf("PSNAdd(5, 3<<24) is %d, expected 5", got)
	}
}
