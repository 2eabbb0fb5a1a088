package reference

import (
	"bytes"
	"fmt"
	"testing"

	"ringcli/collective/reduce"
)

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
			Reduce(order, want, inputs, typ, reduce.Avg)
			c := NewCheckerOf(order, typ, reduce.Avg, n, count, seed)
			c.Expect(0, count, got)
			if !bytes.Equal(got, want) {
				t.Errorf("order %d, %s: the checker and Reduce differ", order, typ)
			}
			if wrong, first := c.Verify(0, count, want); wrong != 0 {
				t.Errorf("order %d, %s: %d wrong, %+v", order, typ, wrong, first)
			}
		}
	}
}
