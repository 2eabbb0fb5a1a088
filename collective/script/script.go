// Package script is what a rank does, message by message, in operations between ranks that need
// not be neighbours: recursive doubling (doubling.go), a tree (tree.go), one hop (oneshot.go), or
// along the hosts (hierarchy.go). It knows no memory, no edges and no time; package exec
// plays it.
package script

import "ringcli/collective/topology"

// Action is what a move does. All but send and the two of the own contribution
// take a message from the peer.
type Action uint8

// The actions.
const (
	MoveSend      Action = iota // send a range to the peer
	MoveReduce                  // receive a range and reduce it with what is here
	MoveStore                   // receive a range to be reduced or sent on
	MoveCopy                    // receive a range into the receive buffer
	MoveReduceOwn               // reduce the own contribution to a range with the partial result
	MoveOutput                  // copy a range of the partial result to the receive buffer
)

// Operand is where a move finds an operand, or leaves what it makes.
type Operand uint8

// The operands.
const (
	OperandInput   Operand = iota // the user's send buffer
	OperandPartial                // the newest partial result, in memory of the Comm
	OperandOutput                 // the user's receive buffer
)

// Move is one thing that a rank does with the chunks [Lo, Hi).
type Move struct {
	Do     Action
	Peer   int // rank; of the two without a message the own
	Lo, Hi int
	From   Operand // what is sent, or reduced with what comes
	To     Operand // of a reduction: OperandPartial or OperandOutput
	Last   bool    // of a reduction: its result is complete, but for the division of an average
	Area   int     // of partial results, that it reads from
	Into   int     // of partial results, that it writes to
	// Where two messages go the same way between two ranks, the first is of lap 0 and the second
	// of lap 1, and other is the index of the other one's move here; -1 is none. See Walk.inTurn.
	lap, other int
	// For traces: a move that is no send is a step of a phase.
	Gathers bool // it comes after all reductions
	Step    int  // its number within the phase
}

// Script is what a rank does in an operation between ranks that need not be
// neighbours, as a pure function of algorithm, operation, rank and size. It holds
// of every script that
//
//   - it is carried out in order: a send waits for all moves before it that are
//     no sends, and such a move for those before it; sends wait for sends.
//   - the chunks of a move are contiguous.
//   - there is at most one message from one rank to another in each of up to two laps, so
//     that the segments of an operation follow one another on an edge in an order that both
//     ends know: that of the segments, or with two laps that of Walk.inTurn.
//   - ranks never wait for each other in a circle, with a single slot on every
//     edge.
type Script struct {
	// Between is set before Compile where the ranks of each host share memory: the script along hosts has no
	// moves within one. See hierarchy.go.
	Between bool

	Whole bool // all moves are of all chunks, so that the vector need not be cut by chunks
	Moves []Move
	Areas []Span // of partial results; what was sent from is not written again

	// Chunks are in this order in the script; nil is their own.
	Order []int

	rank, size int
}

// Span is the chunks [Lo, Hi).
type Span struct{ Lo, Hi int }

// Operations is an algorithm as one rank runs it: each method writes the rank's script of that operation.
type Operations interface {
	AllReduce()
	ReduceScatter()
	AllGather()
	Broadcast()
	Reduce()
	Barrier()
}

// Algorithm returns the operations of an algorithm, which write with w.
type Algorithm func(w *Writer) Operations

// Compile makes a rank's script of an operation by an algorithm; whole: its moves are all of the whole
// vector. hosts may be nil, but for Hierarchical. The memory of an old script is used again.
func (s *Script) Compile(by Algorithm, operation func(Operations), whole bool, root, rank, size int, hosts *topology.Hosts) {
	*s = Script{Between: s.Between, rank: rank, size: size, Whole: whole, Moves: s.Moves[:0], Areas: s.Areas[:0]}
	w := Writer{script: s, rank: rank, size: size, root: root, hosts: hosts}
	operation(by(&w))
	s.number()
	s.pair(w.lap)
}

// takes tells whether a move takes a message.
func (m *Move) takes() bool { return m.Do == MoveReduce || m.Do == MoveStore || m.Do == MoveCopy }

// pair finds the two messages that go the same way between two ranks, which only later laps have.
func (s *Script) pair(lap int) {
	for i := range s.Moves {
		s.Moves[i].other = -1
	}
	if lap == 0 {
		return
	}
	for i := range s.Moves {
		for j := range i {
			m, o := &s.Moves[i], &s.Moves[j]
			if m.lap != o.lap && m.Peer == o.Peer && (m.Do == MoveSend && o.Do == MoveSend || m.takes() && o.takes()) {
				m.other, o.other = j, i
			}
		}
	}
}

// number gives the moves that are no sends their steps.
func (s *Script) number() {
	last := -1 // reduction
	for i, m := range s.Moves {
		if m.Do == MoveReduce || m.Do == MoveReduceOwn {
			last = i
		}
	}
	var steps [2]int
	for i := range s.Moves {
		m := &s.Moves[i]
		if m.Do == MoveSend {
			continue
		}
		phase := &steps[0]
		if m.Gathers = i > last; m.Gathers {
			phase = &steps[1]
		}
		m.Step = *phase
		*phase++
	}
}

// Peers adds the ranks that a script has to do with to a set.
func (s *Script) Peers(set map[int]bool) {
	for _, m := range s.Moves {
		if m.Peer != s.rank {
			set[m.Peer] = true
		}
	}
}
