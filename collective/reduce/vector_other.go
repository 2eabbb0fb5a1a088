//go:build !amd64 || race

package reduce

// table is the plain kernels: there are no others for this architecture, or the
// race detector is to see what a kernel reads and writes, which it cannot in
// assembly.
var table = &plain
