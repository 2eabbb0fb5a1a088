package script

// Recursive doubling (Thakur, Rabenseifner and Gropp, "Optimization of collective
// communication operations in MPICH", 2005) takes log2 p exchanges, where p is the
// largest power of two that n ranks hold. The first 2(n-p) ranks are folded in
// pairs before and unfolded after: 2v takes part for 2v+1 too, as virtual rank v;
// rank r beyond them is virtual rank r-(n-p). So each virtual rank, and each
// aligned block of 2^k of them, owns contiguous chunks.
//
// All-reduce exchanges the whole vector at distances p/2, p/4, ... 1.
// Reduce-scatter does the same with the half of the chunks that the other side
// is nearer to (recursive halving), and all-gather goes back, at distances 1, 2,
// ... p/2. All-reduce by halves is the one and then the other: twice as many messages, of
// 2(p-1)/p of the vector instead of lg p times the vector.
//
// The order of operands is one for all chunks and both reductions:
//
//	y[v]    = x[2v] op x[2v+1], or x[v+n-p] of a rank that was not folded
//	y[v]    = y[v] op y[v+d]    for all v < d, d = p/2, p/4, ... 1
//	result  = y[0]
//
// Operations that have a root are the half of this that ends or begins at y[0], which is a
// binomial tree: there rank r takes the part of rank r - root, modulo n.
type doubling struct {
	size, power int // n and p
	folded      int // n-p
}

func newDoubling(size int) doubling {
	power := 1
	for 2*power <= size {
		power *= 2
	}
	return doubling{size: size, power: power, folded: size - power}
}

// first returns the first chunk that virtual rank v owns. It is also the rank
// that takes part as v; of the power itself it is the number of ranks.
func (d doubling) first(v int) int { return v + min(v, d.folded) }

// block returns the chunks of n virtual ranks from v on.
func (d doubling) block(v, n int) Span { return Span{d.first(v), d.first(v + n)} }

// doubling is what a rank does: the part of a virtual rank, or, where its neighbour
// below stands in for it, to give that what it has and to take what it gets.
func (s *Script) doubling(give, take Span, part func(d doubling, v int, paired bool)) {
	d := newDoubling(s.size)
	switch paired := s.rank < 2*d.folded; {
	case paired && s.rank%2 == 1:
		s.send(s.rank-1, give, OperandInput)
		s.copy(s.rank-1, take)
	case paired:
		part(d, s.rank/2, true)
	default:
		part(d, s.rank-d.folded, false)
	}
}

// rooted returns the rank's place in the tree that has the operation's root at y[0], as v; -1
// where its neighbour below stands in for it. peer is the rank that takes part as a virtual
// one, and beside the one that this one stands in for, or that stands in for it; -1 is nobody.
func (s *Script) rooted() (d doubling, v, beside int, peer func(v int) int) {
	d = newDoubling(s.size)
	place := (s.rank - s.root + s.size) % s.size
	rank := func(place int) int { return (place + s.root) % s.size }
	peer = func(v int) int { return rank(d.first(v)) }
	switch paired := place < 2*d.folded; {
	case paired && place%2 == 1:
		return d, -1, rank(place - 1), peer
	case paired:
		return d, place / 2, rank(place + 1), peer
	}
	return d, place - d.folded, -1, peer
}

// DoublingBroadcast writes broadcast down a binomial tree.
func (s *Script) DoublingBroadcast() {
	d, v, beside, peer := s.rooted()
	if v < 0 {
		s.copy(beside, s.all())
		return
	}
	from := OperandInput
	for dist := 1; dist < d.power; dist *= 2 {
		switch {
		case v < dist:
			s.send(peer(v+dist), s.all(), from)
		case v < 2*dist:
			s.copy(peer(v-dist), s.all())
			from = OperandOutput
		}
	}
	if beside >= 0 {
		s.send(beside, s.all(), from)
	}
}

// DoublingReduce writes reduce up a binomial tree.
func (s *Script) DoublingReduce() {
	d, v, beside, peer := s.rooted()
	if v < 0 {
		s.send(beside, s.all(), OperandInput)
		return
	}
	from := OperandInput
	step := func(of int, last bool) {
		to := OperandPartial
		if last {
			to = OperandOutput
		}
		s.reduce(of, s.all(), from, to, last)
		from = to
	}
	if beside >= 0 {
		step(beside, d.power == 1)
	}
	for dist := d.power / 2; dist >= 1; dist /= 2 {
		if v >= dist {
			s.send(peer(v-dist), s.all(), from)
			return
		}
		step(peer(v+dist), dist == 1)
	}
}

