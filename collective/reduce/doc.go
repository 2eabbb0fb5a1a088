// Package reduce holds what a collective computes with: the element types, the
// reduction operations, and the kernels that apply one to the other.
//
// # Numbers
//
// The rules below fix every bit of a result, so that ranks, runs and kernels
// (plain Go or assembly) can be compared without a tolerance:
//
//   - Integers wrap.
//   - Float16 and BFloat16 are widened to float32, combined there, and rounded
//     to nearest even at every step. Float32 and Float64 use their own
//     precision. Subnormals are kept; nothing is fused.
//   - Min and Max give NaN if either operand is NaN, and hold -0 less than +0.
//   - A NaN result is canonical, whatever the operands' payloads: quiet,
//     positive, payload zero (0x7e00, 0x7fc0, 0x7fc00000, 0x7ff8000000000000).
//   - Avg is Sum at each step and one division by the number of ranks at the
//     end ([Finish]); integer division truncates towards zero and divides the
//     wrapped sum.
//
// Every step is therefore commutative down to the bit, and the order of the two
// operands of a kernel does not matter. The order in which ranks are combined
// does, for floats: it belongs to the algorithm, which documents it.
//
// # Memory
//
// Kernels take byte slices that may view memory outside the Go heap. Elements
// are in the machine's byte order, which is little-endian on every platform
// that this package builds for, and may start at any byte address.
package reduce
