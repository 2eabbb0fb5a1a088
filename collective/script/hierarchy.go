package script

import "ringcli/collective/topology"

// The hierarchy goes along the hosts of the ranks (package topology): between the ranks of a
// host every byte, between hosts what a host has of it, and that by all of the host's ranks, of
// which each exchanges its own chunks with its counterparts. So a host of H sends 2(H-1)/H of
// the vector in an all-reduce, where a ring that goes from host to host has each of its ranks
// send nearly twice the vector. It is what MPI libraries and NCCL call hierarchical (Karonis et
// al., "Exploiting hierarchy in parallel computer networks to optimize collective operation
// performance", IPDPS 2000; with all ranks at work between the hosts, Cho et al., "BlueConnect:
// decomposing all-reduce for deep learning on heterogeneous network hierarchy", MLSys 2019).
//
//	reduce-scatter   in the host each rank reduces its set; then each owner reduces what its
//	                 counterparts have of its chunk
//	all-gather       each owner sends its chunk to its counterparts; then in the host each rank
//	                 sends all others its set
//	all-reduce       the one and then the other
//	barrier          an all-gather of nothing
//	broadcast        the root's host has the place of the reduce-scatter: the root sends the sets
//	                 of its host, and their ranks send owners on other hosts their chunks
//	reduce           the root's host has the place of the all-gather, and sends the root alone
//
// Where the ranks of each host share memory, there are no messages within one. The ranks of a host
// reduce their sets before the script, or gather them behind it, in memory, and what the script has as
// its input or output is:
//
//	                 before                   input                  output             behind
//	all-reduce       each reduces its set     what that gave         its set            all get all sets
//	reduce-scatter   each reduces its set     what that gave         its chunk
//	all-gather                                its chunk              its set            all get all sets
//	barrier          all meet                                                           all meet
//	broadcast        all get the root's       its set                its set, elsewhere all get all sets, elsewhere
//	reduce           each reduces its set     what that gave         its set, there     the root gets all sets, there
//
// Either way the order of operands, of the chunk of rank r at place l of L on host h of H, is: on each host it
// begins at the counterpart c of r there, at place p of M, and goes round the host; then the
// hosts follow from h on:
//
//	y[i]   = ((x[p] op x[p+1]) op ...) op x[p-1]    (places of host i, modulo M)
//	result = ((y[h] op y[h+1]) op ...) op y[h-1]    (hosts, modulo H)
//
// and the owner divides an average. Where every rank gets or has the whole vector, it is not
// rank r that owns the chunk r but the rank that [topology.Hosts.Order] has at r, so that what
// goes between two ranks is one run of the vector.

// along is a rank's place in the hierarchy.
type along struct {
	*topology.Hosts
	host, place int
	here        []int // the ranks of the host that messages go to, and this one
	set         Span
	own         Span // of it
}

// hierarchy begins a script along the hosts.
func (s *Script) hierarchy() along {
	h := s.hosts
	s.Whole = false
	a := along{Hosts: h, host: h.Host(s.rank), place: h.Place(s.rank), here: h.On(s.rank), set: Span(h.Set(s.rank))}
	if s.Between {
		a.here, a.place = []int{s.rank}, 0
	}
	a.own = a.at(s.rank)
	return a
}

// byRank makes chunks those of the ranks.
func (s *Script) byRank() {
	if !s.hosts.Ordered() {
		s.Order = s.hosts.Order()
	}
}

// at is an owner's chunk.
func (a *along) at(owner int) Span {
	for i, rank := range a.Order() {
		if rank == owner {
			return Span{i, i + 1}
		}
	}
	panic("no rank of the hosts")
}

// beside calls f for the other ranks of the host, the next ones first or the ones before.
func (a *along) beside(step int, f func(rank int)) {
	n := len(a.here)
	for k := 1; k < n; k++ {
		f(a.here[((a.place+k*step)%n+n)%n])
	}
}

// beyond calls f for the other hosts, the next ones first or the ones before.
func (a *along) beyond(step int, f func(host int)) {
	n := a.Number()
	for k := 1; k < n; k++ {
		f(((a.host+k*step)%n + n) % n)
	}
}

// foreign calls f for the chunks of the set that a host's ranks own.
func (a *along) foreign(host int, f func(owner int, chunk Span)) {
	for i := a.set.Lo; i < a.set.Hi; i++ {
		if owner := a.Order()[i]; a.Host(owner) == host {
			f(owner, Span{i, i + 1})
		}
	}
}

// HierarchyAllReduce writes all-reduce along the hosts.
func (s *Script) HierarchyAllReduce() {
	a := s.hierarchy()
	s.reduceSets(&a, OperandOutput, a.own)
	s.lap = 1
	s.gatherSets(&a, OperandOutput)
}

