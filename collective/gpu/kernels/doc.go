// Package kernels has what GPUs compute with: one kernel for each operation and element
// type, as PTX, which every CUDA driver since 9.0 assembles for its device, and as HIP, which
// hiprtc compiles for AMD's.
//
//	dst[i] = a[i] op b[i]            sum, prod, min, max
//	dst[i] = (a[i] + b[i]) / ranks   avg: the last step of an average, whose others are sum
//
// Every bit is that of package reduce: nothing is fused or flushed, a NaN that comes out is
// the canonical one, -0 is less than +0, integers wrap, and an integer's average divides the
// wrapped sum and truncates towards zero.
//
// All kernels have one shape. Each thread of the grid takes every so-manieth 16 bytes of the
// vectors, so that neighbouring threads read neighbouring memory at once. Where the three
// vectors begin at the same place of a 16-byte line, what is before the first whole line and
// behind the last goes by elements; where they do not, everything does. dst may be a or b.
//
// The arguments are those of [Args].
package kernels
