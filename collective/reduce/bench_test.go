package reduce

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// The sizes of one array: with its three arrays the first stays in the
// first-level cache, so that the figure is the kernel's; the second in the L2
// of most processors; the last is read from memory or nearly so.
var benchSizes = []struct {
	name  string
	bytes int
}{{"16KiB", 16 << 10}, {"256KiB", 256 << 10}, {"16MiB", 16 << 20}}

// BenchmarkKernel reports the bytes of one array per second, in GB/s, of every
// set of kernels and of memcpy: they take turns, and the figures are the
// medians of the turns, so that what else the machine does strikes all alike.
// "times" is the last set's by the plain one's.
func BenchmarkKernel(b *testing.B) {
	for _, size := range benchSizes {
		for _, t := range Types() {
			for _, op := range []Op{Sum, Prod, Min, Max} {
				b.Run(fmt.Sprintf("%s/%s/%s", size.name, t, op), func(b *testing.B) {
					benchmarkKernel(b, t, op, size.bytes)
				})
			}
		}
	}
}

func benchmarkKernel(b *testing.B, t Type, op Op, size int) {
	type runner struct {
		name  string
		f     Kernel
		turns []time.Duration
	}
	runners := []runner{{name: "memcpy", f: func(dst, x, _ []byte) { copy(dst, x) }}}
	for _, set := range Sets() {
		runners = append(runners, runner{name: set.Name, f: set.Kernel(t, op)})
	}
	dst, x, y := make([]byte, size), ordinary(t, size, 1), ordinary(t, size, 2)
	// A turn is a megabyte at least, far above what reading the clock costs.
	repeats := max(1, 1<<20/size)
	for b.Loop() {
		for i := range runners {
			r := &runners[i]
			r.f(dst, x, y) // brings the arrays into the caches as the turn leaves them
			start := time.Now()
			for range repeats {
				r.f(dst, x, y)
			}
			r.turns = append(r.turns, time.Since(start))
		}
	}
	speeds := make([]float64, len(runners))
	for i, r := range runners {
		slices.Sort(r.turns)
		speeds[i] = float64(size*repeats) / float64(r.turns[len(r.turns)/2].Nanoseconds())
		b.ReportMetric(speeds[i], r.name+"-GB/s")
	}
	b.ReportMetric(speeds[len(speeds)-1]/speeds[1], "times")
	b.ReportMetric(0, "ns/op") // that of all turns together says nothing
}

// BenchmarkFinish reports the bytes per second of the division of an average.
func BenchmarkFinish(b *testing.B) {
	for _, t := range Types() {
		b.Run(t.String(), func(b *testing.B) {
			buf := ordinary(t, benchSizes[0].bytes, 1)
			b.SetBytes(int64(len(buf)))
			for b.Loop() {
				Finish(t, Avg, 3, buf)
			}
		})
	}
}

// ordinary returns elements without a NaN: random bits whose exponents, in the
// float types, lie within two binades of 1.
func ordinary(t Type, bytes int, seed uint64) []byte {
	buf := make([]byte, bytes)
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
