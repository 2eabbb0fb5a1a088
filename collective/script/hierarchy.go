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

// along is the algorithm along the hosts, with a rank's place in it.
type along struct {
	*Writer
	*topology.Hosts
	host, place int
	here        []int // the ranks of the host that messages go to, and this one
	set         Span
	chunk       Span // of it, which this rank owns
}

// Hierarchical is the algorithm along the hosts.
func Hierarchical(w *Writer) Operations {
	h := w.hosts
	w.script.Whole = false
	a := &along{Writer: w, Hosts: h, host: h.Host(w.rank), place: h.Place(w.rank), here: h.On(w.rank), set: Span(h.Set(w.rank))}
	if w.script.Between {
		a.here, a.place = []int{w.rank}, 0
	}
	a.chunk = a.at(w.rank)
	return a
}

// byRank makes chunks those of the ranks.
func (a *along) byRank() {
	if !a.Ordered() {
		a.script.Order = a.Order()
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

func (a *along) AllReduce() {
	a.reduceSets(OperandOutput, a.chunk)
	a.lap = 1
	a.gatherSets(OperandOutput)
}

func (a *along) ReduceScatter() {
	a.byRank()
	a.reduceSets(OperandOutput, a.chunk)
}

func (a *along) AllGather() {
	a.byRank()
	a.gatherSets(OperandInput)
}

// Barrier is an all-gather of nothing, in which the order of chunks does not matter.
func (a *along) Barrier() { a.gatherSets(OperandInput) }

func (a *along) Broadcast() {
	from := OperandOutput
	root, first := a.rank == a.root, a.Host(a.root)
	if root {
		from = OperandInput
		a.beside(-1, func(rank int) { a.send(rank, Span(a.Set(rank)), from) })
	} else if a.host == first && !a.script.Between {
		a.copy(a.root, a.set)
	}
	if a.host == first {
		a.beyond(-1, func(host int) {
			a.foreign(host, func(owner int, chunk Span) { a.send(owner, chunk, from) })
		})
	} else {
		a.copy(a.Counterpart(a.rank, first), a.chunk)
	}
	a.lap = 1
	a.beyond(-1, func(host int) {
		if host != first {
			a.send(a.Counterpart(a.rank, host), a.chunk, from)
		}
	})
	if a.host != first {
		a.copyForeign()
	}
	a.beside(-1, func(rank int) {
		if rank != a.root {
			a.send(rank, a.set, from)
		}
	})
	if !root {
		a.beside(1, func(rank int) { a.copy(rank, Span(a.Set(rank))) })
	}
}

func (a *along) Reduce() {
	last := a.Host(a.root)
	switch {
	case a.rank == a.root || a.script.Between && a.host == last:
		a.reduceSets(OperandOutput, a.chunk)
		a.lap = 1
		a.copyForeign()
		a.beside(1, func(rank int) { a.copy(rank, Span(a.Set(rank))) })
	case a.host == last:
		a.reduceSets(OperandPartial, a.set)
		a.lap = 1
		a.beyond(1, func(host int) {
			a.foreign(host, func(owner int, chunk Span) {
				m := Move{Do: MoveStore, Peer: owner, Lo: chunk.Lo, Hi: chunk.Hi, To: OperandPartial}
				a.resultIn(&m)
			})
		})
		a.send(a.root, a.set, OperandPartial)
	default:
		a.reduceSets(OperandPartial, a.chunk)
		a.lap = 1
		a.send(a.Counterpart(a.rank, last), a.chunk, OperandPartial)
	}
}

// reduceSets reduces the set in the host and the own chunk between the hosts, whose result is
// left in the receive buffer or in a new area of partial results.
func (a *along) reduceSets(to Operand, area Span) {
	left, from := len(a.here)+a.Number()-2, OperandInput
	reduce := func(peer int, r Span) {
		if left--; left == 0 {
			m := Move{Do: MoveReduce, Peer: peer, Lo: r.Lo, Hi: r.Hi, From: from, To: to, Last: true}
			if from == OperandPartial {
				m.Area = a.newest()
			}
			if to == OperandPartial {
				a.script.Areas, a.sent = append(a.script.Areas, area), false
			}
			a.resultIn(&m)
			return
		}
		a.reduce(peer, r, from, OperandPartial, false)
		from = OperandPartial
	}
	a.beside(-1, func(rank int) { a.send(rank, Span(a.Set(rank)), OperandInput) })
	a.beside(1, func(rank int) { reduce(rank, a.set) })
	a.beyond(-1, func(host int) {
		a.foreign(host, func(owner int, chunk Span) { a.send(owner, chunk, from) })
	})
	a.beyond(1, func(host int) { reduce(a.Counterpart(a.rank, host), a.chunk) })
}

// gatherSets gathers the set between the hosts, and all sets in the host.
func (a *along) gatherSets(from Operand) {
	a.beyond(-1, func(host int) { a.send(a.Counterpart(a.rank, host), a.chunk, from) })
	a.copyForeign()
	if a.set != a.chunk {
		from = OperandOutput
	}
	a.beside(-1, func(rank int) { a.send(rank, a.set, from) })
	a.beside(1, func(rank int) { a.copy(rank, Span(a.Set(rank))) })
}

// copyForeign receives the chunks of the set from their owners on other hosts.
func (a *along) copyForeign() {
	a.beyond(1, func(host int) {
		a.foreign(host, func(owner int, chunk Span) { a.copy(owner, chunk) })
	})
}
