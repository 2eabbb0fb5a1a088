package collective

import "ringcli/collective/reduce"

// cut is how a vector is cut for a script. Groups follow one another through the
// script; within a group a move takes one or several pieces, each of which is a
// segment at most and travels in a slot of its own.
//
//	whole vector moves      group g is segment g of the vector, and one piece
//	chunks of one segment   one group; the chunks of a move are contiguous, and are
//	                        cut into segments
//	longer chunks           group g is segment g of each chunk, and a move has a
//	                        piece for each of its chunks
//
// All ranks cut alike. An empty move has one empty piece: it says that its rank
// has come so far.
type cut struct {
	count, ranks int // elements and chunks of the vector
	segment      int // elements
	groups       int
	whole        bool
	byChunk      bool // a piece for each chunk
}

func newCut(c *Call, ranks int, whole bool) cut {
	t := cut{count: c.Count, ranks: ranks, segment: c.Segment / c.Type.Size(), groups: 1, whole: whole}
	length := t.count
	if !whole {
		length = (t.count + ranks - 1) / ranks
		t.byChunk = length > t.segment
	}
	if whole || t.byChunk {
		t.groups = max(1, (length+t.segment-1)/t.segment)
	}
	return t
}

// start returns the first element of a chunk; of the chunk after the last, the
// number of elements.
func (t *cut) start(chunk int) int {
	lo, _ := reduce.Chunk(t.count, t.ranks, chunk)
	return lo
}

// pieces returns how many pieces the chunks [lo, hi) of a group have.
func (t *cut) pieces(lo, hi int) int {
	switch {
	case t.whole:
		return 1
	case t.byChunk:
		return hi - lo
	}
	return max(1, (t.start(hi)-t.start(lo)+t.segment-1)/t.segment)
}

// piece returns the elements [from, to) of a piece of the chunks [lo, hi) of a group.
func (t *cut) piece(lo, hi, group, piece int) (from, to int) {
	switch {
	case t.whole:
		from, to = group*t.segment, t.count
	case t.byChunk:
		from, to = reduce.Chunk(t.count, t.ranks, lo+piece)
		from = min(from+group*t.segment, to)
	default:
		from, to = t.start(lo)+piece*t.segment, t.start(hi)
	}
	return from, min(from+t.segment, to)
}

// room returns how many elements of a group the chunks of an area have at most.
func (t *cut) room(area span) int {
	switch {
	case t.whole:
		return t.segment
	case t.byChunk:
		return (area.hi - area.lo) * t.segment
	}
	return t.start(area.hi) - t.start(area.lo)
}

// offset returns where in an area, in elements, a piece of the chunks from lo on
// lies, whose first element is from.
func (t *cut) offset(area span, lo, piece, from int) int {
	switch {
	case t.whole:
		return 0
	case t.byChunk:
		return (lo + piece - area.lo) * t.segment
	}
	return from - t.start(area.lo)
}
