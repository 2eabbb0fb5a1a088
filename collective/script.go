package collective

import "fmt"

// action is what a move does. All but send and the two of the own contribution
// take a message from the peer.
type action uint8

const (
	moveSend      action = iota // send a range to the peer
	moveReduce                  // receive a range and reduce it with what is here
	moveStore                   // receive a range to be reduced or sent on
	moveCopy                    // receive a range into the receive buffer
	moveReduceOwn               // reduce the own contribution to a range with the partial result
	moveOutput                  // copy a range of the partial result to the receive buffer
)

// operand is where a move finds an operand, or leaves what it makes.
type operand uint8

const (
	operandInput   operand = iota // the user's send buffer
	operandPartial                // the newest partial result, in memory of the Comm
	operandOutput                 // the user's receive buffer
)

// move is one thing that a rank does with the chunks [lo, hi).
type move struct {
	do     action
	peer   int // rank; of the two without a message the own
	lo, hi int
	from   operand // what is sent, or reduced with what comes
	to     operand // of a reduction: operandPartial or operandOutput
	last   bool    // of a reduction: its result is complete, but for the division of an average
	area   int     // of partial results, that it reads from
	into   int     // of partial results, that it writes to
	// For traces: a move that is no send is a step of a phase.
	gathers bool // it comes after all reductions
	step    int  // its number within the phase
}

// script is what a rank does in an operation between ranks that need not be
// neighbours, as a pure function of algorithm, operation, rank and size. It holds
// of every script that
//
//   - it is carried out in order: a send waits for all moves before it that are
//     no sends, and such a move for those before it; sends wait for sends.
//   - the chunks of a move are contiguous.
//   - there is at most one message from one rank to another, so that the segments
//     of an operation follow one another on an edge in the order of the segments.
//   - ranks never wait for each other in a circle, with a single slot on every
//     edge.
type script struct {
	rank, size int
	whole      bool // all moves are of all chunks, so that the vector need not be cut by chunks
	moves      []move
	areas      []span // of partial results; what was sent from is not written again
	sent       bool   // the newest area was sent from
}

// span is the chunks [lo, hi).
type span struct{ lo, hi int }

func (s *script) all() span { return span{0, s.size} }
func (s *script) own() span { return span{s.rank, s.rank + 1} }

// compile makes the script of a call. The memory of an old one is used
// again.
func (s *script) compile(k *Call, rank, size int) {
	*s = script{rank: rank, size: size, whole: k.Op.wholly(), moves: s.moves[:0], areas: s.areas[:0]}
	write, ok := operations[k.Op].scripts[k.Algorithm]
	if !ok {
		panic(fmt.Sprintf("no script of %s for %s", k.Algorithm, k.Op))
	}
	write(s)
	s.number()
}

// number gives the moves that are no sends their steps.
func (s *script) number() {
	last := -1 // reduction
	for i, m := range s.moves {
		if m.do == moveReduce || m.do == moveReduceOwn {
			last = i
		}
	}
	var steps [2]int
	for i := range s.moves {
		m := &s.moves[i]
		if m.do == moveSend {
			continue
		}
		phase := &steps[0]
		if m.gathers = i > last; m.gathers {
			phase = &steps[1]
		}
		m.step = *phase
		*phase++
	}
}

// peers adds the ranks that a script has to do with to a set.
func (s *script) peers(set map[int]bool) {
	for _, m := range s.moves {
		if m.peer != s.rank {
			set[m.peer] = true
		}
	}
}

func (s *script) send(peer int, r span, from operand) {
	m := move{do: moveSend, peer: peer, lo: r.lo, hi: r.hi, from: from}
	if from == operandPartial {
		m.area, s.sent = s.newest(), true
	}
	s.moves = append(s.moves, m)
}

// reduce receives a range and reduces it with the own contribution (operandInput)
// or the newest partial result, which has that range or more.
func (s *script) reduce(peer int, r span, from, to operand, last bool) {
	m := move{do: moveReduce, peer: peer, lo: r.lo, hi: r.hi, from: from, to: to, last: last}
	if from == operandPartial {
		m.area = s.newest()
	}
	s.result(&m)
}

// reduceOwn reduces the own contribution to the newest partial result.
func (s *script) reduceOwn(r span, to operand, last bool) {
	m := move{do: moveReduceOwn, peer: s.rank, lo: r.lo, hi: r.hi, from: operandPartial, to: to, last: last, area: s.newest()}
	s.result(&m)
}

// store receives what is to be reduced later, or is complete and to be sent on.
func (s *script) store(peer int, r span) {
	m := move{do: moveStore, peer: peer, lo: r.lo, hi: r.hi, to: operandPartial}
	s.result(&m)
}

// result gives a move that leaves a partial result its place: the newest area if
// it has what is needed and nothing is on its way from it, or else a new one.
func (s *script) result(m *move) {
	r := span{m.lo, m.hi}
	if m.to == operandPartial && (m.from != operandPartial || s.sent || s.areas[s.newest()] != r) {
		s.areas = append(s.areas, r)
		s.sent = false
	}
	m.into = s.newest()
	s.moves = append(s.moves, *m)
}

func (s *script) newest() int { return len(s.areas) - 1 }

// copy receives a result.
func (s *script) copy(peer int, r span) {
	s.moves = append(s.moves, move{do: moveCopy, peer: peer, lo: r.lo, hi: r.hi, to: operandOutput})
}

// output copies a complete part of the newest partial result to the user.
func (s *script) output(r span) {
	m := move{do: moveOutput, peer: s.rank, lo: r.lo, hi: r.hi, from: operandPartial, to: operandOutput, area: s.newest()}
	s.moves = append(s.moves, m)
}
