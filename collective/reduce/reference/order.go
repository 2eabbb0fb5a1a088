package reference

import (
	"ringcli/collective/reduce"
	"ringcli/collective/topology"
)

// Order is the order in which an algorithm combines the contributions of n ranks
// to an element. Steps commute to the bit (package reduce), so what matters is
// the brackets.
type Order uint8

// The orders. See turn for operations that have a root.
const (
	// RingOrder begins at the successor of the chunk c that the element is in:
	// ((x[c+1] op x[c+2]) op ...) op x[c], ranks modulo n.
	RingOrder Order = iota
	// RankOrder is ((x[0] op x[1]) op ...) op x[n-1].
	RankOrder
	// DoublingOrder: with p the largest power of two up to n, the first 2(n-p)
	// contributions are combined in pairs, which leaves y[0] to y[p-1]; then
	// y[v] = y[v] op y[v+d] for all v < d, d = p/2, p/4, ... 1. The result is y[0].
	DoublingOrder
	// TreeOrder is an in-order binary tree, value(0, n) with m = (lo+hi)/2:
	// value(lo, hi) = (value(lo, m) op x[m]) op value(m+1, hi), without what is empty.
	TreeOrder
	// HostsOrder is that of the chunk of a rank r, see Checker.Along: on each host the ranks
	// follow one another from r's counterpart there on, ((x[p] op x[p+1]) op ...) op x[p-1],
	// and then the hosts from r's on.
	HostsOrder
)

// expression is a contribution, or one step over two expressions.
type expression struct {
	rank        int
	left, right *expression // nil of a contribution
}

func contribution(rank int) *expression { return &expression{rank: rank} }

// then is left op right; either may be nil, for nothing.
func (e *expression) then(right *expression) *expression {
	switch {
	case e == nil:
		return right
	case right == nil:
		return e
	}
	return &expression{left: e, right: right}
}

// expressionOf returns what an element of a chunk is in an order.
func expressionOf(order Order, n, chunk int) *expression {
	switch order {
	case RankOrder:
		chunk = n - 1 // the ring's last chunk begins at rank 0
	case DoublingOrder:
		return doublingOf(n)
	case TreeOrder:
		return treeOf(0, n)
	}
	var e *expression
	for k := 1; k <= n; k++ {
		e = e.then(contribution((chunk + k) % n))
	}
	return e
}

// turn makes the expression of an order that of an operation with a root: ranks are counted
// from it on by DoublingOrder, and such that it is in the middle by TreeOrder.
func (e *expression) turn(order Order, n, root int) {
	shift := map[Order]int{DoublingOrder: root, TreeOrder: root + n - n/2}[order]
	if e.left == nil {
		e.rank = (e.rank + shift) % n
		return
	}
	e.left.turn(order, n, root)
	e.right.turn(order, n, root)
}

func doublingOf(n int) *expression {
	power := 1
	for 2*power <= n {
		power *= 2
	}
	pairs := n - power
	y := make([]*expression, power)
	for v := range y {
		if v < pairs {
			y[v] = contribution(2 * v).then(contribution(2*v + 1))
		} else {
			y[v] = contribution(v + pairs)
		}
	}
	for distance := power / 2; distance > 0; distance /= 2 {
		for v := range distance {
			y[v] = y[v].then(y[v+distance])
		}
	}
	return y[0]
}

// alongOf is the chunk of an owner in HostsOrder.
func alongOf(h *topology.Hosts, owner int) *expression {
	var all *expression
	for k := range h.Number() {
		host := (h.Host(owner) + k) % h.Number()
		ranks, first := h.Ranks(host), h.Place(h.Counterpart(owner, host))
		var here *expression
		for i := range ranks {
			here = here.then(contribution(ranks[(first+i)%len(ranks)]))
		}
		all = all.then(here)
	}
	return all
}

func treeOf(lo, hi int) *expression {
	if lo == hi {
		return nil
	}
	m := (lo + hi) / 2
	return treeOf(lo, m).then(contribution(m)).then(treeOf(m+1, hi))
}

// inputs are the ranks' contributions to what is computed.
type inputs interface {
	read(rank int, dst []byte)
}

// evaluate computes an expression into dst. scratch holds a buffer of dst's length for each level
// of right operands.
func (e *expression) evaluate(dst []byte, scratch *[][]byte, level int, t reduce.Type, op reduce.Op, from inputs) {
	if e.left == nil {
		from.read(e.rank, dst)
		return
	}
	e.left.evaluate(dst, scratch, level, t, op, from)
	if level == len(*scratch) {
		*scratch = append(*scratch, make([]byte, max(len(dst), blockBytes)))
	}
	right := (*scratch)[level][:len(dst)]
	e.right.evaluate(right, scratch, level+1, t, op, from)
	Combine(dst, dst, right, t, op)
}
