package crossover

import "testing"

// TestBytes: the crossovers lie where ranks that take turns on two CPUs were measured, by
// which of the two was faster at the lengths about them.
func TestBytes(t *testing.T) {
	const kib = 1 << 10
	for _, c := range []struct {
		phases, ranks int
		least, most   int64
	}{
		{2, 5, 0, 64 * kib}, {2, 6, 0, 256 * kib}, {2, 8, 256 * kib, 1024 * kib}, {2, 12, 128 * kib, 512 * kib},
		{2, 16, 512 * kib, 1024 * kib}, {2, 24, 512 * kib, 1024 * kib}, {2, 32, 1024 * kib, 2048 * kib},
		{1, 3, 0, 128 * kib}, {1, 4, 32 * kib, 128 * kib}, {1, 8, 256 * kib, 512 * kib}, {1, 12, 128 * kib, 256 * kib},
		{1, 16, 512 * kib, 1024 * kib}, {1, 32, 1024 * kib, 4096 * kib},
	} {
		if got := Bytes(c.phases, c.ranks, 0, (c.ranks+1)/2); got < c.least || got > c.most {
			t.Errorf("%d phases, %d ranks on two CPUs: %d bytes, want %d to %d", c.phases, c.ranks, got, c.least, c.most)
		}
	}
	// More ranks save more steps.
	for n, before := 8, int64(0); n <= 1024; n *= 2 {
		got := Bytes(2, n, 0, n/2)
		if got <= before {
			t.Errorf("%d ranks: %d bytes, want more than the %d of half as many", n, got, before)
		}
		before = got
	}
}
