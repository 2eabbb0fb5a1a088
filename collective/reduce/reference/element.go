package reference

import (
	"math"

	"ringcli/collective/reduce"
)

// An element is handled as its bits, in the low end of a uint64, and its
// arithmetic is done in 64 bits: integers in int64 or uint64, of which the low
// bits are kept, floats in float64.

// format describes a binary floating-point format narrower than float64: the
// bits of its fraction and its smallest normal exponent.
type format struct {
	fraction int
	lowest   int
}

var (
	half  = format{10, -14}
	brain = format{7, -126}
)

// decode returns the value that the bits of a float type stand for.
func (f format) decode(bits uint64) float64 {
	width := 15 - f.fraction // of the exponent
	fraction := float64(bits & (1<<f.fraction - 1))
	exponent := int(bits>>f.fraction) & (1<<width - 1)
	var v float64
	switch exponent {
	case 1<<width - 1:
		if fraction != 0 {
			return math.NaN()
		}
		v = math.Inf(1)
	case 0:
		v = fraction * power(f.lowest-f.fraction)
	default:
		v = (power(f.fraction) + fraction) * power(f.lowest+exponent-1-f.fraction)
	}
	return math.Float64frombits(math.Float64bits(v) | bits>>15&1<<63)
}

// encode rounds v to the format, ties to even, by counting how many units of
// the last place it has.
func (f format) encode(v float64) uint64 {
	infinity := uint64(1<<(15-f.fraction)-1) << f.fraction
	if v != v {
		return infinity | 1<<(f.fraction-1)
	}
	sign := math.Float64bits(v) >> 63 << 15
	v = math.Abs(v)
	if math.IsInf(v, 1) {
		return sign | infinity
	}
	exponent := max(int(math.Float64bits(v)>>52)-1023, f.lowest)
	units := uint64(int64(math.RoundToEven(v * power(f.fraction-exponent))))
	// In the lowest binade the units are the bits, in each one above there are
	// 2^fraction more.
	return sign | min(uint64(exponent-f.lowest)<<f.fraction+units, infinity)
}

// power returns 2^e, for e within the normal range of float64.
func power(e int) float64 { return math.Float64frombits(uint64(1023+e) << 52) }

// decode returns the value of an element of a float type. All of them fit.
func decode(t reduce.Type, bits uint64) float64 {
	switch t {
	case reduce.Float16:
		return half.decode(bits)
	case reduce.BFloat16:
		return brain.decode(bits)
	case reduce.Float32:
		return float64(math.Float32frombits(uint32(bits)))
	}
	return math.Float64frombits(bits)
}

// encode rounds a value, by way of float32 for the 16-bit types, and makes a
// NaN canonical.
func encode(t reduce.Type, v float64) uint64 {
	switch t {
	case reduce.Float16:
		return half.encode(float64(float32(v)))
	case reduce.BFloat16:
		return brain.encode(float64(float32(v)))
	case reduce.Float32:
		return encode32(v)
	}
	return encode64(v)
}

func encode32(v float64) uint64 {
	if v != v {
		return 0x7fc00000
	}
	return uint64(math.Float32bits(float32(v)))
}

func encode64(v float64) uint64 {
	if v != v {
		return 0x7ff8000000000000
	}
	return math.Float64bits(v)
}

func signed(t reduce.Type) bool {
	return t == reduce.Int8 || t == reduce.Int32 || t == reduce.Int64
}

// extend returns the value of an element of a signed type.
func extend(t reduce.Type, bits uint64) int64 {
	shift := 64 - 8*t.Size()
	return int64(bits<<shift) >> shift
}

// floats returns the step over a float type. Sums and products of two float32
// are rounded to float64 and then to float32, which gives the bits of rounding
// once: the product is exact in float64, and for the sum 53 bits are more than
// twice 24 and two (Figueroa, "When is double rounding innocuous?", 1995).
//
// The types are told apart here, once, since a check of a large buffer spends
// its time in what is returned.
func floats(t reduce.Type, combine func(a, b float64) float64) func(a, b uint64) uint64 {
	f := half
	switch t {
	case reduce.Float32:
		return func(a, b uint64) uint64 {
			return encode32(combine(float64(math.Float32frombits(uint32(a))), float64(math.Float32frombits(uint32(b)))))
		}
	case reduce.Float64:
		return func(a, b uint64) uint64 {
			return encode64(combine(math.Float64frombits(a), math.Float64frombits(b)))
		}
	case reduce.BFloat16:
		f = brain
	}
	return func(a, b uint64) uint64 {
		return f.encode(float64(float32(combine(f.decode(a), f.decode(b)))))
	}
}

func add(a, b float64) float64      { return a + b }
func multiply(a, b float64) float64 { return a * b }

func lesser(a, b float64) float64 {
	switch {
	case a != a || b != b:
		return math.NaN()
	case a < b || a == b && math.Signbit(a):
		return a
	}
	return b
}

func greater(a, b float64) float64 { return -lesser(-a, -b) }

// steps is indexed by type and operation. It is made once, so that a step
// costs no allocation.
var steps = func() (table [reduce.Float64 + 1][reduce.Avg + 1]func(a, b uint64) uint64) {
	for _, t := range reduce.Types() {
		table[t] = [...]func(a, b uint64) uint64{
			reduce.Sum:  func(a, b uint64) uint64 { return a + b },
			reduce.Prod: func(a, b uint64) uint64 { return a * b },
			reduce.Min:  func(a, b uint64) uint64 { return min(a, b) },
			reduce.Max:  func(a, b uint64) uint64 { return max(a, b) },
			reduce.Avg:  nil,
		}
		if signed(t) {
			table[t][reduce.Min] = func(a, b uint64) uint64 { return uint64(min(extend(t, a), extend(t, b))) }
			table[t][reduce.Max] = func(a, b uint64) uint64 { return uint64(max(extend(t, a), extend(t, b))) }
		}
		if t.Float() {
			table[t][reduce.Sum] = floats(t, add)
			table[t][reduce.Prod] = floats(t, multiply)
			table[t][reduce.Min] = floats(t, lesser)
			table[t][reduce.Max] = floats(t, greater)
		}
		table[t][reduce.Avg] = table[t][reduce.Sum]
	}
	return table
}()

// step returns op over two elements of type t; the bits of the result above
// the element's size are undefined.
func step(t reduce.Type, op reduce.Op) func(a, b uint64) uint64 { return steps[t][op] }

// divide returns an element divided by n ranks: towards zero for integers,
// rounded once for floats (the quotient of two float32 may be rounded to
// float64 first, for the reason that floats gives).
func divide(t reduce.Type, bits uint64, n int) uint64 {
	switch {
	case t == reduce.Float64:
		return encode(t, decode(t, bits)/float64(n))
	case t.Float():
		return encode(t, decode(t, bits)/float64(float32(n)))
	case signed(t):
		return uint64(extend(t, bits) / int64(n))
	}
	return bits / uint64(n)
}
