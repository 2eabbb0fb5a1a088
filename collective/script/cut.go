package script

import "ringcli/collective/reduce"

// Cut is how a vector is cut for a script. Groups follow one another through the
// script; within a group a move takes one or several pieces, each of which is a
// segment at most and travels in a slot of its own.
//
//	whole vector moves      group g is segment g of the vector, and one piece
//	chunks of one segment   one group; the chunks of a move are contiguous, and are
//	                        cut into segments
//	longer chunks, and      group g is segment g of each chunk, and a move has a
//	those in another order  piece for each of its chunks
//
// All ranks cut alike. An empty move has one empty piece: it says that its rank
// has come so far.
type Cut struct {
	count, ranks int // elements and chunks of the vector
	segment      int // elements
	Groups       int
	whole        bool
	byChunk      bool // a piece for each chunk
	order        []int
}

// NewCut cuts a vector of count elements for so many ranks into segments of so many
// elements, for a script.
func NewCut(count, segment, ranks int, s *Script) Cut {
	t := Cut{count: count, ranks: ranks, segment: segment, Groups: 1, whole: s.Whole, order: s.Order}
	length, whole := t.count, s.Whole
	if !whole {
		length = (t.count + ranks - 1) / ranks
		t.byChunk = length > t.segment || s.Order != nil
	}
	if whole || t.byChunk {
		t.Groups = max(1, (length+t.segment-1)/t.segment)
	}
	return t
}

// Start returns the first element of a chunk; of the chunk after the last, the
// number of elements.
func (t *Cut) Start(chunk int) int {
	lo, _ := reduce.Chunk(t.count, t.ranks, chunk)
	return lo
}

// Pieces returns how many pieces the chunks [lo, hi) of a group have.
func (t *Cut) Pieces(lo, hi int) int {
	switch {
	case t.whole:
		return 1
	case t.byChunk:
		return hi - lo
	}
	return max(1, (t.Start(hi)-t.Start(lo)+t.segment-1)/t.segment)
}

// Piece returns the elements [from, to) of a piece of the chunks [lo, hi) of a group.
func (t *Cut) Piece(lo, hi, group, piece int) (from, to int) {
	switch {
	case t.whole:
		from, to = group*t.segment, t.count
	case t.byChunk:
		chunk := lo + piece
		if t.order != nil {
			chunk = t.order[chunk]
		}
		from, to = reduce.Chunk(t.count, t.ranks, chunk)
		from = min(from+group*t.segment, to)
	default:
		from, to = t.Start(lo)+piece*t.segment, t.Start(hi)
	}
	return from, min(from+t.segment, to)
}

// Room returns how many elements of a group the chunks of an area have at most.
func (t *Cut) Room(area Span) int {
	switch {
	case t.whole:
		return t.segment
	case t.byChunk:
		return (area.Hi - area.Lo) * t.segment
	}
	return t.Start(area.Hi) - t.Start(area.Lo)
}

// Offset returns where in an area, in elements, a piece of the chunks from lo on
// lies, whose first element is from.
func (t *Cut) Offset(area Span, lo, piece, from int) int {
	switch {
	case t.whole:
		return 0
	case t.byChunk:
		return (lo + piece - area.Lo) * t.segment
	}
	return from - t.Start(area.Lo)
}
