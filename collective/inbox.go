package collective

// The inbox takes one hop: every rank sends what it has to every other, which
// reduces it. The order of operands is that of the ranks:
//
//	((x[0] op x[1]) op ...) op x[n-1]
//
// and the rank that reduces divides an average. All-reduce sends the whole vector,
// reduce-scatter to each rank its chunk, all-gather the own chunk.

func (s *script) inboxAllReduce() {
	s.sendAll(func(int) span { return s.all() })
	s.reduceAll(s.all())
}

func (s *script) inboxReduceScatter() {
	s.sendAll(func(peer int) span { return span{peer, peer + 1} })
	s.reduceAll(s.own())
}

func (s *script) inboxAllGather() {
	s.sendAll(func(int) span { return s.own() })
	for r := range s.size {
		if r != s.rank {
			s.copy(r, span{r, r + 1})
		}
	}
}

// sendAll sends every other rank its part, and not all to rank 0 first.
func (s *script) sendAll(part func(peer int) span) {
	for k := 1; k < s.size; k++ {
		peer := (s.rank + k) % s.size
		s.send(peer, part(peer), operandInput)
	}
}

// reduceAll reduces what all ranks have of some chunks.
func (s *script) reduceAll(mine span) {
	for r := range s.size {
		last, to := r == s.size-1, operandPartial
		if last {
			to = operandOutput
		}
		switch {
		case r == 0 && s.rank == 0, r == 1 && s.rank == 1:
			// The own contribution is there, or was the first operand.
		case r == 0 && s.rank == 1:
			if s.size == 2 {
				to, last = operandOutput, true
			}
			s.reduce(r, mine, operandInput, to, last)
		case r == 0:
			s.store(r, mine)
		case r == 1 && s.rank == 0:
			s.reduce(r, mine, operandInput, to, last)
		case r == s.rank:
			s.reduceOwn(mine, to, last)
		default:
			s.reduce(r, mine, operandPartial, to, last)
		}
	}
}
