package program

import "ringcli/collective/reduce"

// Schedule lays a program's transfers out in one stream of positions.
//
// The segments of a chunk go round the ring in groups of up to depth: a group
// makes all its steps before the next group makes its first. So no rank holds
// more than a group of partial results, however long the chunk, and a group is
// still in the cache when it comes to be sent on. Within a group the order is
// step by step: a position depends on the one that came in a group's width
// before, and only the first step depends on nothing.
type Schedule struct {
	Ranks      int
	Count      int // elements of the whole vector
	PerSegment int // elements
	Segments   int // of a chunk, 1 or more: an empty chunk has an empty segment
	Depth      int // segments of a full group
	Transfers  int // steps in which a segment moves from rank to rank
}

// Positions returns the length of the stream, the same for all ranks.
func (s *Schedule) Positions() int { return s.Transfers * s.Segments }

// At returns which of the transfers a position is, of which segment, and the
// width of its group in segments.
func (s *Schedule) At(position int) (transfer, segment, width int) {
	full := s.Transfers * s.Depth
	group, rest := position/full, position%full
	first := group * s.Depth
	width = min(s.Depth, s.Segments-first)
	return rest / width, first + rest%width, width
}

// Span returns the elements [lo, hi) of a segment of a chunk. All chunks have
// the same number of segments, so that a shorter chunk may end with an empty one.
func (s *Schedule) Span(chunk, segment int) (lo, hi int) {
	lo, hi = reduce.Chunk(s.Count, s.Ranks, chunk)
	lo = min(lo+segment*s.PerSegment, hi)
	return lo, min(lo+s.PerSegment, hi)
}
