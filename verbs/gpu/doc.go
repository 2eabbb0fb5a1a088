// Package gpu is memory and streams of GPUs through what their vendors' drivers bring:
// libcuda.so.1, which has CUDA's Driver API, and libamdhip64, which has HIP's. A library is
// loaded when it is first needed, so that a program runs without one: Load then says what is
// missing and what to install (ErrUnavailable).
//
// Both have the same functions under names of their own (calls.go). Every call makes its
// device the current one of its OS thread first: nothing of it stays with a goroutine.
//
// # Order
//
// What a Stream is given runs in the order in which it was given, after the call has come
// back. Work of two streams has no order but what events make. Memory must stay until the
// streams that use it have been waited for.
//
// The build tag nodl leaves the libraries out, for a static program.
package gpu
