package reference

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"ringcli/collective/reduce"
)

// bits16 returns little-endian elements of two bytes.
func bits16(elements ...uint16) []byte {
	var b []byte
	for _, e := range elements {
		b = append(b, byte(e), byte(e>>8))
	}
	return b
}

// The rules that the package documentation of reduce gives, worked by hand.
func TestRulesByHand(t *testing.T) {
	f32 := math.Float32bits
	negativeZero := uint64(1) << 63
	for _, c := range []struct {
		name string
		t    reduce.Type
		op   reduce.Op
		a, b uint64
		want uint64
	}{
		{"int8 wraps", reduce.Int8, reduce.Sum, 0x7f, 0x01, 0x80},
		{"int8 product wraps", reduce.Int8, reduce.Prod, 0x80, 0xff, 0x80},
		{"int8 is signed", reduce.Int8, reduce.Min, 0xff, 0x01, 0xff},
		{"uint8 is not", reduce.Uint8, reduce.Min, 0xff, 0x01, 0x01},
		{"int64 is signed", reduce.Int64, reduce.Max, math.MaxUint64, 3, 3},
		{"uint64 is not", reduce.Uint64, reduce.Max, math.MaxUint64, 3, math.MaxUint64},
		{"2048 + 1 ties to even", reduce.Float16, reduce.Sum, 0x6800, 0x3c00, 0x6800},
		{"2050 + 1 ties to even", reduce.Float16, reduce.Sum, 0x6801, 0x3c00, 0x6802},
		{"65504 + 16 overflows", reduce.Float16, reduce.Sum, 0x7bff, 0x4c00, 0x7c00},
		{"smallest normal halves", reduce.Float16, reduce.Prod, 0x0400, 0x3800, 0x0200},
		{"256 + 1 ties to even", reduce.BFloat16, reduce.Sum, 0x4380, 0x3f80, 0x4380},
		{"258 + 1 ties to even", reduce.BFloat16, reduce.Sum, 0x4381, 0x3f80, 0x4382},
		{"inf - inf", reduce.Float16, reduce.Sum, 0x7c00, 0xfc00, 0x7e00},
		{"0 times inf", reduce.BFloat16, reduce.Prod, 0x0000, 0xff80, 0x7fc0},
		{"2^24 + 1", reduce.Float32, reduce.Sum, uint64(f32(1 << 24)), uint64(f32(1)), uint64(f32(1 << 24))},
		{"payload dropped", reduce.Float32, reduce.Sum, 0xffc12345, uint64(f32(1)), 0x7fc00000},
		{"min propagates NaN", reduce.Float32, reduce.Min, uint64(f32(1)), 0xff800001, 0x7fc00000},
		{"max propagates NaN", reduce.Float64, reduce.Max, 0x7ff0000000000001, 0, 0x7ff8000000000000},
		{"-0 < +0", reduce.Float64, reduce.Min, 0, negativeZero, negativeZero},
		{"+0 > -0", reduce.Float64, reduce.Max, negativeZero, 0, 0},
		{"-0 + -0", reduce.Float64, reduce.Sum, negativeZero, negativeZero, negativeZero},
	} {
		size := c.t.Size()
		a, b := make([]byte, size), make([]byte, size)
		store(a, c.a)
		store(b, c.b)
		Combine(a, a, b, c.t, c.op)
		if load(a) != c.want {
			t.Errorf("%s: %s %s of %#x and %#x is %#x, want %#x", c.name, c.t, c.op, c.a, c.b, load(a), c.want)
		}
		store(a, c.a)
		reduce.Lookup(c.t, c.op)(a, a, b)
		if load(a) != c.want {
			t.Errorf("%s: the kernel gives %#x, want %#x", c.name, load(a), c.want)
		}
	}
}

func TestFinishByHand(t *testing.T) {
	for _, c := range []struct {
		t    reduce.Type
		sum  uint64
		n    int
		want uint64
	}{
		{reduce.Int8, 0xf9, 2, 0xfd},                // -7/2 = -3
		{reduce.Int8, 0x80, 200, 0},                 // a divisor beyond the type
		{reduce.Uint8, 0xf9, 2, 0x7c},               // 249/2 = 124
		{reduce.Int64, 1 << 63, 2, 0xc0 << 56},      // the lowest int64
		{reduce.Uint64, 1 << 63, 2, 1 << 62},        //
		{reduce.Float16, 0x3c00, 3, 0x3555},         // 1/3
		{reduce.BFloat16, 0x3f80, 3, 0x3eab},        // 1/3
		{reduce.Float32, 0x3f800000, 3, 0x3eaaaaab}, // 1/3
		{reduce.Float64, 0x3ff0000000000000, 3, 0x3fd5555555555555},
		{reduce.Float32, 0xffc00001, 3, 0x7fc00000},
		{reduce.Float32, 0xffc00001, 1, 0xffc00001}, // one rank: no step was made
	} {
		for name, finish := range map[string]func(buf []byte){
			"reference": func(buf []byte) { Finish(buf, c.t, reduce.Avg, c.n) },
			"kernel":    func(buf []byte) { reduce.Finish(c.t, reduce.Avg, c.n, buf) },
		} {
			buf := make([]byte, c.t.Size())
			store(buf, c.sum)
			finish(buf)
			if load(buf) != c.want {
				t.Errorf("%s: %s %#x over %d is %#x, want %#x", name, c.t, c.sum, c.n, load(buf), c.want)
			}
		}
	}
}

