package narrow

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// faults makes wrong words: each check has words from element at(check) on, which damage
// changes.
func faults(checks, run int, at func(check int) int, damage func(i int, want []uint64) uint64) (words []Word) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for check := range checks {
		want := make([]uint64, run+32)
		for i := range want {
			want[i] = uint64(rnd.Uint32())
		}
		first := at(check)
		for i := range run {
			got := damage(i+16, want)
			if got == want[i+16] {
				continue
			}
			element := first + i
			words = append(words, Word{
				Element: element, Got: got, Want: want[i+16], Rank: 2, From: 1, To: 2,
				Check: check + 1,
			})
		}
	}
	return words
}

// TestNarrowDown: what wrong words have in common is found, as far as it is so.
func TestNarrowDown(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	anywhere := func(int) int { return rnd.IntN(1 << 20) }
	inPage := func(check int) int { return 1024*check*7 + 512 } // 2048 bytes into a page
	bit := func(k int) *int { return &k }
	flip := func(mask uint64) func(int, []uint64) uint64 {
		return func(i int, want []uint64) uint64 { return want[i] ^ mask }
	}
	noise := func(i int, want []uint64) uint64 { return uint64(rnd.Uint32()) }
	for _, test := range []struct {
		name  string
		words []Word
		want  Pattern
		says  string
	}{
		{"a bit stuck at one", faults(40, 1, inPage, func(i int, want []uint64) uint64 { return want[i]&^(1<<17) | 1<<17 }),
			Pattern{Kind: "bit-set", Bit: bit(17), Mask: 1 << 17, Longest: 4}, "bit 17 set, entered by rank 1 to rank 2, "},
		{"a bit stuck at zero", faults(40, 1, anywhere, func(i int, want []uint64) uint64 { return want[i] &^ (1 << 3) }),
			Pattern{Kind: "bit-cleared", Bit: bit(3), Mask: 1 << 3, Longest: 4}, "bit 3 cleared"},
		{"a bit flipped", faults(40, 1, anywhere, flip(1<<30)), Pattern{Kind: "bit-flipped", Bit: bit(30), Mask: 1 << 30, Longest: 4}, "bit 30 flipped"},
		{"two bits flipped", faults(9, 1, anywhere, flip(0x500)), Pattern{Kind: "bits-flipped", Mask: 0x500, Longest: 4}, "the bits 0x500 flipped"},
		{"any one bit", faults(20, 1, anywhere, func(i int, want []uint64) uint64 { return want[i] ^ 1<<rnd.IntN(32) }),
			Pattern{Kind: "one-bit", Longest: 4}, "one bit flipped, not always the same"},
		{"a run of zeros", faults(5, 16, inPage, func(int, []uint64) uint64 { return 0 }),
			Pattern{Kind: "zeroed", Longest: 64}, "zero, in runs of up to 64 bytes"},
		{"a constant", faults(4, 8, anywhere, func(int, []uint64) uint64 { return 0xdeadbeef }), Pattern{Kind: "constant", Longest: 32}, "always 0xdeadbeef"},
		{"data two words late", faults(3, 16, anywhere, func(i int, want []uint64) uint64 { return want[i-2] }),
			Pattern{Kind: "shifted", Shift: 8, Longest: 64}, "data that belongs 8 bytes before, in runs of up to 64 bytes"},
		{"data a word early", faults(3, 16, anywhere, func(i int, want []uint64) uint64 { return want[i+1] }),
			Pattern{Kind: "shifted", Shift: -4, Longest: 64}, "data that belongs 4 bytes further on"},
		{"an operand's bit", faults(12, 1, anywhere, func(i int, want []uint64) uint64 { return (want[i] + 1<<9) & 0xffffffff }),
			Pattern{Kind: "operand-bit", Bit: bit(9), Longest: 4}, "off by 2^9, as from bit 9 of an operand of the sum"},
		{"noise", faults(6, 4, anywhere, noise), Pattern{Kind: "none", Longest: 16}, "no pattern in the bits"},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := len(test.words)
			got := Down(slices.Clone(test.words), n+5, 4, 100, time.Minute)
			w := test.want
			if got.Kind != w.Kind || got.Mask != w.Mask || got.Shift != w.Shift || got.Longest != w.Longest || (got.Bit == nil) != (w.Bit == nil) || w.Bit != nil && *got.Bit != *w.Bit {
				t.Errorf("%+v: expected %+v", got, w)
			}
			if got.Words != n || got.Of != n+5 || float64(got.Fits) < most*float64(n) && got.Kind != "shifted" {
				t.Errorf("%d of %d words of %d: expected most of %d", got.Fits, got.Words, got.Of, n)
			}
			for _, words := range []string{test.says, "entered by rank 1 to rank 2, ", " of 100 checks within 1m0s", "(5 more words were wrong)"} {
				if !strings.Contains(got.Text, words) {
					t.Errorf("%q does not say %q", got.Text, words)
				}
			}
		})
	}
}

// Where there is no regularity none is told.
func TestNarrowDownMixed(t *testing.T) {
	words := faults(3, 1, func(check int) int { return 1000 * check * check }, func(i int, want []uint64) uint64 { return want[i] ^ 4 })
	words[0].From, words[0].To = -1, -1
	words[1].Rank = 5
	got := Down(words, 3, 4, 90, 30*time.Second)
	for _, says := range []string{"3 of 3 wrong words: bit 2 ", "1 found by 2 ranks", "2 entered by rank 1 to rank 2", "in 3 of 90 checks within 30s"} {
		if !strings.Contains(got.Text, says) {
			t.Errorf("%+v does not say %q", got, says)
		}
	}
	if got := Down(nil, 7, 4, 9, time.Second); got.Of != 7 || got.Kind != "none" {
		t.Errorf("no words: %+v", got)
	}
}
