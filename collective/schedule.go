package collective

import "ringcli/collective/reduce"

// schedule lays a program's transfers out in one stream of positions.
//
// The segments of a chunk go round the ring in groups of up to depth: a group
// makes all its steps before the next group makes its first. So no rank holds
// more than a group of partial results, however long the chunk, and a group is
// still in the cache when it comes to be sent on. Within a group the order is
// step by step: a position depends on the one that came in a group's width
// before, and only the first step depends on nothing.
type schedule struct {
	ranks      int
	count      int // elements of the whole vector
	perSegment int // elements
	segments   int // of a chunk, 1 or more: an empty chunk has an empty segment
	depth      int // segments of a full group
	transfers  int // steps in which a segment moves from rank to rank
}

// positions returns the length of the stream, the same for all ranks.
func (s *schedule) positions() int { return s.transfers * s.segments }

// at returns which of the transfers a position is, of which segment, and the
// width of its group in segments.
func (s *schedule) at(position int) (transfer, segment, width int) {
	full := s.transfers * s.depth
	group, rest := position/full, position%full
	first := group * s.depth
	width = min(s.depth, s.segments-first)
	return rest / width, first + rest%width, width
}

// span returns the elements [lo, hi) of a segment of a chunk. All chunks have
// the same number of segments, so that a shorter chunk may end with an empty one.
func (s *schedule) span(chunk, segment int) (lo, hi int) {
	lo, hi = reduce.Chunk(s.count, s.ranks, chunk)
	lo = min(lo+segment*s.perSegment, hi)
	return lo, min(lo+s.perSegment, hi)
}

// schedule returns the layout of a program in which a segment moves so often.
func (c *Call) schedule(ranks, transfers int) schedule {
	s := schedule{
		ranks: ranks, count: c.Count, perSegment: c.Segment / c.Type.Size(),
		depth: c.Depth, transfers: transfers,
	}
	s.segments = max(1, (c.longest(ranks)+s.perSegment-1)/s.perSegment)
	return s
}

// longest is the length of the longest chunk, in elements.
func (c *Call) longest(ranks int) int { return (c.Count + ranks - 1) / ranks }
