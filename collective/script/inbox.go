package script

// The inbox takes one hop: every rank sends what it has to every other, which
// reduces it. The order of operands is that of the ranks:
//
//	((x[0] op x[1]) op ...) op x[n-1]
//
// and the rank that reduces divides an average. All-reduce sends the whole vector,
// reduce-scatter to each rank its chunk, all-gather the own chunk; in a broadcast only
// the root sends, the whole vector, and in a reduce all but the root, to it.

// InboxAllReduce writes all-reduce of the inbox.
func (s *Script) InboxAllReduce() {
	s.sendAll(func(int) Span { return s.all() })
	s.reduceAll(s.all())
}

// InboxReduceScatter writes reduce-scatter of the inbox.
func (s *Script) InboxReduceScatter() {
	s.sendAll(func(peer int) Span { return Span{peer, peer + 1} })
	s.reduceAll(s.own())
}

// InboxAllGather writes all-gather of the inbox.
func (s *Script) InboxAllGather() {
	s.sendAll(func(int) Span { return s.own() })
	for r := range s.size {
		if r != s.rank {
			s.copy(r, Span{r, r + 1})
		}
	}
}

// InboxBroadcast writes broadcast of the inbox.
func (s *Script) InboxBroadcast() {
	if s.rank == s.root {
		s.sendAll(func(int) Span { return s.all() })
	} else {
		s.copy(s.root, s.all())
	}
}

// InboxReduce writes reduce of the inbox.
func (s *Script) InboxReduce() {
	if s.rank == s.root {
		s.reduceAll(s.all())
	} else {
		s.send(s.root, s.all(), OperandInput)
	}
}

// sendAll sends every other rank its part, and not all to rank 0 first.
func (s *Script) sendAll(part func(peer int) Span) {
	for k := 1; k < s.size; k++ {
		peer := (s.rank + k) % s.size
		s.send(peer, part(peer), OperandInput)
	}
}

// reduceAll reduces what all ranks have of some chunks.
func (s *Script) reduceAll(mine Span) {
	for r := range s.size {
		last, to := r == s.size-1, OperandPartial
		if last {
			to = OperandOutput
		}
		switch {
		case r == 0 && s.rank == 0, r == 1 && s.rank == 1:
			// The own contribution is there, or was the first operand.
		case r == 0 && s.rank == 1:
			if s.size == 2 {
				to, last = OperandOutput, true
			}
			s.reduce(r, mine, OperandInput, to, last)
		case r == 0:
			s.store(r, mine)
		case r == 1 && s.rank == 0:
			s.reduce(r, mine, OperandInput, to, last)
		case r == s.rank:
			s.reduceOwn(mine, to, last)
		default:
			s.reduce(r, mine, OperandPartial, to, last)
		}
	}
}
