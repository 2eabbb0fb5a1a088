// Package reference computes what collectives must produce, naively and apart
// from the kernels of package reduce: element by element, with conversions and
// comparisons of its own, in the order of operands that an algorithm documents ([Order]). Tests
// hold kernels and collectives against it bit for bit, and [Checker] does the
// same for buffers of any size while a program runs.
package reference

import (
	"encoding/binary"
	"fmt"

	"ringcli/collective/reduce"
)

// Combine sets dst[i] = a[i] op b[i] over the elements of dst; it is one step
// of a reduction. The slices have one length; dst may be a or b.
func Combine(dst, a, b []byte, t reduce.Type, op reduce.Op) {
	f := step(t, op)
	size := t.Size()
	switch size {
	case 1:
		for i := range dst {
			dst[i] = byte(f(uint64(a[i]), uint64(b[i])))
		}
	case 2:
		for i := 0; i < len(dst); i += 2 {
			x, y := binary.LittleEndian.Uint16(a[i:]), binary.LittleEndian.Uint16(b[i:])
			binary.LittleEndian.PutUint16(dst[i:], uint16(f(uint64(x), uint64(y))))
		}
	case 4:
		for i := 0; i < len(dst); i += 4 {
			x, y := binary.LittleEndian.Uint32(a[i:]), binary.LittleEndian.Uint32(b[i:])
			binary.LittleEndian.PutUint32(dst[i:], uint32(f(uint64(x), uint64(y))))
		}
	case 8:
		for i := 0; i < len(dst); i += 8 {
			x, y := binary.LittleEndian.Uint64(a[i:]), binary.LittleEndian.Uint64(b[i:])
			binary.LittleEndian.PutUint64(dst[i:], f(x, y))
		}
	}
}

// Finish divides the elements of buf, sums over n ranks, by n if op is the
// average of more than one rank.
func Finish(buf []byte, t reduce.Type, op reduce.Op, n int) {
	if op != reduce.Avg || n == 1 {
		return
	}
	size := t.Size()
	for i := 0; i < len(buf); i += size {
		store(buf[i:i+size], divide(t, load(buf[i:i+size]), n))
	}
}

// Compare returns how many elements of got differ from want in any bit, and
// the index of the first, -1 if there is none. Elements that one of the two
// lacks count as wrong.
func Compare(got, want []byte, t reduce.Type) (wrong, first int) {
	size := t.Size()
	both := min(len(got), len(want)) / size * size
	wrong, first = max(len(got), len(want))/size-both/size, -1
	if wrong > 0 {
		first = both / size
	}
	if string(got[:both]) == string(want[:both]) { // compiled without a copy
		return wrong, first
	}
	for i := both - size; i >= 0; i -= size {
		if string(got[i:i+size]) != string(want[i:i+size]) {
			wrong++
			first = i / size
		}
	}
	return wrong, first
}

// Format writes an element as its value and its bits.
func Format(element []byte, t reduce.Type) string {
	bits := load(element)
	digits := 2 * t.Size()
	switch {
	case t.Float():
		return fmt.Sprintf("%g (0x%0*x)", decode(t, bits), digits, bits)
	case signed(t):
		return fmt.Sprintf("%d (0x%0*x)", extend(t, bits), digits, bits)
	}
	return fmt.Sprintf("%d (0x%0*x)", bits, digits, bits)
}

// load returns the bits of one element of 1, 2, 4 or 8 bytes.
func load(b []byte) uint64 {
	var bits uint64
	for i, v := range b {
		bits |= uint64(v) << (8 * i)
	}
	return bits
}

// store writes the low bits of an element.
func store(b []byte, bits uint64) {
	for i := range b {
		b[i] = byte(bits >> (8 * i))
	}
}
