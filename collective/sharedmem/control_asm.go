//go:build (amd64 || arm64) && !race

package sharedmem

// pause tells the processor that this is a loop that waits: its other hardware
// thread, if there is one, runs the faster, and leaving the loop costs less.
//
//go:noescape
func pause()

// Publish is an atomic store before which all earlier stores are visible. That of
// sync/atomic also keeps later loads behind it, for which amd64 locks the line: a
// peer that polls it takes it away between the payload's store and the tag's, and
// a round between far cores takes half as long again.
//
//go:noescape
func Publish(word *uint64, value uint64)

// claim fetches a line that is to be written soon, from whoever has read it, and does not
// wait for it.
//
//go:noescape
func claim(word *uint64)
