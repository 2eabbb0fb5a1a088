package reduce

import "unsafe"

// Kernel combines two runs of elements: dst[i] = a[i] op b[i].
//
// The three slices have one length, a multiple of the element's size; dst may
// be exactly a or exactly b, but not overlap them otherwise. The elements may
// start at any byte address. A ring passes the partial result that it received
// as a and its own value as b; the result's bits do not depend on which is
// which. A kernel allocates nothing and keeps no reference.
type Kernel func(dst, a, b []byte)

// kernels has the kernel of every type and step. Avg's step is Sum.
type kernels [numTypes][numOps]Kernel

// plain is written in Go, for every architecture. Lookup reads table, which is
// plain or what the processor has that is faster, bit for bit the same.
var plain = kernels{
	Int8:     {sumBytes, prod[int8], minimum[int8], maximum[int8], sumBytes},
	Uint8:    {sumBytes, prod[uint8], minimum[uint8], maximum[uint8], sumBytes},
	Int32:    {sum[uint32], prod[uint32], minimum[int32], maximum[int32], sum[uint32]},
	Uint32:   {sum[uint32], prod[uint32], minimum[uint32], maximum[uint32], sum[uint32]},
	Int64:    {sum[uint64], prod[uint64], minimum[int64], maximum[int64], sum[uint64]},
	Uint64:   {sum[uint64], prod[uint64], minimum[uint64], maximum[uint64], sum[uint64]},
	Float16:  {sum16, prod16, min16, max16, sum16},
	BFloat16: {sumB16, prodB16, minB16, maxB16, sumB16},
	Float32:  {sumFloat[float32], prodFloat[float32], minFloat[float32], maxFloat[float32], sumFloat[float32]},
	Float64:  {sumFloat[float64], prodFloat[float64], minFloat[float64], maxFloat[float64], sumFloat[float64]},
}

// Lookup returns the kernel of one step of op over elements of type t; for Avg
// that is Sum's, and [Finish] divides at the end. Both must be valid: an
// undeclared type or operation panics.
func Lookup(t Type, op Op) Kernel { return table[t][op] }

// view reinterprets bytes as elements, and leaves out a last part of one. A
// misaligned view is sound on amd64 and arm64, whose loads and stores take any
// address; the checks that -race turns on refuse misalignment of types with
// pointers only, but also a pointer to an element that its memory cannot hold.
func view[T any](b []byte) []T {
	var e T
	n := len(b) / int(unsafe.Sizeof(e))
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

// operands returns the three views at one length, which lets the compiler drop
// the bounds checks of the loops. It panics where a or b is shorter than dst.
func operands[T any](dst, a, b []byte) (d, x, y []T) {
	d = view[T](dst)
	return d, view[T](a)[:len(d)], view[T](b)[:len(d)]
}
