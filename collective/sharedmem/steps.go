package sharedmem

// Steps is how many steps Pull makes of a chunk of so many bytes among so many ranks.
func Steps(chunk, ranks int) int {
	l := layoutOf(ranks)
	segment := l.segment(chunk)
	return max(1, (chunk+segment-1)/segment)
}
