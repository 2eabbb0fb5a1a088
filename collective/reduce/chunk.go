package reduce

// Chunk returns the elements [lo, hi) of a vector of count elements that rank r
// of n owns: lo = r*count/n and hi = (r+1)*count/n, both rounded down, so that
// chunks are adjacent, cover the vector, and differ by at most one element. A
// chunk is empty where count is less than n.
//
// The product r*count must fit an int64, which any count that fits memory does
// for every ring of up to a million ranks.
func Chunk(count, n, r int) (lo, hi int) {
	c, ranks, rank := int64(count), int64(n), int64(r)
	return int(rank * c / ranks), int((rank + 1) * c / ranks)
}
