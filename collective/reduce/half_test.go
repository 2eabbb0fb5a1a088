package reduce_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"ringcli/collective/reduce"
)

// halfFormat is a 16-bit format described from the standard alone: where its
// exponent begins, and that exponent's bias.
type halfFormat struct {
	name     string
	fraction int
	bias     int
	nan      uint16
	widen    func(uint16) float32
	narrow   func(float32) uint16
}

var halfFormats = []halfFormat{
	{"float16", 10, 15, 0x7e00, reduce.Widen16, reduce.Narrow16},
	{"bfloat16", 7, 127, 0x7fc0, reduce.WidenB16, reduce.NarrowB16},
}

// value is the definition: (-1)^s * 2^(e-bias) * 1.f.
func (h halfFormat) value(bits uint16) float64 {
	exponent := int(bits&0x7fff) >> h.fraction
	fraction := float64(bits & (1<<h.fraction - 1))
	one := float64(uint32(1) << h.fraction)
	var v float64
	switch {
	case exponent == 1<<(15-h.fraction)-1 && fraction != 0:
		return math.NaN()
	case exponent == 1<<(15-h.fraction)-1:
		v = math.Inf(1)
	case exponent == 0:
		v = math.Ldexp(fraction/one, 1-h.bias)
	default:
		v = math.Ldexp(1+fraction/one, exponent-h.bias)
	}
	return math.Copysign(v, -float64(int(bits>>15)*2-1))
}

func TestWidenEveryValue(t *testing.T) {
	for _, h := range halfFormats {
		for i := range 1 << 16 {
			bits := uint16(i)
			got, want := float64(h.widen(bits)), h.value(bits)
			if math.IsNaN(want) {
				if !math.IsNaN(got) {
					t.Fatalf("%s %#04x is %v, want NaN", h.name, bits, got)
				}
				want, bits = got, h.nan
			}
			if math.Float64bits(got) != math.Float64bits(want) {
				t.Fatalf("%s %#04x is %v, want %v", h.name, bits, got, want)
			}
			if back := h.narrow(h.widen(uint16(i))); back != bits {
				t.Fatalf("%s %#04x comes back as %#04x, want %#04x", h.name, i, back, bits)
			}
		}
	}
}

// Between each two neighbours the halfway point goes to the even one, and the
// float32 next to it on either side to the nearer. Past the largest value, the
// next power of two stands for infinity.
func TestNarrowAroundEveryHalfway(t *testing.T) {
	for _, h := range halfFormats {
		infinity := uint16(1<<(15-h.fraction)-1) << h.fraction
		for low := range infinity {
			a, b := h.value(low), h.value(low+1)
			if low+1 == infinity {
				b = math.Ldexp(1, 1<<(14-h.fraction))
			}
			middle := (a + b) / 2
			even := low + low&1
			for _, c := range []struct {
				v    float32
				want uint16
			}{
				{float32(middle), even},
				{math.Nextafter32(float32(middle), 0), low},
				{math.Nextafter32(float32(middle), float32(math.Inf(1))), low + 1},
			} {
				if got := h.narrow(c.v); got != c.want {
					t.Fatalf("%s of %v is %#04x, want %#04x", h.name, c.v, got, c.want)
				}
				if got := h.narrow(-c.v); got != c.want|0x8000 {
					t.Fatalf("%s of %v is %#04x, want %#04x", h.name, -c.v, got, c.want|0x8000)
				}
			}
		}
	}
}

// Any other float32 goes to one of the two values around it, the nearer.
func TestNarrowNearest(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, h := range halfFormats {
		for range 500_000 {
			v := math.Float32frombits(r.Uint32())
			got := h.narrow(v)
			switch {
			case v != v:
				if got != h.nan {
					t.Fatalf("%s of NaN %#08x is %#04x, want %#04x", h.name, math.Float32bits(v), got, h.nan)
				}
				continue
			case math.Signbit(float64(v)) != (got>>15 == 1):
				t.Fatalf("%s of %v is %#04x: wrong sign", h.name, v, got)
			case math.IsInf(h.value(got), 0):
				continue // the largest values' test is TestNarrowAroundEveryHalfway
			}
			off := math.Abs(h.value(got) - float64(v))
			for _, other := range []uint16{got - 1, got + 1} {
				if o := h.value(other); got&0x7fff != 0 && math.Abs(o-float64(v)) < off {
					t.Fatalf("%s of %v is %v, but %v is nearer", h.name, v, h.value(got), o)
				}
			}
		}
	}
}
