package reduce

import "math"

// The canonical NaN of each float type: quiet, positive, payload zero.
const (
	nan16  = 0x7e00
	nanB16 = 0x7fc0
	nan32  = 0x7fc00000
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

// scale16 turns the exponent field of a binary16 (bias 15) that was moved into
// the place of a binary32's (bias 127) into the latter: 2^(127-15).
var scale16 = math.Float32frombits((127 + 127 - 15) << 23)

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
	sign := uint16(bits >> 16 & 0x8000)
	bits &= 0x7fffffff
	switch {
	case bits >= overflow16:
		if bits > infinity32 {
			return nan16
		}
		return sign | 0x7c00
	case bits < normal16:
		sum := math.Float32frombits(bits) + math.Float32frombits(align16)
		return sign | uint16(math.Float32bits(sum)-align16)
	}
	// Change the bias, add half of the last place (less one if it is even) and
	// cut: a carry moves into the exponent, where it belongs.
	bits -= (127 - 15) << 23
	bits += 0xfff + bits>>13&1
	return sign | uint16(bits>>13)
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
