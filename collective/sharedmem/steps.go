package sharedmem

// Steps is how many steps Pull makes of a chunk of so many bytes.
func Steps(chunk int) int { return max(1, (chunk+segmentBytes(chunk)-1)/segmentBytes(chunk)) }
