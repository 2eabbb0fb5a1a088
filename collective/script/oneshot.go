package script

// oneShot takes one hop: every rank sends what it has to every other, which
// reduces it. The order of operands is that of the ranks:
//
//	((x[0] op x[1]) op ...) op x[n-1]
//
// and the rank that reduces divides an average. All-reduce sends the whole vector,
// reduce-scatter to each rank its chunk, all-gather the own chunk; in a broadcast only
// the root sends, the whole vector, and in a reduce all but the root, to it.
type oneShot struct{ *Writer }

// OneShot is the algorithm of one hop.
func OneShot(w *Writer) Operations { return oneShot{w} }

func (x oneShot) AllReduce() {
	x.sendAll(func(int) Span { return x.all() })
	x.reduceAll(x.all())
}

func (x oneShot) ReduceScatter() {
	x.sendAll(func(peer int) Span { return Span{peer, peer + 1} })
	x.reduceAll(x.own())
}

func (x oneShot) AllGather() {
	x.sendAll(func(int) Span { return x.own() })
	for r := range x.size {
		if r != x.rank {
			x.copy(r, Span{r, r + 1})
		}
	}
}

func (x oneShot) Barrier() { x.AllGather() }

func (x oneShot) Broadcast() {
	if x.rank == x.root {
		x.sendAll(func(int) Span { return x.all() })
	} else {
		x.copy(x.root, x.all())
	}
}

func (x oneShot) Reduce() {
	if x.rank == x.root {
		x.reduceAll(x.all())
	} else {
		x.send(x.root, x.all(), OperandInput)
	}
}

// sendAll sends every other rank its part, and not all to rank 0 first.
func (x oneShot) sendAll(part func(peer int) Span) {
	for k := 1; k < x.size; k++ {
		peer := (x.rank + k) % x.size
		x.send(peer, part(peer), OperandInput)
	}
}

// reduceAll reduces what all ranks have of some chunks.
func (x oneShot) reduceAll(mine Span) {
	for r := range x.size {
		last, to := r == x.size-1, OperandPartial
		if last {
			to = OperandOutput
		}
		switch {
		case r == 0 && x.rank == 0, r == 1 && x.rank == 1:
			// The own contribution is there, or was the first operand.
		case r == 0 && x.rank == 1:
			if x.size == 2 {
				to, last = OperandOutput, true
			}
			x.reduce(r, mine, OperandInput, to, last)
		case r == 0:
			x.store(r, mine)
		case r == 1 && x.rank == 0:
			x.reduce(r, mine, OperandInput, to, last)
		case r == x.rank:
			x.reduceOwn(mine, to, last)
		default:
			x.reduce(r, mine, OperandPartial, to, last)
		}
	}
}
