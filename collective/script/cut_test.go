package script

import "testing"

// TestCut: the pieces of all moves of all groups cover each chunk once, and lie in
// an area without touching each other.
func TestCut(t *testing.T) {
	for _, ranks := range []int{2, 3, 7, 16} {
		for _, count := range []int{0, 1, ranks - 1, ranks, 100, 1001, 5000} {
			for _, segment := range []int{1, 7, 64, 10000} {
				for _, whole := range []bool{false, true} {
					x := NewCut(count, segment, ranks, &Script{Whole: whole})
					for _, r := range []Span{{Lo: 0, Hi: ranks}, {Lo: ranks / 2, Hi: ranks}, {Lo: 1, Hi: 2}} {
						if whole {
							r = Span{Lo: 0, Hi: ranks}
						}
						seen := make([]bool, count)
						for g := range x.Groups {
							room := make([]bool, x.Room(r))
							for p := range x.Pieces(r.Lo, r.Hi) {
								from, to := x.Piece(r.Lo, r.Hi, g, p)
								if to < from || to-from > segment {
									t.Fatalf("%+v: piece %d of group %d of %v is [%d, %d)", x, p, g, r, from, to)
								}
								for i := from; i < to; i++ {
									at := x.Offset(r, r.Lo, p, from) + i - from
									if seen[i] || room[at] {
										t.Fatalf("%+v: element %d is in two pieces, or its place %d", x, i, at)
									}
									seen[i], room[at] = true, true
								}
							}
						}
						for i := range seen {
							if want := i >= x.Start(r.Lo) && i < x.Start(r.Hi); seen[i] != want {
								t.Fatalf("%+v: element %d is in %v: %v, want %v", x, i, r, seen[i], want)
							}
						}
					}
				}
			}
		}
	}
}
