package script

// The tree is binary and in order: the root of the ranks [lo, hi) is the one in
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
func (s *Script) nodeOfRooted() node {
	shift := s.root + s.size - s.size/2
	k := nodeOf((s.rank-shift+2*s.size)%s.size, s.size)
	for _, peer := range [...]*int{&k.parent, &k.left, &k.right} {
		if *peer >= 0 {
			*peer = (*peer + shift) % s.size
		}
	}
	return k
}

// TreeBroadcast writes broadcast of the tree.
func (s *Script) TreeBroadcast() {
	k, from := s.nodeOfRooted(), OperandInput
	if k.parent >= 0 {
		s.copy(k.parent, s.all())
		from = OperandOutput
	}
	s.sendDown(k, s.all(), s.all(), from)
}

// TreeReduce writes reduce of the tree.
func (s *Script) TreeReduce() { s.reduceUp(s.nodeOfRooted(), OperandOutput) }

// TreeAllReduce writes all-reduce of the tree.
func (s *Script) TreeAllReduce() {
	k := nodeOf(s.rank, s.size)
	s.reduceUp(k, OperandOutput)
	if k.parent >= 0 {
		s.copy(k.parent, s.all())
	}
	s.sendDown(k, s.all(), s.all(), OperandOutput)
}

// TreeReduceScatter writes reduce-scatter of the tree.
func (s *Script) TreeReduceScatter() {
	k := nodeOf(s.rank, s.size)
	s.reduceUp(k, OperandPartial)
	leaf := k.left < 0 && k.right < 0
	switch {
	case k.parent >= 0 && leaf:
		s.copy(k.parent, s.own())
		return
	case k.parent >= 0:
		s.store(k.parent, Span{k.lo, k.hi})
	}
	s.sendDown(k, Span{k.lo, s.rank}, Span{s.rank + 1, k.hi}, OperandPartial)
	s.output(s.own())
}

// TreeAllGather writes all-gather of the tree.
func (s *Script) TreeAllGather() {
	k := nodeOf(s.rank, s.size)
	from := OperandInput
	if k.left >= 0 {
		s.copy(k.left, Span{k.lo, s.rank})
		from = OperandOutput
	}
	if k.right >= 0 {
		s.copy(k.right, Span{s.rank + 1, k.hi})
		from = OperandOutput
	}
	if k.parent >= 0 {
		s.send(k.parent, Span{k.lo, k.hi}, from)
		s.copy(k.parent, s.all())
	}
	s.sendDown(k, s.all(), s.all(), OperandOutput)
}

// reduceUp reduces what the children send and sends it to the parent; the root
// leaves the result in a place.
func (s *Script) reduceUp(k node, result Operand) {
	from, to := OperandInput, OperandPartial
	for _, child := range [2]int{k.left, k.right} {
		if child < 0 {
			continue
		}
		complete := k.parent < 0 && (child == k.right || k.right < 0)
		if complete {
			to = result
		}
		s.reduce(child, s.all(), from, to, complete)
		from = OperandPartial
	}
	if k.parent >= 0 {
		s.send(k.parent, s.all(), from)
	}
}

func (s *Script) sendDown(k node, toLeft, toRight Span, from Operand) {
	if k.left >= 0 {
		s.send(k.left, toLeft, from)
	}
	if k.right >= 0 {
		s.send(k.right, toRight, from)
	}
}
