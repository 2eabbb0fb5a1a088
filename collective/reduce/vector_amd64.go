//go:build !race

package reduce

import "golang.org/x/sys/cpu"

// table is chosen once: a processor has what the kernels in assembly need, or
// all entries are the plain ones.
//
// There is no set for AVX-512. On a processor with registers of 512 bits all
// through it is 1.3 to 3 times as fast for arrays in the first-level cache, 1 to
// 1.9 times for 256 KiB, and no faster from 1 MiB on.
var table = choose(cpu.X86.HasAVX2, cpu.X86.HasF16C)

// choose returns the kernels for a processor with or without AVX2 and F16C.
// Only the float16 ones use the latter, but no processor is known to have AVX2
// alone, and one condition is easier to reason about than two.
func choose(avx2, f16c bool) *kernels {
	if avx2 && f16c {
		return &vectorized
	}
	return &plain
}

var vectorized = kernels{
	Int8:     vectors(Int8, sum8AVX2, prod8AVX2, minI8AVX2, maxI8AVX2),
	Uint8:    vectors(Uint8, sum8AVX2, prod8AVX2, minU8AVX2, maxU8AVX2),
	Int32:    vectors(Int32, sumWord32AVX2, prodWord32AVX2, minI32AVX2, maxI32AVX2),
	Uint32:   vectors(Uint32, sumWord32AVX2, prodWord32AVX2, minU32AVX2, maxU32AVX2),
	Int64:    vectors(Int64, sumWord64AVX2, prodWord64AVX2, minI64AVX2, maxI64AVX2),
	Uint64:   vectors(Uint64, sumWord64AVX2, prodWord64AVX2, minU64AVX2, maxU64AVX2),
	Float16:  vectors(Float16, sumHalfAVX2, prodHalfAVX2, minHalfAVX2, maxHalfAVX2),
	BFloat16: vectors(BFloat16, sumBrainAVX2, prodBrainAVX2, minBrainAVX2, maxBrainAVX2),
	Float32:  vectors(Float32, sumFloat32AVX2, prodFloat32AVX2, minFloat32AVX2, maxFloat32AVX2),
	Float64:  vectors(Float64, sumFloat64AVX2, prodFloat64AVX2, minFloat64AVX2, maxFloat64AVX2),
}

const (
	// vectorBytes is the least that the assembly takes: one register.
	vectorBytes = 32
	// unpreemptedBytes bounds a call of the assembly, which the scheduler
	// cannot interrupt: some 10 to 30 us, so that a garbage collection does not
	// wait for a vector of gigabytes.
	unpreemptedBytes = 256 << 10
)

// vectors returns the kernels of a type's operations.
func vectors(t Type, sum, prod, min, max func(dst, a, b *byte, n int)) [numOps]Kernel {
	return [numOps]Kernel{
		Sum:  withTails(sum, plain[t][Sum]),
		Prod: withTails(prod, plain[t][Prod]),
		Min:  withTails(min, plain[t][Min]),
		Max:  withTails(max, plain[t][Max]),
		Avg:  withTails(sum, plain[t][Avg]),
	}
}

// withTails makes a kernel for any length of one in assembly; what is shorter
// than a register is the plain kernel's. As that one does, it panics where a or
// b is shorter than dst.
func withTails(assembly func(dst, a, b *byte, n int), plain Kernel) Kernel {
	return func(dst, a, b []byte) {
		// The third index makes the length count, not the capacity.
		a, b = a[:len(dst):len(a)], b[:len(dst):len(b)]
		for len(dst) > unpreemptedBytes {
			assembly(&dst[0], &a[0], &b[0], unpreemptedBytes)
			dst, a, b = dst[unpreemptedBytes:], a[unpreemptedBytes:], b[unpreemptedBytes:]
		}
		if len(dst) < vectorBytes {
			plain(dst, a, b)
			return
		}
		assembly(&dst[0], &a[0], &b[0], len(dst))
	}
}

// The kernels in assembly: dst, a and b point to n bytes each, n >= 32 and a
// multiple of the element's size. Words are integers of either sign. All are called as
// values only, for which go:noescape means nothing.

// Integers, integer_amd64.s.
func sum8AVX2(dst, a, b *byte, n int)
func prod8AVX2(dst, a, b *byte, n int)
func minI8AVX2(dst, a, b *byte, n int)
func minU8AVX2(dst, a, b *byte, n int)
func maxI8AVX2(dst, a, b *byte, n int)
func maxU8AVX2(dst, a, b *byte, n int)
func sumWord32AVX2(dst, a, b *byte, n int)
func prodWord32AVX2(dst, a, b *byte, n int)
func minI32AVX2(dst, a, b *byte, n int)
func minU32AVX2(dst, a, b *byte, n int)
func maxI32AVX2(dst, a, b *byte, n int)
func maxU32AVX2(dst, a, b *byte, n int)
func sumWord64AVX2(dst, a, b *byte, n int)
func prodWord64AVX2(dst, a, b *byte, n int)
func minI64AVX2(dst, a, b *byte, n int)
func minU64AVX2(dst, a, b *byte, n int)
func maxI64AVX2(dst, a, b *byte, n int)
func maxU64AVX2(dst, a, b *byte, n int)

// Floats, float_amd64.s.
func sumFloat32AVX2(dst, a, b *byte, n int)
func prodFloat32AVX2(dst, a, b *byte, n int)
func minFloat32AVX2(dst, a, b *byte, n int)
func maxFloat32AVX2(dst, a, b *byte, n int)
func sumFloat64AVX2(dst, a, b *byte, n int)
func prodFloat64AVX2(dst, a, b *byte, n int)
func minFloat64AVX2(dst, a, b *byte, n int)
func maxFloat64AVX2(dst, a, b *byte, n int)

// Float16 and BFloat16, half_amd64.s.
func sumHalfAVX2(dst, a, b *byte, n int)
func prodHalfAVX2(dst, a, b *byte, n int)
func minHalfAVX2(dst, a, b *byte, n int)
func maxHalfAVX2(dst, a, b *byte, n int)
func sumBrainAVX2(dst, a, b *byte, n int)
func prodBrainAVX2(dst, a, b *byte, n int)
func minBrainAVX2(dst, a, b *byte, n int)
func maxBrainAVX2(dst, a, b *byte, n int)