// Sums, products and quotients agree with exact arithmetic rounded once.
func TestFloatsAgainstExactArithmetic(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	exact := func(v float64) *big.Float { return new(big.Float).SetPrec(3000).SetFloat64(v) }
	for range 20_000 {
		a, b := math.Float32frombits(r.Uint32()), math.Float32frombits(r.Uint32())
		if r.IntN(2) == 0 { // near each other, so that the sum rounds
			b = math.Float32frombits(math.Float32bits(a) ^ r.Uint32N(1<<25))
		}
		if !finite(float64(a)) || !finite(float64(b)) {
			continue
		}
		x, y := exact(float64(a)), exact(float64(b))
		sum, _ := new(big.Float).SetPrec(3000).Add(x, y).Float32()
		product, _ := new(big.Float).SetPrec(3000).Mul(x, y).Float32()
		n := 2 + r.IntN(1000)
		quotient, _ := new(big.Float).SetPrec(3000).Quo(x, exact(float64(n))).Float32()
		for _, c := range []struct {
			name string
			want float32
			got  uint64
		}{
			{"sum", sum, step(reduce.Float32, reduce.Sum)(uint64(math.Float32bits(a)), uint64(math.Float32bits(b)))},
			{"product", product, step(reduce.Float32, reduce.Prod)(uint64(math.Float32bits(a)), uint64(math.Float32bits(b)))},
			{"quotient", quotient, divide(reduce.Float32, uint64(math.Float32bits(a)), n)},
		} {
			if c.want != 0 && uint64(math.Float32bits(c.want)) != c.got {
				t.Fatalf("%s of %v and %v (or %d) is %#08x, want %v", c.name, a, b, n, c.got, c.want)
			}
		}
	}
}

// Every value of the 16-bit formats, and every halfway point between two, is
// rounded as the definition says.
func TestEncodeHalves(t *testing.T) {
	for _, f := range []format{half, brain} {
		infinity := uint64(1<<(15-f.fraction)-1) << f.fraction
		for low := range infinity {
			// The definition of a binary format, by another route.
			value := func(bits uint64) float64 {
				exponent := int(bits >> f.fraction)
				significand := float64(bits & (1<<f.fraction - 1))
				if exponent > 0 {
					significand += float64(uint64(1) << f.fraction)
				}
				return math.Ldexp(significand, max(exponent, 1)-1+f.lowest-f.fraction)
			}
			a, b := value(low), value(low+1)
			middle := a + (b-a)/2
			for v, want := range map[float64]uint64{
				a: low, middle: low + low&1,
				math.Nextafter(middle, 0): low, math.Nextafter(middle, math.Inf(1)): low + 1,
			} {
				if got := f.encode(v); got != want {
					t.Fatalf("%v: %v is %#04x, want %#04x", f, v, got, want)
				}
				if got := f.encode(-v); v != 0 && got != want|0x8000 {
					t.Fatalf("%v: %v is %#04x, want %#04x", f, -v, got, want|0x8000)
				}
			}
			if got := f.decode(low); got != a {
				t.Fatalf("%v: %#04x is %v, want %v", f, low, got, a)
			}
		}
	}
}

// Three ranks, one element each: 2048 in float16 swallows a 1 that comes
// alone, but not two that come together, which tells the orders apart.
func TestRingOrder(t *testing.T) {
	const one, big, sum = 0x3c00, 0x6800, 0x6801 // 1, 2048, 2050
	inputs := [][]byte{bits16(one, one, one), bits16(one, one, one), bits16(big, big, big)}
	got := make([]byte, 6)
	ringOf(got, inputs, reduce.Float16, reduce.Sum)
	// Chunk 0: (x1+x2)+x0. Chunk 1: (x2+x0)+x1. Chunk 2: (x0+x1)+x2.
	if want := bits16(big, big, sum); string(got) != string(want) {
		t.Errorf("got % x, want % x", got, want)
	}
}

func TestRingUnevenChunks(t *testing.T) {
	inputs := [][]byte{{1, 2}, {10, 20}, {100, 40}}
	got := make([]byte, 2)
	ringOf(got, inputs, reduce.Uint8, reduce.Avg)
	if got[0] != 111/3 || got[1] != 62/3 {
		t.Errorf("got %v, want [37 20]", got)
	}
	ringOf(got, inputs[:1], reduce.Uint8, reduce.Avg)
	if got[0] != 1 || got[1] != 2 {
		t.Errorf("one rank: got %v, want [1 2]", got)
	}
	ringOf(nil, inputs, reduce.Uint8, reduce.Sum)
}

func TestCompare(t *testing.T) {
	want := bits16(1, 2, 3, 4)
	for _, c := range []struct {
		got          []byte
		wrong, first int
	}{
		{bits16(1, 2, 3, 4), 0, -1},
		{bits16(1, 0x102, 3, 5), 2, 1},
		{bits16(1, 2, 3), 1, 3},
		{bits16(9), 4, 0},
		{bits16(1, 2, 3, 4, 5), 1, 4},
	} {
		if wrong, first := Compare(c.got, want, reduce.Int8); c.wrong == 0 && (wrong != 0 || first != -1) {
			t.Errorf("as bytes: %d wrong from %d", wrong, first)
		}
		if wrong, first := Compare(c.got, want, reduce.Float16); wrong != c.wrong || first != c.first {
			t.Errorf("Compare(% x) = %d, %d; want %d, %d", c.got, wrong, first, c.wrong, c.first)
		}
	}
}

func TestFormat(t *testing.T) {
	for _, c := range []struct {
		element []byte
		t       reduce.Type
		want    string
	}{
		{[]byte{0xff}, reduce.Int8, "-1 (0xff)"},
		{[]byte{0xff}, reduce.Uint8, "255 (0xff)"},
		{bits16(0x3e00), reduce.Float16, "1.5 (0x3e00)"},
		{bits16(0, 0x3fc0), reduce.Float32, "1.5 (0x3fc00000)"},
	} {
		if got := Format(c.element, c.t); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
