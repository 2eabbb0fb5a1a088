package script

// tree is binary and in order: the root of the ranks [lo, hi) is the one in
// their middle, (lo+hi)/2, and its children are the roots of [lo, root) and of
// [root+1, hi). So a subtree is contiguous ranks, and owns contiguous chunks. The
// depth is log2 n.
//
// Reductions go up; all-reduce then broadcasts the result down, and
// reduce-scatter scatters it. All-gather gathers up and broadcasts down.
//
// The order of operands is that of the ranks, with the brackets of the tree:
//
//	value(lo, hi) = (value(lo, root) op x[root]) op value(root+1, hi)
//
// where what is empty is left out. An average is divided once, at the root.
//
// Operations that have a root of their own have it at the root of the tree: there rank r
// takes the part of rank r - root + n/2, modulo n.
type tree struct{ *Writer }

// Tree is the algorithm of the in-order binary tree.
func Tree(w *Writer) Operations { return tree{w} }

// node is a rank's place in the tree.
type node struct {
	lo, hi      int // the ranks of the subtree
	parent      int // -1 at the root
	left, right int // -1 where there is none
}

// nodeOf returns a rank's place in the tree of n ranks.
func nodeOf(rank, n int) node {
	k := node{lo: 0, hi: n, parent: -1, left: -1, right: -1}
	root := n / 2
	for root != rank {
		k.parent = root
		if rank < root {
			k.hi = root
		} else {
			k.lo = root + 1
		}
		root = (k.lo + k.hi) / 2
	}
	if k.lo < rank {
		k.left = (k.lo + rank) / 2
	}
	if rank+1 < k.hi {
		k.right = (rank + 1 + k.hi) / 2
	}
	return k
}

// nodeOfRooted returns the rank's place in the tree that has the operation's root at its
// own. lo and hi are not those of the ranks.
func (t tree) nodeOfRooted() node {
	shift := t.root + t.size - t.size/2
	k := nodeOf((t.rank-shift+2*t.size)%t.size, t.size)
	for _, peer := range [...]*int{&k.parent, &k.left, &k.right} {
		if *peer >= 0 {
			*peer = (*peer + shift) % t.size
		}
	}
	return k
}

func (t tree) Broadcast() {
	k, from := t.nodeOfRooted(), OperandInput
	if k.parent >= 0 {
		t.copy(k.parent, t.all())
		from = OperandOutput
	}
	t.sendDown(k, t.all(), t.all(), from)
}

func (t tree) Barrier() { t.AllGather() }

func (t tree) Reduce() { t.reduceUp(t.nodeOfRooted(), OperandOutput) }

func (t tree) AllReduce() {
	k := nodeOf(t.rank, t.size)
	t.reduceUp(k, OperandOutput)
	if k.parent >= 0 {
		t.copy(k.parent, t.all())
	}
	t.sendDown(k, t.all(), t.all(), OperandOutput)
}

func (t tree) ReduceScatter() {
	k := nodeOf(t.rank, t.size)
	t.reduceUp(k, OperandPartial)
	leaf := k.left < 0 && k.right < 0
	switch {
	case k.parent >= 0 && leaf:
		t.copy(k.parent, t.own())
		return
	case k.parent >= 0:
		t.store(k.parent, Span{k.lo, k.hi})
	}
	t.sendDown(k, Span{k.lo, t.rank}, Span{t.rank + 1, k.hi}, OperandPartial)
	t.output(t.own())
}

func (t tree) AllGather() {
	k := nodeOf(t.rank, t.size)
	from := OperandInput
	if k.left >= 0 {
		t.copy(k.left, Span{k.lo, t.rank})
		from = OperandOutput
	}
	if k.right >= 0 {
		t.copy(k.right, Span{t.rank + 1, k.hi})
		from = OperandOutput
	}
	if k.parent >= 0 {
		t.send(k.parent, Span{k.lo, k.hi}, from)
		t.copy(k.parent, t.all())
	}
	t.sendDown(k, t.all(), t.all(), OperandOutput)
}

// reduceUp reduces what the children send and sends it to the parent; the root
// leaves the result in a place.
func (t tree) reduceUp(k node, result Operand) {
	from, to := OperandInput, OperandPartial
	for _, child := range [2]int{k.left, k.right} {
		if child < 0 {
			continue
		}
		complete := k.parent < 0 && (child == k.right || k.right < 0)
		if complete {
			to = result
		}
		t.reduce(child, t.all(), from, to, complete)
		from = OperandPartial
	}
	if k.parent >= 0 {
		t.send(k.parent, t.all(), from)
	}
}

func (t tree) sendDown(k node, toLeft, toRight Span, from Operand) {
	if k.left >= 0 {
		t.send(k.left, toLeft, from)
	}
	if k.right >= 0 {
		t.send(k.right, toRight, from)
	}
}
