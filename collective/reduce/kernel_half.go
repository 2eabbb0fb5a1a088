package reduce

import "math"

// The kernels of the 16-bit floats work in float32 and round to 16 bits at each
// step. For float16 that gives the bits of rounding once: float32 has twice the
// precision plus two bits (Figueroa, "When is double rounding
// innocuous?", 1995).

func sum16(dst, a, b []byte) {
	d, x, y := operands[uint16](dst, a, b)
	for i := range d {
		p, q := x[i], y[i]
		if normal(p) && normal(q) {
			bits := math.Float32bits(widenNormal16(p) + widenNormal16(q))
			if narrowsNormal16(bits) {
				d[i] = narrowNormal16(bits)
				continue
			}
		}
		d[i] = narrow16(widen16(p) + widen16(q))
	}
}

// The conversion of the product keeps the compiler from fusing it with the
// addition inside narrow16.
func prod16(dst, a, b []byte) {
	d, x, y := operands[uint16](dst, a, b)
	for i := range d {
		p, q := x[i], y[i]
		if normal(p) && normal(q) {
			bits := math.Float32bits(widenNormal16(p) * widenNormal16(q))
			if narrowsNormal16(bits) {
				d[i] = narrowNormal16(bits)
				continue
			}
		}
		d[i] = narrow16(float32(widen16(p) * widen16(q)))
	}
}

func sumB16(dst, a, b []byte) {
	d, x, y := operands[uint16](dst, a, b)
	for i := range d {
		d[i] = narrowB16(widenB16(x[i]) + widenB16(y[i]))
	}
}

func prodB16(dst, a, b []byte) {
	d, x, y := operands[uint16](dst, a, b)
	for i := range d {
		d[i] = narrowB16(widenB16(x[i]) * widenB16(y[i]))
	}
}

// The order of the two formats is the order of their bits as integers, once the
// bits of negative numbers below the sign are flipped; what lies beyond the
// infinities is NaN. So min and max need no conversion.

func min16(dst, a, b []byte)  { lesserHalf(dst, a, b, 0x7c00, nan16) }
func max16(dst, a, b []byte)  { greaterHalf(dst, a, b, 0x7c00, nan16) }
func minB16(dst, a, b []byte) { lesserHalf(dst, a, b, 0x7f80, nanB16) }
func maxB16(dst, a, b []byte) { greaterHalf(dst, a, b, 0x7f80, nanB16) }

// ordered flips the lower bits of a negative number; it is its own inverse.
func ordered(h int16) int16 { return h ^ h>>15&0x7fff }

func lesserHalf(dst, a, b []byte, infinity, nan int16) {
	d, x, y := operands[int16](dst, a, b)
	for i := range d {
		p, q := x[i], y[i]
		if p&0x7fff > infinity || q&0x7fff > infinity {
			d[i] = nan
			continue
		}
		d[i] = ordered(min(ordered(p), ordered(q)))
	}
}

func greaterHalf(dst, a, b []byte, infinity, nan int16) {
	d, x, y := operands[int16](dst, a, b)
	for i := range d {
		p, q := x[i], y[i]
		if p&0x7fff > infinity || q&0x7fff > infinity {
			d[i] = nan
			continue
		}
		d[i] = ordered(max(ordered(p), ordered(q)))
	}
}
