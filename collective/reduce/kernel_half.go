package reduce

// The kernels of the 16-bit floats. A product of two of them needs at most 22
// bits and the sum is rounded by float32 first: either way float32 has more
// than twice the precision plus two bits, so that rounding twice gives what
// rounding once would (Figueroa, "When is double rounding innocuous?", 1995).

func sum16(dst, a, b []byte) {
	d, x, y := operands[uint16](dst, a, b)
	for i := range d {
		d[i] = narrow16(widen16(x[i]) + widen16(y[i]))
	}
}

// The conversion of the product keeps the compiler from fusing it with the
// addition inside narrow16.
func prod16(dst, a, b []byte) {
	d, x, y := operands[uint16](dst, a, b)
	for i := range d {
		d[i] = narrow16(float32(widen16(x[i]) * widen16(y[i])))
	}
}

func min16(dst, a, b []byte) {
	d, x, y := operands[uint16](dst, a, b)
	for i := range d {
		d[i] = narrow16(min(widen16(x[i]), widen16(y[i])))
	}
}

func max16(dst, a, b []byte) {
	d, x, y := operands[uint16](dst, a, b)
	for i := range d {
		d[i] = narrow16(max(widen16(x[i]), widen16(y[i])))
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

func minB16(dst, a, b []byte) {
	d, x, y := operands[uint16](dst, a, b)
	for i := range d {
		d[i] = narrowB16(min(widenB16(x[i]), widenB16(y[i])))
	}
}

func maxB16(dst, a, b []byte) {
	d, x, y := operands[uint16](dst, a, b)
	for i := range d {
		d[i] = narrowB16(max(widenB16(x[i]), widenB16(y[i])))
	}
}
