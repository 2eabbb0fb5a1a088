package reduce

// Stream copies src to dst, which have one length and do not overlap, with stores
// that go past the caches where the processor has such: for memory that nobody
// reads soon, or whose lines another core holds. The copy is complete for whoever
// sees what is stored after it. It panics where src is shorter than dst.
func Stream(dst, src []byte) { stream(dst, src[:len(dst):len(src)]) }
