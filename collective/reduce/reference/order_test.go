package reference

import (
	"bytes"
	"fmt"
	"testing"

	"ringcli/collective/reduce"
)

// reduceAll computes the reduction of inputs, one slice per rank, all of the length
// of dst, into dst in an order; an average is divided once at the end. With one
// rank dst is its input.
func reduceAll(order Order, dst []byte, inputs [][]byte, t reduce.Type, op reduce.Op) {
	n, count := len(inputs), len(dst)/t.Size()
	for c := range n {
		lo, hi := reduce.Chunk(count, n, c)
		lo, hi = lo*t.Size(), hi*t.Size()
		if lo == hi {
			continue
		}
		var scratch [][]byte
		expressionOf(order, n, c).evaluate(dst[lo:hi], &scratch, 0, t, op, part{inputs, lo})
		Finish(dst[lo:hi], t, op, n)
	}
}

// part is the inputs from a byte on.
type part struct {
	inputs [][]byte
	lo     int
}

func (p part) read(rank int, dst []byte) { copy(dst, p.inputs[rank][p.lo:]) }

// ringOf is reduceAll in the order of a ring.
func ringOf(dst []byte, inputs [][]byte, t reduce.Type, op reduce.Op) {
	reduceAll(RingOrder, dst, inputs, t, op)
}

func (e *expression) String() string {
	if e.left == nil {
		return fmt.Sprint(e.rank)
	}
	return "(" + e.left.String() + e.right.String() + ")"
}

// TestOrdersByHand: the brackets that the algorithms document.
func TestOrdersByHand(t *testing.T) {
	for _, test := range []struct {
		order    Order
		n, chunk int
		want     string
	}{
		{RingOrder, 1, 0, "0"}, {RingOrder, 4, 1, "(((23)0)1)"}, {RankOrder, 4, 1, "(((01)2)3)"}, {RankOrder, 1, 0, "0"},
		{DoublingOrder, 1, 0, "0"}, {DoublingOrder, 2, 0, "(01)"}, {DoublingOrder, 3, 0, "((01)2)"}, {DoublingOrder, 4, 3, "((02)(13))"},
		{DoublingOrder, 6, 0, "(((01)4)((23)5))"}, {DoublingOrder, 8, 0, "(((04)(26))((15)(37)))"},
		{TreeOrder, 1, 0, "0"}, {TreeOrder, 2, 0, "(01)"}, {TreeOrder, 3, 0, "((01)2)"}, {TreeOrder, 7, 5, "((((01)2)3)((45)6))"},
		{TreeOrder, 6, 0, "((((01)2)3)(45))"},
	} {
		if got := expressionOf(test.order, test.n, test.chunk).String(); got != test.want {
			t.Errorf("order %d of %d ranks, chunk %d: %s, want %s", test.order, test.n, test.chunk, got, test.want)
		}
	}
}

// TestCheckerOfOrders: blocks and whole vectors come to the same.
func TestCheckerOfOrders(t *testing.T) {
	const n, count, seed = 6, 20011, 5
	for order := RingOrder; order <= TreeOrder; order++ {
		for _, typ := range []reduce.Type{reduce.BFloat16, reduce.Float64} {
			inputs := make([][]byte, n)
			for r := range inputs {
				inputs[r] = make([]byte, count*typ.Size())
				Fill(inputs[r], typ, reduce.Avg, r, 0, seed)
			}
			want, got := make([]byte, count*typ.Size()), make([]byte, count*typ.Size())
			reduceAll(order, want, inputs, typ, reduce.Avg)
			c := NewChecker(order, typ, reduce.Avg, n, count, seed)
			c.Expect(0, count, got)
			if !bytes.Equal(got, want) {
				t.Errorf("order %d, %s: blocks and the whole differ", order, typ)
			}
			if wrong, first := c.Verify(0, count, want); wrong != 0 {
				t.Errorf("order %d, %s: %d wrong, %+v", order, typ, wrong, first)
			}
		}
	}
}
