package wire

import (
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

// TestFold takes in bytes of every length and at every offset to a line, against
// hash/crc32.
func TestFold(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 2*4096)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	for n := range 4096 + 64 + 1 {
		at, register := r.IntN(64), r.Uint32()
		p := b[at : at+n]
		if got, want := fold(register, p), ^crc32.Update(^register, crc32.IEEETable, p); got != want {
			t.Fatalf("%d bytes from %d on, register %#08x: %#08x, expected %#08x", n, at, register, got, want)
		}
	}
}
