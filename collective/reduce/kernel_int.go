package reduce

type integer interface {
	~int8 | ~uint8 | ~int32 | ~uint32 | ~int64 | ~uint64
}

func sum[T integer](dst, a, b []byte) {
	d, x, y := operands[T](dst, a, b)
	for len(d) >= 4 && len(x) >= 4 && len(y) >= 4 {
		s0, s1, s2, s3 := x[0]+y[0], x[1]+y[1], x[2]+y[2], x[3]+y[3]
		d[0], d[1], d[2], d[3] = s0, s1, s2, s3
		d, x, y = d[4:], x[4:], y[4:]
	}
	for i := range d {
		d[i] = x[i] + y[i]
	}
}

// sumBytes adds eight bytes at a time in one register: the lower seven bits of
// each byte cannot carry into the next, and the top bits are added by XOR.
func sumBytes(dst, a, b []byte) {
	const top = 0x8080808080808080
	d, x, y := operands[uint64](dst, a, b)
	for i := range d {
		p, q := x[i], y[i]
		d[i] = (p&^top + q&^top) ^ (p^q)&top
	}
	for i := len(d) * 8; i < len(dst); i++ {
		dst[i] = a[i] + b[i]
	}
}

func prod[T integer](dst, a, b []byte) {
	d, x, y := operands[T](dst, a, b)
	for len(d) >= 4 && len(x) >= 4 && len(y) >= 4 {
		s0, s1, s2, s3 := x[0]*y[0], x[1]*y[1], x[2]*y[2], x[3]*y[3]
		d[0], d[1], d[2], d[3] = s0, s1, s2, s3
		d, x, y = d[4:], x[4:], y[4:]
	}
	for i := range d {
		d[i] = x[i] * y[i]
	}
}

func minimum[T integer](dst, a, b []byte) {
	d, x, y := operands[T](dst, a, b)
	for len(d) >= 4 && len(x) >= 4 && len(y) >= 4 {
		s0, s1, s2, s3 := min(x[0], y[0]), min(x[1], y[1]), min(x[2], y[2]), min(x[3], y[3])
		d[0], d[1], d[2], d[3] = s0, s1, s2, s3
		d, x, y = d[4:], x[4:], y[4:]
	}
	for i := range d {
		d[i] = min(x[i], y[i])
	}
}

func maximum[T integer](dst, a, b []byte) {
	d, x, y := operands[T](dst, a, b)
	for len(d) >= 4 && len(x) >= 4 && len(y) >= 4 {
		s0, s1, s2, s3 := max(x[0], y[0]), max(x[1], y[1]), max(x[2], y[2]), max(x[3], y[3])
		d[0], d[1], d[2], d[3] = s0, s1, s2, s3
		d, x, y = d[4:], x[4:], y[4:]
	}
	for i := range d {
		d[i] = max(x[i], y[i])
	}
}
