package script

// MaxDepth is the most groups that are on their way at a time.
const MaxDepth = 16

// Walk is how far a rank has come in a script, and what it may do next. Up to depth groups of
// segments are on their way through the script at a time. None gets ahead of the one before
// it, neither in what it posts nor in what it works, so that the messages on an edge are in
// the order of the groups at both ends. It knows no memory, no edges and no time, so that a
// simulation walks as ranks do.
type Walk struct {
	Cut
	Moves   []Move
	Depth   int
	inPlace bool
	First   int // groups before it are through
	window  [MaxDepth]Group
}

// Group is how far a group of segments has come.
type Group struct {
	Posting, Posted int // the move to be posted next, and how many pieces of it are
	Working, Worked int // the move to be worked next, and how many pieces of it are
	Flying          int // WRITEs without completion
}

// SetOut begins a script with a vector of count elements in segments of so many.
func (w *Walk) SetOut(s *Script, count, segment, depth int, inPlace bool) {
	*w = Walk{Cut: NewCut(count, segment, s.size, s), Moves: s.Moves, Depth: depth, inPlace: inPlace}
}

// Group is how far a group that is on its way has come.
func (w *Walk) Group(g int) *Group { return &w.window[g%w.Depth] }

// End is the group after those that are on their way.
func (w *Walk) End() int { return min(w.First+w.Depth, w.Groups) }

// Made tells whether all moves of all groups are posted or worked.
func (w *Walk) Made() bool {
	last := w.Groups - 1
	if w.First > last {
		return true
	}
	q := w.Group(last)
	return last < w.First+w.Depth && q.Posting == len(w.Moves) && q.Working == len(w.Moves)
}

// MayPost returns the move that a group is to post a piece of, nil if it may not yet.
func (w *Walk) MayPost(g int) *Move {
	q := w.Group(g)
	for q.Posting < len(w.Moves) && (g == w.First || w.Group(g-1).Posting > q.Posting) {
		m := &w.Moves[q.Posting]
		if m.Do == MoveSend {
			if !w.inTurn(g, m, func(q *Group) int { return q.Posting }) {
				return nil
			}
			return m
		}
		if q.Working <= q.Posting {
			return nil
		}
		q.Posting++
	}
	return nil
}

// inTurn tells whether a group may make a move, by how far groups have come in what is posted or
// in what is worked. It may if it is the only one of its group's messages that goes this way
// between the two ranks. Of two, the second of group g goes after the first of group g+k and
// before that of group g+k+1, so that k+1 groups are on their way between the two: one order, to
// which both ends keep. No rank waits for another in a circle, since what waits is always of a
// later lap g, or g+k+1/2 of the second, than what it waits for.
func (w *Walk) inTurn(g int, m *Move, come func(*Group) int) bool {
	if m.other < 0 {
		return true
	}
	k := (w.Depth - 1) / 2
	if m.lap == 0 {
		before := g - k - 1
		return before < w.First || come(w.Group(before)) > m.other
	}
	after := min(g+k, w.Groups-1)
	return after < w.End() && come(w.Group(after)) > m.other
}

// PostedPiece notes that a piece of the move of MayPost was posted.
func (w *Walk) PostedPiece(g int) {
	q := w.Group(g)
	m := &w.Moves[q.Posting]
	if q.Posted++; q.Posted == w.Pieces(m.Lo, m.Hi) {
		q.Posting++
		q.Posted = 0
	}
}

// MayWork returns the move that a group is to work a piece of, once its message is there; nil
// if it may not yet. What this rank is still sending is neither overwritten, nor, at depth 1,
// overlapped with.
func (w *Walk) MayWork(g int) *Move {
	q := w.Group(g)
	w.skipSends(q)
	if q.Working == len(w.Moves) || g > w.First && w.Group(g-1).Working <= q.Working {
		return nil
	}
	m := &w.Moves[q.Working]
	if !w.inTurn(g, m, func(q *Group) int { return q.Working }) {
		return nil
	}
	reduces := m.Do == MoveReduce || m.Do == MoveReduceOwn
	overwrites := m.To == OperandOutput && w.inPlace
	if reduces && (overwrites && q.Posting < q.Working || (overwrites || w.Depth == 1) && q.Flying > 0) {
		return nil // at depth 1 what waits for a slot need not be sent first: the peer may wait for one, too
	}
	return m
}

// WorkedPiece notes that a piece of the move of MayWork was worked, and tells whether it was
// the last.
func (w *Walk) WorkedPiece(g int) (last bool) {
	q := w.Group(g)
	m := &w.Moves[q.Working]
	if q.Worked++; q.Worked < w.Pieces(m.Lo, m.Hi) {
		return false
	}
	q.Working++
	q.Worked = 0
	return true
}

func (w *Walk) skipSends(q *Group) {
	for q.Working < len(w.Moves) && w.Moves[q.Working].Do == MoveSend {
		q.Working++
	}
}

// Leave leaves the groups that are through. Posting follows over what was worked, so that it
// need not be asked again.
func (w *Walk) Leave() {
	for w.First < w.Groups {
		q := w.Group(w.First)
		w.skipSends(q)
		for q.Posting < q.Working && w.Moves[q.Posting].Do != MoveSend {
			q.Posting++
		}
		if q.Posting < len(w.Moves) || q.Working < len(w.Moves) || q.Flying > 0 {
			return
		}
		*q = Group{}
		w.First++
	}
}
