//go:build amd64 || arm64

package direct

// pause tells the processor that this is a loop that waits: its other hardware
// thread, if there is one, runs the faster, and leaving the loop costs less.
//
//go:noescape
func pause()
