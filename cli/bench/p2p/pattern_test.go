package p2p

import (
	"testing"
)

func TestPatternTellsBytesApart(t *testing.T) {
	for _, n := range []int{0, 1, 7, 8, 9, 4099} {
		b := make([]byte, n)
		fillPattern(b, 1, 7)
		if wrong, _, _, _ := verifyPattern(b, 1, 7); wrong != 0 {
			t.Fatalf("%d bytes: %d wrong", n, wrong)
		}
		for at := range n {
			b[at] ^= 0x10
			wrong, first, got, want := verifyPattern(b, 1, 7)
			if wrong != 1 || first != at || got != b[at] || want != b[at]^0x10 {
				t.Fatalf("byte %d of %d: %d wrong, the first at %d: 0x%x, want 0x%x", at, n, wrong, first, got, want)
			}
			b[at] ^= 0x10
		}
	}
	// Another rank's, an earlier test's, and the right bytes in the wrong place.
	b := make([]byte, 4096)
	fillPattern(b, 1, 7)
	for what, wrong := range map[string]uint64{"rank": check(b, 0, 7), "seed": check(b, 1, 8), "place": check(b[8:], 1, 7)} {
		if wrong < 3900 {
			t.Errorf("another %s: %d bytes wrong", what, wrong)
		}
	}
}

func check(b []byte, rank int, seed uint64) uint64 {
	wrong, _, _, _ := verifyPattern(b, rank, seed)
	return wrong
}
