//go:build !notrace

package trace

// prints is whether events are printed at all. The build tag notrace makes it
// false, and the compiler then drops what stands behind Enabled.
const prints = true
