package reduce

import "math"

type float interface{ float32 | float64 }

// canonical makes a NaN the canonical one. Go's min and max already propagate NaN and hold -0 less
// than +0, so that this is all that is left to the kernels. Narrowing nan64 gives nan32.
func canonical[T float](f T) T {
	if f != f {
		return T(math.Float64frombits(nan64))
	}
	return f
}

func sumFloat[T float](dst, a, b []byte) {
	d, x, y := operands[T](dst, a, b)
	for i := range d {
		d[i] = canonical(x[i] + y[i])
	}
}

func prodFloat[T float](dst, a, b []byte) {
	d, x, y := operands[T](dst, a, b)
	for i := range d {
		d[i] = canonical(x[i] * y[i])
	}
}

func minFloat[T float](dst, a, b []byte) {
	d, x, y := operands[T](dst, a, b)
	for i := range d {
		d[i] = canonical(min(x[i], y[i]))
	}
}

func maxFloat[T float](dst, a, b []byte) {
	d, x, y := operands[T](dst, a, b)
	for i := range d {
		d[i] = canonical(max(x[i], y[i]))
	}
}
