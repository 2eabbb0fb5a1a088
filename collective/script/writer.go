package script

import "ringcli/collective/topology"

// Writer appends moves to the script of one rank. The algorithms write with it.
type Writer struct {
	script     *Script
	rank, size int
	root       int // of an operation that has one
	hosts      *topology.Hosts
	sent       bool // the newest area was sent from
	lap        int  // of the next moves
}

func (w *Writer) all() Span { return Span{0, w.size} }
func (w *Writer) own() Span { return Span{w.rank, w.rank + 1} }

func (w *Writer) send(peer int, r Span, from Operand) {
	m := Move{Do: MoveSend, Peer: peer, Lo: r.Lo, Hi: r.Hi, From: from, lap: w.lap}
	if from == OperandPartial {
		m.Area, w.sent = w.newest(), true
	}
	w.script.Moves = append(w.script.Moves, m)
}

// reduce receives a range and reduces it with the own contribution (OperandInput)
// or the newest partial result, which has that range or more.
func (w *Writer) reduce(peer int, r Span, from, to Operand, last bool) {
	m := Move{Do: MoveReduce, Peer: peer, Lo: r.Lo, Hi: r.Hi, From: from, To: to, Last: last}
	if from == OperandPartial {
		m.Area = w.newest()
	}
	w.result(&m)
}

// reduceOwn reduces the own contribution to the newest partial result.
func (w *Writer) reduceOwn(r Span, to Operand, last bool) {
	m := Move{Do: MoveReduceOwn, Peer: w.rank, Lo: r.Lo, Hi: r.Hi, From: OperandPartial, To: to, Last: last, Area: w.newest()}
	w.result(&m)
}

// store receives what is to be reduced later, or is complete and to be sent on.
func (w *Writer) store(peer int, r Span) {
	m := Move{Do: MoveStore, Peer: peer, Lo: r.Lo, Hi: r.Hi, To: OperandPartial}
	w.result(&m)
}

// result gives a move that leaves a partial result its place: the newest area if
// it has what is needed and nothing is on its way from it, or else a new one.
func (w *Writer) result(m *Move) {
	r := Span{m.Lo, m.Hi}
	if m.To == OperandPartial && (m.From != OperandPartial || w.sent || w.script.Areas[w.newest()] != r) {
		w.script.Areas = append(w.script.Areas, r)
		w.sent = false
	}
	w.resultIn(m)
}

// resultIn gives a move that leaves a partial result its place in the newest area, which has
// what is needed.
func (w *Writer) resultIn(m *Move) {
	m.Into, m.lap = w.newest(), w.lap
	w.script.Moves = append(w.script.Moves, *m)
}

func (w *Writer) newest() int { return len(w.script.Areas) - 1 }

// copy receives a result.
func (w *Writer) copy(peer int, r Span) {
	w.script.Moves = append(w.script.Moves, Move{Do: MoveCopy, Peer: peer, Lo: r.Lo, Hi: r.Hi, To: OperandOutput, lap: w.lap})
}

// output copies a complete part of the newest partial result to the user.
func (w *Writer) output(r Span) {
	m := Move{Do: MoveOutput, Peer: w.rank, Lo: r.Lo, Hi: r.Hi, From: OperandPartial, To: OperandOutput, Area: w.newest()}
	w.script.Moves = append(w.script.Moves, m)
}
