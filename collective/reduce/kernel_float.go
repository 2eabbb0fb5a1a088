package reduce

import "math"

// Go's min and max already propagate NaN and hold -0 less than +0; what is left
// to every kernel is to make a NaN result canonical.

func canonical32(f float32) float32 {
	if f != f {
		return math.Float32frombits(nan32)
	}
	return f
}

func canonical64(f float64) float64 {
	if f != f {
		return math.Float64frombits(nan64)
	}
	return f
}

func sum32(dst, a, b []byte) {
	d, x, y := operands[float32](dst, a, b)
	for i := range d {
		d[i] = canonical32(x[i] + y[i])
	}
}

func prod32(dst, a, b []byte) {
	d, x, y := operands[float32](dst, a, b)
	for i := range d {
		d[i] = canonical32(x[i] * y[i])
	}
}

func min32(dst, a, b []byte) {
	d, x, y := operands[float32](dst, a, b)
	for i := range d {
		d[i] = canonical32(min(x[i], y[i]))
	}
}

func max32(dst, a, b []byte) {
	d, x, y := operands[float32](dst, a, b)
	for i := range d {
		d[i] = canonical32(max(x[i], y[i]))
	}
}

func sum64(dst, a, b []byte) {
	d, x, y := operands[float64](dst, a, b)
	for i := range d {
		d[i] = canonical64(x[i] + y[i])
	}
}

func prod64(dst, a, b []byte) {
	d, x, y := operands[float64](dst, a, b)
	for i := range d {
		d[i] = canonical64(x[i] * y[i])
	}
}

func min64(dst, a, b []byte) {
	d, x, y := operands[float64](dst, a, b)
	for i := range d {
		d[i] = canonical64(min(x[i], y[i]))
	}
}

func max64(dst, a, b []byte) {
	d, x, y := operands[float64](dst, a, b)
	for i := range d {
		d[i] = canonical64(max(x[i], y[i]))
	}
}
