package reduce

// Finish completes a reduction over n ranks in place: it divides the elements
// of buf, which hold the sums, by n where op is Avg, and does nothing for the
// other operations. With a single rank there was no step, and the bits stay as
// they are. It runs once per element, on the rank that holds the final sum.
func Finish(t Type, op Op, n int, buf []byte) {
	if op != Avg || n <= 1 {
		return
	}
	switch t {
	case Int8:
		divideSigned[int8](buf, n)
	case Uint8:
		divideUnsigned[uint8](buf, n)
	case Int32:
		divideSigned[int32](buf, n)
	case Uint32:
		divideUnsigned[uint32](buf, n)
	case Int64:
		divideSigned[int64](buf, n)
	case Uint64:
		divideUnsigned[uint64](buf, n)
	case Float16:
		e, by := view[uint16](buf), float32(n)
		for i := range e {
			e[i] = narrow16(widen16(e[i]) / by)
		}
	case BFloat16:
		e, by := view[uint16](buf), float32(n)
		for i := range e {
			e[i] = narrowB16(widenB16(e[i]) / by)
		}
	case Float32:
		divideFloat[float32](buf, n)
	case Float64:
		divideFloat[float64](buf, n)
	}
}

func divideFloat[T float](buf []byte, n int) {
	e, by := view[T](buf), T(n)
	for i := range e {
		e[i] = canonical(e[i] / by)
	}
}

// Integers are divided in 64 bits, since n need not fit the element.

func divideSigned[T int8 | int32 | int64](buf []byte, n int) {
	e, by := view[T](buf), int64(n)
	for i := range e {
		e[i] = T(int64(e[i]) / by)
	}
}

func divideUnsigned[T uint8 | uint32 | uint64](buf []byte, n int) {
	e, by := view[T](buf), uint64(n)
	for i := range e {
		e[i] = T(uint64(e[i]) / by)
	}
}
