//go:build linux

package main

import "testing"

// Each contender is first and last as often as any other, and each comes as often right after
// another as right before it, in all the orders of a cell, wherever they begin.
func TestOrder(t *testing.T) {
	for n := 1; n <= 5; n++ {
		for from := range 2 * n {
			first, last := make([]int, n), make([]int, n)
			after := map[[2]int]int{}
			for number := from; number < from+2*n; number++ {
				list := order(n, number)
				first[list[0]]++
				last[list[n-1]]++
				for k := 1; k < n; k++ {
					after[[2]int{list[k-1], list[k]}]++
				}
			}
			for a := range n {
				if first[a] != 2 || last[a] != 2 {
					t.Errorf("%d contenders, from %d: %v times first and %v last: expected 2 each", n, from, first, last)
					break
				}
				next := (a + 1) % n
				if there, back := after[[2]int{a, next}], after[[2]int{next, a}]; n > 1 && (there != back || there == 0) {
					t.Errorf("%d contenders, from %d: %d comes %d times after %d and %d times before it", n, from, next, there, a, back)
				}
			}
		}
		// Two rounds are enough for both directions.
		if a, b := order(n, 0), order(n, 1); a[0] != b[n-1] || a[n-1] != b[0] {
			t.Errorf("%d contenders: %v, then %v", n, a, b)
		}
	}
}
