package script

// doubling is recursive doubling (Thakur, Rabenseifner and Gropp, "Optimization of collective
// communication operations in MPICH", 2005): it takes log2 p exchanges, where p is the
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
	*Writer
	power, folded int // p and n-p
}

// Doubling is the algorithm of recursive doubling.
func Doubling(w *Writer) Operations { return newDoubling(w) }

// halving is recursive doubling whose all-reduce goes by halves.
type halving struct{ doubling }

// Halving is recursive doubling whose all-reduce goes by halves.
func Halving(w *Writer) Operations { return halving{newDoubling(w)} }

func newDoubling(w *Writer) doubling {
	power := 1
	for 2*power <= w.size {
		power *= 2
	}
	return doubling{w, power, w.size - power}
}

// first returns the first chunk that virtual rank v owns. It is also the rank
// that takes part as v; of the power itself it is the number of ranks.
func (d doubling) first(v int) int { return v + min(v, d.folded) }

// block returns the chunks of n virtual ranks from v on.
func (d doubling) block(v, n int) Span { return Span{d.first(v), d.first(v + n)} }

// perform writes the part of a virtual rank, or, where the neighbour below stands in for this
// rank, that it sends what it has to that neighbour and receives its result.
func (d doubling) perform(has, result Span, part func(v int, paired bool)) {
	switch paired := d.rank < 2*d.folded; {
	case paired && d.rank%2 == 1:
		d.send(d.rank-1, has, OperandInput)
		d.copy(d.rank-1, result)
	case paired:
		part(d.rank/2, true)
	default:
		part(d.rank-d.folded, false)
	}
}

// rooted returns the rank's place in the tree that has the operation's root at y[0], as v; -1
// where its neighbour below stands in for it. peer is the rank that takes part as a virtual
// one, and beside the one that this one stands in for, or that stands in for it; -1 is nobody.
func (d doubling) rooted() (v, beside int, peer func(v int) int) {
	place := (d.rank - d.root + d.size) % d.size
	rank := func(place int) int { return (place + d.root) % d.size }
	peer = func(v int) int { return rank(d.first(v)) }
	switch paired := place < 2*d.folded; {
	case paired && place%2 == 1:
		return -1, rank(place - 1), peer
	case paired:
		return place / 2, rank(place + 1), peer
	}
	return place - d.folded, -1, peer
}

// Broadcast goes down a binomial tree.
func (d doubling) Broadcast() {
	v, beside, peer := d.rooted()
	if v < 0 {
		d.copy(beside, d.all())
		return
	}
	from := OperandInput
	for dist := 1; dist < d.power; dist *= 2 {
		switch {
		case v < dist:
			d.send(peer(v+dist), d.all(), from)
		case v < 2*dist:
			d.copy(peer(v-dist), d.all())
			from = OperandOutput
		}
	}
	if beside >= 0 {
		d.send(beside, d.all(), from)
	}
}

// Reduce goes up a binomial tree.
func (d doubling) Reduce() {
	v, beside, peer := d.rooted()
	if v < 0 {
		d.send(beside, d.all(), OperandInput)
		return
	}
	from := OperandInput
	step := func(of int, last bool) {
		to := OperandPartial
		if last {
			to = OperandOutput
		}
		d.reduce(of, d.all(), from, to, last)
		from = to
	}
	if beside >= 0 {
		step(beside, d.power == 1)
	}
	for dist := d.power / 2; dist >= 1; dist /= 2 {
		if v >= dist {
			d.send(peer(v-dist), d.all(), from)
			return
		}
		step(peer(v+dist), dist == 1)
	}
}

func (d doubling) AllReduce()     { d.perform(d.all(), d.all(), d.doubleSums) }
func (d doubling) ReduceScatter() { d.perform(d.all(), d.own(), d.halveSums) }
func (d doubling) AllGather()     { d.perform(d.own(), d.all(), d.doubleChunks) }

func (h halving) AllReduce() {
	h.script.Whole = false
	h.perform(h.all(), h.all(), h.halveAndDouble)
}

// Barrier is a dissemination (Hensgen, Finkel and Manber, "Two algorithms for barrier
// synchronization", 1988): a rank that has heard of d ranks, itself among them, tells the
// one d places on, for d = 1, 2, 4, ... below the number of ranks, which takes log2 n
// exchanges for any n, and no rank stands in for another.
func (d doubling) Barrier() {
	for dist := 1; dist < d.size; dist *= 2 {
		d.send((d.rank+dist)%d.size, d.all(), OperandInput)
		d.copy((d.rank-dist+d.size)%d.size, d.all())
	}
}

func (d doubling) doubleSums(v int, paired bool) {
	from := d.fold(paired)
	for dist := d.power / 2; dist >= 1; dist /= 2 {
		peer := d.first(v ^ dist)
		d.send(peer, d.all(), from)
		to := OperandPartial
		if dist == 1 {
			to = OperandOutput
		}
		d.reduce(peer, d.all(), from, to, dist == 1)
		from = to
	}
	if paired {
		d.send(d.rank+1, d.all(), OperandOutput)
	}
}

// fold reduces what the rank above sends, if it is folded, and tells where the
// virtual rank's contribution lies.
func (d doubling) fold(paired bool) Operand {
	if !paired {
		return OperandInput
	}
	d.reduce(d.rank+1, d.all(), OperandInput, OperandPartial, false)
	return OperandPartial
}

func (d doubling) halveSums(v int, paired bool) {
	d.halve(v, paired, !paired)
	if paired {
		d.send(d.rank+1, Span{d.rank + 1, d.rank + 2}, OperandPartial)
		d.output(d.own())
	}
}

// halveAndDouble leaves the sums in a partial result first: in place a reduction waits until
// what comes before it is sent, and here that may be two pieces, which each of two ranks would
// have the other take first.
func (d doubling) halveAndDouble(v int, paired bool) {
	d.halve(v, paired, false)
	d.output(d.block(v, 1))
	d.lap = 1
	d.double(v, OperandOutput)
	if paired {
		d.send(d.rank+1, d.all(), OperandOutput)
	}
}

// halve leaves the virtual rank the sums of its chunks, in the output or in a partial result.
func (d doubling) halve(v int, paired, output bool) {
	from := d.fold(paired)
	block := 0 // of virtual ranks, whose chunks this one still has
	for dist := d.power / 2; dist >= 1; dist /= 2 {
		peer := d.first(v ^ dist)
		mine, theirs := block, block+dist
		if v&dist != 0 {
			mine, theirs = theirs, mine
		}
		d.send(peer, d.block(theirs, dist), from)
		to := OperandPartial
		if dist == 1 && output {
			to = OperandOutput
		}
		d.reduce(peer, d.block(mine, dist), from, to, dist == 1)
		from, block = OperandPartial, mine
	}
}

func (d doubling) doubleChunks(v int, paired bool) {
	from := OperandInput
	if paired {
		d.copy(d.rank+1, Span{d.rank + 1, d.rank + 2})
		from = OperandOutput
	}
	d.double(v, from)
	if paired {
		d.send(d.rank+1, d.all(), OperandOutput)
	}
}

// double gives all virtual ranks the chunks of each. The own ones lie in from.
func (d doubling) double(v int, from Operand) {
	for dist := 1; dist < d.power; dist *= 2 {
		mine := v &^ (dist - 1)
		d.send(d.first(v^dist), d.block(mine, dist), from)
		d.copy(d.first(v^dist), d.block(mine^dist, dist))
		from = OperandOutput
	}
}
