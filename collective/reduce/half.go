package reduce

import "math"

// The canonical NaN of float types: quiet, positive, payload zero. That of float32 is 0x7fc00000.
const (
	nan16  = 0x7e00
	nanB16 = 0x7fc0
	nan64  = 0x7ff8000000000000
)

// Fields of a binary32 that the conversions below use.
const (
	infinity32 = 0xff << 23

	// overflow16 is 2^16, the first power of two that binary16 lacks. Values
	// from 65520 to it round up to infinity through the carry.
	overflow16 = (127 + 16) << 23
	// normal16 is 2^-14, the smallest normal binary16.
	normal16 = (127 - 14) << 23
	// align16 is 0.5: in its binade the last bit of a float32 is worth 2^-24,
	// as is the last bit of a subnormal binary16, so adding it makes the
	// adder round to a subnormal's place.
	align16 = (127 - 1) << 23
)

// scale16 makes up for the difference of the biases, 15 and 127, once the
// exponent field of a binary16 was moved into the place of a binary32's.
const scale16 = 0x1p112

// widen16 returns the value of a binary16, which float32 always holds exactly.
// A NaN keeps its payload.
func widen16(h uint16) float32 {
	// The multiplication also normalizes subnormals.
	bits := math.Float32bits(math.Float32frombits(uint32(h&0x7fff)<<13) * scale16)
	if bits >= overflow16 {
		bits |= infinity32
	}
	return math.Float32frombits(bits | uint32(h&0x8000)<<16)
}

// narrow16 rounds f to the nearest binary16, ties to even, overflow to
// infinity; a NaN becomes the canonical one.
func narrow16(f float32) uint16 {
	bits := math.Float32bits(f)
	if narrowsNormal16(bits) {
		return narrowNormal16(bits)
	}
	sign := uint16(bits >> 16 & 0x8000)
	bits &= 0x7fffffff
	switch {
	case bits > infinity32:
		return nan16
	case bits >= overflow16:
		return sign | 0x7c00
	}
	sum := math.Float32frombits(bits) + math.Float32frombits(align16)
	return sign | uint16(math.Float32bits(sum)-align16)
}

// The kernels meet little but normal numbers. The following four are the short
// ways for these, small enough for the compiler to inline.

// normal reports whether a binary16 is neither zero, subnormal, infinite nor
// NaN.
func normal(h uint16) bool { return h&0x7fff-0x400 < 0x7c00-0x400 }

// widenNormal16 is widen16 for a normal number: it moves the fraction and
// changes the bias.
func widenNormal16(h uint16) float32 {
	return math.Float32frombits((uint32(h&0x7fff)<<13 + (127-15)<<23) | uint32(h&0x8000)<<16)
}

// narrowsNormal16 reports whether the bits of a float32 are in the range of
// normal binary16, or next below infinity.
func narrowsNormal16(bits uint32) bool { return bits&0x7fffffff-normal16 < overflow16-normal16 }

// narrowNormal16 is narrow16 for the bits of a float32 in that range. It adds
// half of the last place (less one if that is even) and cuts: a carry moves
// into the exponent, where it belongs.
func narrowNormal16(bits uint32) uint16 {
	m := bits & 0x7fffffff
	return uint16((m-(127-15)<<23+0xfff+m>>13&1)>>13 | bits>>16&0x8000)
}

// widenB16 returns the value of a bfloat16. A NaN keeps its payload.
func widenB16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// narrowB16 rounds f to the nearest bfloat16, ties to even, overflow to
// infinity; a NaN becomes the canonical one.
func narrowB16(f float32) uint16 {
	if f != f {
		return nanB16
	}
	bits := math.Float32bits(f)
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}
