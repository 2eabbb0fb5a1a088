package plan

// Within returns the rank within which an element went wrong that is wrong at some ranks,
// where nothing changed between ranks; -1 if that cannot be told. A result that goes from
// the rank that completes it to the others is wrong at all that it went through later.
func (c *Call) Within(ranks, element int, wrong func(rank int) bool) int {
	only := -1
	for rank := range ranks {
		if wrong(rank) {
			if only >= 0 {
				only = -1
				break
			}
			only = rank
		}
	}
	if c.Algorithm != AlgorithmRing {
		return only
	}
	for reduces := range ranks {
		if r := ownChunk.of(c, ranks, reduces); element < r.Lo || element >= r.Hi {
			continue
		}
		owner := reduces
		if c.Op.Rooted() {
			owner = c.Root
		}
		if wrong(owner) && c.Op.Reduces() {
			if c.Protocol == Direct {
				return reduces // it alone
			}
			return -1 // one of those that its partial results went through
		}
		for k := range ranks {
			if rank := (owner + k) % ranks; wrong(rank) {
				return rank
			}
		}
	}
	return only
}