// The operations by recursive doubling.

func (s *Script) DoublingAllReduce()     { s.doubling(s.all(), s.all(), s.doubleSums) }
func (s *Script) DoublingReduceScatter() { s.doubling(s.all(), s.own(), s.halveSums) }
func (s *Script) DoublingAllGather()     { s.doubling(s.own(), s.all(), s.doubleChunks) }

// DoublingByHalves writes all-reduce by halves.
func (s *Script) DoublingByHalves() {
	s.Whole = false
	s.doubling(s.all(), s.all(), s.halveAndDouble)
}

// Disseminate writes the barrier (Hensgen, Finkel and Manber, "Two algorithms for barrier
// synchronization", 1988): a rank that has heard of d ranks, itself among them, tells the
// one d places on, for d = 1, 2, 4, ... below the number of ranks, which takes log2 n
// exchanges for any n, and no rank stands in for another.
func (s *Script) Disseminate() {
	for dist := 1; dist < s.size; dist *= 2 {
		s.send((s.rank+dist)%s.size, s.all(), OperandInput)
		s.copy((s.rank-dist+s.size)%s.size, s.all())
	}
}

func (s *Script) doubleSums(d doubling, v int, paired bool) {
	from := s.fold(paired)
	for dist := d.power / 2; dist >= 1; dist /= 2 {
		peer := d.first(v ^ dist)
		s.send(peer, s.all(), from)
		to := OperandPartial
		if dist == 1 {
			to = OperandOutput
		}
		s.reduce(peer, s.all(), from, to, dist == 1)
		from = to
	}
	if paired {
		s.send(s.rank+1, s.all(), OperandOutput)
	}
}

// fold reduces what the rank above sends, if it is folded, and tells where the
// virtual rank's contribution lies.
func (s *Script) fold(paired bool) Operand {
	if !paired {
		return OperandInput
	}
	s.reduce(s.rank+1, s.all(), OperandInput, OperandPartial, false)
	return OperandPartial
}

func (s *Script) halveSums(d doubling, v int, paired bool) {
	s.halve(d, v, paired, !paired)
	if paired {
		s.send(s.rank+1, Span{s.rank + 1, s.rank + 2}, OperandPartial)
		s.output(s.own())
	}
}

// halveAndDouble leaves the sums in a partial result first: in place a reduction waits until
// what comes before it is sent, and here that may be two pieces, which each of two ranks would
// have the other take first.
func (s *Script) halveAndDouble(d doubling, v int, paired bool) {
	s.halve(d, v, paired, false)
	s.output(d.block(v, 1))
	s.lap = 1
	s.double(d, v, OperandOutput)
	if paired {
		s.send(s.rank+1, s.all(), OperandOutput)
	}
}

// halve leaves the virtual rank the sums of its chunks, in the output or in a partial result.
func (s *Script) halve(d doubling, v int, paired, output bool) {
	from := s.fold(paired)
	block := 0 // of virtual ranks, whose chunks this one still has
	for dist := d.power / 2; dist >= 1; dist /= 2 {
		peer := d.first(v ^ dist)
		mine, theirs := block, block+dist
		if v&dist != 0 {
			mine, theirs = theirs, mine
		}
		s.send(peer, d.block(theirs, dist), from)
		to := OperandPartial
		if dist == 1 && output {
			to = OperandOutput
		}
		s.reduce(peer, d.block(mine, dist), from, to, dist == 1)
		from, block = OperandPartial, mine
	}
}

func (s *Script) doubleChunks(d doubling, v int, paired bool) {
	from := OperandInput
	if paired {
		s.copy(s.rank+1, Span{s.rank + 1, s.rank + 2})
		from = OperandOutput
	}
	s.double(d, v, from)
	if paired {
		s.send(s.rank+1, s.all(), OperandOutput)
	}
}

// double gives all virtual ranks the chunks of each. The own ones lie in from.
func (s *Script) double(d doubling, v int, from Operand) {
	for dist := 1; dist < d.power; dist *= 2 {
		mine := v &^ (dist - 1)
		s.send(d.first(v^dist), d.block(mine, dist), from)
		s.copy(d.first(v^dist), d.block(mine^dist, dist))
		from = OperandOutput
	}
}
