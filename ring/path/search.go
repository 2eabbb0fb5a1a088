package path

import "slices"

// Search narrows down the longest packet that passes.
type Search struct {
	Best  int   // the longest that has passed; 0: none
	above int   // the shortest that has not, once something has passed
	first []int // to try at first
	again []int // what did not come, to try once more
}

// parts is into how many a step divides what is left: as far as 4 steps of bisection, since
// what takes long is the wait for what does not come.
const parts = 16

// NewSearch looks between two sizes, and tries them first, with some that are likely.
func NewSearch(least, most int, likely ...int) Search {
	first := append([]int{least, most}, likely...)
	slices.Sort(first)
	return Search{above: most + 1, first: slices.DeleteFunc(slices.Compact(first), func(n int) bool { return n < least || n > most })}
}

// Next is what to try; none: it is known.
func (s *Search) Next() (sizes []int) {
	if s.again != nil {
		return s.again
	}
	if s.first != nil {
		return s.first
	}
	gap := s.above - s.Best
	if s.Best == 0 || gap <= 1 {
		return nil
	}
	for i := 1; i < parts && i < gap; i++ {
		sizes = append(sizes, s.Best+max(i, gap*i/parts))
	}
	return slices.Compact(sizes)
}

// Took takes which of those that Next gave came, in any order. What did not come is tried once more
// before it is taken for too long: a receiver without a CPU misses all of a step.
func (s *Search) Took(came []int) {
	tried, last := s.Next(), s.again != nil
	s.first, s.again = nil, nil
	s.Best = slices.Max(append([]int{s.Best}, came...))
	for _, n := range tried {
		switch {
		case n <= s.Best: // it came, or was lost, since a longer one came
		case last:
			s.above = min(s.above, n)
		default:
			s.again = append(s.again, n)
		}
	}
}
