package wire

import (
	"fmt"
	"net/netip"
	"testing"
)

func BenchmarkICRC(b *testing.B) {
	f := NewFlow(netip.MustParseAddrPort("192.0.2.1:49169"), netip.MustParseAddrPort("192.0.2.2:4791"))
	headers := make([]byte, BTHLen)
	for _, n := range []int{0, 5, 64, 1024, 4096} {
		payload := make([]byte, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(int64(n))
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				f.ICRC(uint16(i&63), headers, payload)
				i++
			}
		})
	}
}

func BenchmarkVerify(b *testing.B) {
	f := NewFlow(netip.MustParseAddrPort("192.0.2.1:49169"), netip.MustParseAddrPort("192.0.2.2:4791"))
	for _, n := range []int{64, 4096} {
		p := make([]byte, BTHLen+n+ICRCLen)
		PutICRC(p[BTHLen+n:], f.ICRC(1234, p[:BTHLen], p[BTHLen:BTHLen+n]))
		for _, hint := range []uint16{1234, 0} {
			name := fmt.Sprint(n, "/hint")
			if hint == 0 {
				name = fmt.Sprint(n, "/solve")
			}
			b.Run(name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, ok := f.Verify(p, hint); !ok {
						b.Fatal("packet refused")
					}
				}
			})
		}
	}
}

func BenchmarkParse(b *testing.B) {
	p := make([]byte, BTHLen+RETHLen+64+ICRCLen)
	BTH(p).Encode(&BTHFields{Opcode: WriteOnly})
	var pkt Packet
	b.ReportAllocs()
	for b.Loop() {
		if err := Parse(&pkt, p); err != nil {
			b.Fatal(err)
		}
	}
}
