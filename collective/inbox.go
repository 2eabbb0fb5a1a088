package collective

// The inbox takes one hop: every rank sends what it has to every other, which
// reduces it. The order of operands is that of the ranks:
//
//	((x[0] op x[1]) op ...) op x[n-1]
//
// and who reduces divides an average. All-reduce sends the whole vector,
// reduce-scatter to each rank its chunk, all-gather the own chunk.
func (s *script) inbox(op Operation) {
	for k := 1; k < s.size; k++ {
		peer := (s.rank + k) % s.size // not all to rank 0 first
		part := s.all()
		switch op {
		case OpReduceScatter:
			part = span{peer, peer + 1}
		case OpAllGather:
			part = s.own()
		}
		s.send(peer, part, placeInput)
	}
	mine := s.own()
	if op == OpAllReduce {
		mine = s.all()
	}
	for r := range s.size {
		last, to := r == s.size-1, placePartial
		if last {
			to = placeOutput
		}
		switch {
		case op == OpAllGather && r != s.rank:
			s.copy(r, span{r, r + 1})
		case op == OpAllGather, r == 0 && s.rank == 0, r == 1 && s.rank == 1:
			// The own contribution is there, or was the first operand.
		case r == 0 && s.rank == 1:
			if s.size == 2 {
				to, last = placeOutput, true
			}
			s.reduce(r, mine, placeInput, to, last)
		case r == 0:
			s.store(r, mine)
		case r == 1 && s.rank == 0:
			s.reduce(r, mine, placeInput, to, last)
		case r == s.rank:
			s.reduceOwn(mine, to, last)
		default:
			s.reduce(r, mine, placePartial, to, last)
		}
	}
}