// HierarchyReduceScatter writes reduce-scatter along the hosts.
func (s *Script) HierarchyReduceScatter() {
	s.byRank()
	a := s.hierarchy()
	s.reduceSets(&a, OperandOutput, a.own)
}

// HierarchyAllGather writes all-gather along the hosts.
func (s *Script) HierarchyAllGather() {
	s.byRank()
	a := s.hierarchy()
	s.gatherSets(&a, OperandInput)
}

// HierarchyBarrier writes the barrier along the hosts: an all-gather of nothing, whose chunks are
// one as good as another.
func (s *Script) HierarchyBarrier() {
	a := s.hierarchy()
	s.gatherSets(&a, OperandInput)
}

// HierarchyBroadcast writes broadcast along the hosts.
func (s *Script) HierarchyBroadcast() {
	a, from := s.hierarchy(), OperandOutput
	root, first := s.rank == s.root, a.Host(s.root)
	if root {
		from = OperandInput
		a.beside(-1, func(rank int) { s.send(rank, Span(a.Set(rank)), from) })
	} else if a.host == first && !s.Between {
		s.copy(s.root, a.set)
	}
	if a.host == first {
		a.beyond(-1, func(host int) {
			a.foreign(host, func(owner int, chunk Span) { s.send(owner, chunk, from) })
		})
	} else {
		s.copy(a.Counterpart(s.rank, first), a.own)
	}
	s.lap = 1
	a.beyond(-1, func(host int) {
		if host != first {
			s.send(a.Counterpart(s.rank, host), a.own, from)
		}
	})
	if a.host != first {
		s.copyForeign(&a)
	}
	a.beside(-1, func(rank int) {
		if rank != s.root {
			s.send(rank, a.set, from)
		}
	})
	if !root {
		a.beside(1, func(rank int) { s.copy(rank, Span(a.Set(rank))) })
	}
}

// HierarchyReduce writes reduce along the hosts.
func (s *Script) HierarchyReduce() {
	a := s.hierarchy()
	last := a.Host(s.root)
	switch {
	case s.rank == s.root || s.Between && a.host == last:
		s.reduceSets(&a, OperandOutput, a.own)
		s.lap = 1
		s.copyForeign(&a)
		a.beside(1, func(rank int) { s.copy(rank, Span(a.Set(rank))) })
	case a.host == last:
		s.reduceSets(&a, OperandPartial, a.set)
		s.lap = 1
		a.beyond(1, func(host int) {
			a.foreign(host, func(owner int, chunk Span) {
				m := Move{Do: MoveStore, Peer: owner, Lo: chunk.Lo, Hi: chunk.Hi, To: OperandPartial}
				s.resultIn(&m)
			})
		})
		s.send(s.root, a.set, OperandPartial)
	default:
		s.reduceSets(&a, OperandPartial, a.own)
		s.lap = 1
		s.send(a.Counterpart(s.rank, last), a.own, OperandPartial)
	}
}

// reduceSets reduces the set in the host and the own chunk between the hosts, whose result is
// left in the receive buffer or in a new area of partial results.
func (s *Script) reduceSets(a *along, to Operand, area Span) {
	left, from := len(a.here)+a.Number()-2, OperandInput
	reduce := func(peer int, r Span) {
		if left--; left == 0 {
			m := Move{Do: MoveReduce, Peer: peer, Lo: r.Lo, Hi: r.Hi, From: from, To: to, Last: true}
			if from == OperandPartial {
				m.Area = s.newest()
			}
			if to == OperandPartial {
				s.Areas, s.sent = append(s.Areas, area), false
			}
			s.resultIn(&m)
			return
		}
		s.reduce(peer, r, from, OperandPartial, false)
		from = OperandPartial
	}
	a.beside(-1, func(rank int) { s.send(rank, Span(a.Set(rank)), OperandInput) })
	a.beside(1, func(rank int) { reduce(rank, a.set) })
	a.beyond(-1, func(host int) {
		a.foreign(host, func(owner int, chunk Span) { s.send(owner, chunk, from) })
	})
	a.beyond(1, func(host int) { reduce(a.Counterpart(s.rank, host), a.own) })
}

// gatherSets gathers the set between the hosts, and all sets in the host.
func (s *Script) gatherSets(a *along, from Operand) {
	a.beyond(-1, func(host int) { s.send(a.Counterpart(s.rank, host), a.own, from) })
	s.copyForeign(a)
	if a.set != a.own {
		from = OperandOutput
	}
	a.beside(-1, func(rank int) { s.send(rank, a.set, from) })
	a.beside(1, func(rank int) { s.copy(rank, Span(a.Set(rank))) })
}

// copyForeign receives the chunks of the set from their owners on other hosts.
func (s *Script) copyForeign(a *along) {
	a.beyond(1, func(host int) {
		a.foreign(host, func(owner int, chunk Span) { s.copy(owner, chunk) })
	})
}
