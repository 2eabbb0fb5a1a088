package wire

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"ringcli/verbs/soft/wire/wiretest/pcap"
)

// encode builds a UDP payload from a parsed packet's fields.
func encode(p *Packet, icrc uint32) []byte {
	pad := Pad(len(p.Payload))
	b := make([]byte, p.Opcode.HeaderLen()+len(p.Payload)+pad+ICRCLen)
	bth := BTH(b)
	bth.Encode(&BTHFields{
		Opcode: p.Opcode, Solicited: p.Solicited, MigReq: p.BTH.MigReq(), AckReq: p.AckReq,
		PadCount: uint8(pad), PKey: p.BTH.PKey(), DestQPN: p.DestQPN, PSN: p.PSN,
	})
	bth[bthQPN] = p.BTH[bthQPN] & 0xc0 // FECN and BECN
	at := BTHLen
	ext := func(n int) []byte { at += n; return b[at-n : at] }
	if p.RETH != nil {
		RETH(ext(RETHLen)).Encode(p.RETH.VA(), p.RETH.RKey(), p.RETH.DMALen())
	}
	if p.Atomic != nil {
		AtomicETH(ext(AtomicETHLen)).Encode(p.Atomic.VA(), p.Atomic.RKey(), p.Atomic.SwapAdd(), p.Atomic.Compare())
	}
	if p.AETH != nil {
		AETH(ext(AETHLen)).Encode(p.AETH.Syndrome(), p.AETH.MSN())
	}
	if p.AtomicAck != nil {
		AtomicAckETH(ext(AtomicAckETHLen)).Encode(p.AtomicAck.Orig())
	}
	if p.Flags&HasImm != 0 {
		ImmDt(ext(ImmDtLen)).Encode(p.Imm)
	}
	copy(b[at:], p.Payload)
	PutICRC(b[len(b)-ICRCLen:], icrc)
	return b
}

// eachPacket calls f for each RoCEv2 packet of the captures, from the first IP
// byte on.
func eachPacket(t testing.TB, f func(file string, number int, ip []byte)) {
	t.Helper()
	files, err := filepath.Glob("testdata/captures/*.pcap")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		records, err := pcap.ReadAll(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			ip := r.IP()
			if len(ip) < ipv4Len+udpLen+BTHLen+ICRCLen {
				continue
			}
			h, protocol := ipv4Len, ip[9]
			if ip[0]>>4 == 6 {
				h, protocol = ipv6Len, ip[6]
			}
			if protocol == 17 && binary.BigEndian.Uint16(ip[h+2:]) == UDPPort {
				f(filepath.Base(name), r.Number, ip)
			}
		}
	}
}

func TestCaptures(t *testing.T) {
	const inAll = 443 // what icrccheck.txt adds up to
	opcodes := map[Opcode]int{}
	packets, ids := 0, 0
	eachPacket(t, func(file string, number int, ip []byte) {
		packets++
		f, id, b := split(ip)
		var p Packet
		if err := Parse(&p, b); err != nil {
			t.Errorf("%s, frame %d: %v", file, number, err)
			return
		}
		opcodes[p.Opcode]++
		if id != 0 {
			ids++
		}
		if again := encode(&p, icrcOf(b)); !bytes.Equal(again, b) {
			t.Errorf("%s, frame %d: encoded again it is\n% x, it was\n% x", file, number, again, b)
		}
		checkICRC(t, f, id, b)
		damaged := bytes.Clone(b)
		damaged[len(b)-ICRCLen-1] ^= 1
		if got, ok := f.Verify(damaged, id); ok {
			t.Errorf("%s, frame %d: a damaged packet was explained by ID %d", file, number, got)
		}
	})
	if packets != inAll {
		t.Errorf("%d packets, expected %d", packets, inAll)
	}
	if ids < packets/2 {
		t.Errorf("only %d of %d packets have an ID to solve for", ids, packets)
	}
	for o := SendFirst; o <= FetchAdd; o++ {
		if opcodes[o] == 0 {
			t.Errorf("no capture has %v", o)
		}
	}
}

// TestCapturedValues looks at fields of verbs-ops.pcap whose values its program
// chose.
func TestCapturedValues(t *testing.T) {
	var first, wrapped, imm, cas, nak, rnr bool
	eachPacket(t, func(file string, _ int, ip []byte) {
		if file != "verbs-ops.pcap" {
			return
		}
		_, _, b := split(ip)
		var p Packet
		if err := Parse(&p, b); err != nil {
			t.Fatal(err)
		}
		if !first {
			first = true
			if p.Opcode != SendOnly || p.PSN != 0xfffffe || len(p.Payload) != 0 || !p.AckReq || p.BTH.PKey() != DefaultPKey {
				t.Errorf("first packet is %v, PSN %#x, %d bytes", p.Opcode, p.PSN, len(p.Payload))
			}
		}
		for i, v := range p.Payload {
			if p.Flags&IsSend != 0 && p.Flags&Starts != 0 && v != byte(i) {
				t.Fatalf("%v: payload byte %d is %d", p.Opcode, i, v)
			}
		}
		wrapped = wrapped || p.Flags&IsRequest != 0 && p.PSN == 0
		switch p.Opcode {
		case SendOnlyImm:
			imm = p.Imm == 0x11223344 && p.Solicited && len(p.Payload) == 16
		case CompareSwap:
			cas = p.Atomic.Compare() == 0x0102030405060708 && p.Atomic.SwapAdd() == 0x1112131415161718
		case Acknowledge:
			nak = nak || p.AETH.Syndrome() == NakRemoteAccess
			rnr = rnr || p.AETH.Syndrome().IsRNR()
		}
	})
	if !first || !wrapped || !imm || !cas || !nak || !rnr {
		t.Errorf("seen: first %v, PSN 0 %v, immediate %v, compare and swap %v, access NAK %v, RNR NAK %v; expected all",
			first, wrapped, imm, cas, nak, rnr)
	}
}
