package reduce

import (
	"fmt"
	"testing"
)

// The size of a small segment: it stays in the first-level cache with its
// three arrays, so that the figure is the kernel's and not the memory's.
const benchBytes = 16 << 10

// BenchmarkKernel reports the bytes of one array per second.
func BenchmarkKernel(b *testing.B) {
	for _, t := range Types() {
		for _, op := range []Op{Sum, Prod, Min, Max} {
			b.Run(fmt.Sprintf("%s/%s", t, op), func(b *testing.B) {
				dst, x, y := ordinary(t, 1), ordinary(t, 2), ordinary(t, 3)
				kernel := Lookup(t, op)
				b.SetBytes(benchBytes)
				for b.Loop() {
					kernel(dst, x, y)
				}
			})
		}
	}
}

// BenchmarkFinish reports the same for the division of an average.
func BenchmarkFinish(b *testing.B) {
	for _, t := range Types() {
		b.Run(t.String(), func(b *testing.B) {
			buf := ordinary(t, 1)
			b.SetBytes(benchBytes)
			for b.Loop() {
				Finish(t, Avg, 3, buf)
			}
		})
	}
}

// ordinary returns elements without a NaN: random bits whose exponents, in the
// float types, lie within two binades of 1.
func ordinary(t Type, seed uint64) []byte {
	buf := make([]byte, benchBytes)
	for i := range buf {
		seed = seed*6364136223846793005 + 1442695040888963407
		buf[i] = byte(seed >> 56)
	}
	size := t.Size()
	for i := size; t.Float() && i <= len(buf); i += size {
		buf[i-1] = buf[i-1]&0x80 | 0x3f
		buf[i-2] |= 0x40
	}
	return buf
}
