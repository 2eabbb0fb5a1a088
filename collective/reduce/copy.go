package reduce

// Stream copies src to dst, which have one length and do not overlap, with stores
// that go past the caches where the processor has such: for memory that nobody
// reads soon, or whose lines another core holds. Such stores are not ordered with
// others: Fence comes before telling another thread. It panics where src is shorter
// than dst.
func Stream(dst, src []byte) { stream(dst, src[:len(dst):len(src)]) }

// Fence makes what Stream copied complete for whoever sees what is stored after it.
func Fence() { fence() }

// Prefetch has p, up to a few KiB, come into the nearest cache while other work goes
// on: what is read next, while Stream keeps the way to memory busy the other way. It
// reads nothing, and does nothing where the processor has no such instruction.
func Prefetch(p []byte) {
	if len(p) > 0 {
		prefetch(&p[0], len(p))
	}
}
