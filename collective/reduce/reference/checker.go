package reference

import (
	"ringcli/collective/reduce"
	"ringcli/collective/topology"
)

// blockBytes is how much of the vector a Checker has in hand at a time: small
// enough for the first-level cache, large enough to hide the cost of a start.
const blockBytes = 8 << 10

// Checker makes the inputs of a reduction over n ranks and verifies results of
// any size with a bounded scratch. It allocates when it is made and when it
// reports an error. It is not safe for concurrent use.
type Checker struct {
	t     reduce.Type
	op    reduce.Op
	n     int
	count int
	seed  uint64
	order Order
	root  int // -1: there is none
	// Of HostsOrder: where the ranks are, and the owner of each chunk; nil: the rank of its number.
	hosts  *topology.Hosts
	owners []int

	// OnWrong, if set, is told of each wrong element that is there, and the bits.
	OnWrong func(element int, got, want uint64)

	// Ulps are how many units in the last place a float may be off: 0, but for what others have
	// averaged, who divide before they add.
	Ulps uint64

	want    []byte        // one block
	scratch [][]byte      // of evaluate, a block each
	results []*expression // by chunk in the ring's order, by its owner in that of hosts, else of all chunks
	from    int           // of the block that is computed
}

// Mismatch is one wrong element.
type Mismatch struct {
	Offset    int    // index of the element in the vector
	Got, Want string // value and bits
}

// NewChecker returns a Checker for vectors of count elements, reduced over n
// ranks (at least 1) in an order; an average is divided once at the end.
func NewChecker(order Order, t reduce.Type, op reduce.Op, n, count int, seed uint64) *Checker {
	return &Checker{
		t: t, op: op, n: n, count: count, seed: seed, order: order, root: -1, want: make([]byte, blockBytes),
		results: make([]*expression, n),
	}
}

// Rooted makes the operation one that has a root, whose chunk is the whole vector.
func (c *Checker) Rooted(root int) { c.root = root }

// Along says where the ranks are, for HostsOrder, and whether chunks are those of the ranks
// (of a reduce-scatter) or those of the owners in the hosts' order (of whole vectors).
func (c *Checker) Along(h *topology.Hosts, byRank bool) {
	c.hosts, c.owners = h, h.Order()
	if byRank {
		c.owners = nil
	}
}

// owner is the rank whose chunk that is.
func (c *Checker) owner(chunk int) int {
	if c.root >= 0 {
		return c.root
	}
	return chunk
}

// Fill writes rank's input, from element 0 for as many as buf holds.
func (c *Checker) Fill(rank int, buf []byte) { Fill(buf, c.t, c.op, rank, 0, c.seed) }

// Expect writes the elements [lo, hi) that the reduction must yield.
func (c *Checker) Expect(lo, hi int, dst []byte) {
	c.blocks(lo, hi, func(chunk, from, to int) {
		c.reduce(dst[(from-lo)*c.t.Size():(to-lo)*c.t.Size()], chunk, from)
	})
}

// Verify compares got with the elements [lo, hi) that the reduction must
// yield, bit for bit. It returns the number of wrong elements and the first;
// elements that got lacks are wrong.
func (c *Checker) Verify(lo, hi int, got []byte) (wrong int, first Mismatch) {
	return c.verify(lo, hi, got, c.reduce)
}

// VerifyGathered does the same for an all-gather or a broadcast: each chunk must be its
// owner's input.
func (c *Checker) VerifyGathered(lo, hi int, got []byte) (wrong int, first Mismatch) {
	return c.verify(lo, hi, got, func(dst []byte, chunk, from int) {
		Fill(dst, c.t, c.op, c.owner(chunk), from, c.seed)
	})
}

func (c *Checker) verify(lo, hi int, got []byte, expect func(dst []byte, chunk, from int)) (wrong int, first Mismatch) {
	size := c.t.Size()
	c.blocks(lo, hi, func(chunk, from, to int) {
		want := c.want[:(to-from)*size]
		expect(want, chunk, from)
		have := got[min((from-lo)*size, len(got)):min((to-lo)*size, len(got))]
		if c.Ulps > 0 {
			c.forgive(have, want)
		}
		bad, at := Compare(have, want, c.t)
		if bad > 0 && wrong == 0 {
			first = Mismatch{Offset: from + at, Got: "nothing", Want: Format(want[at*size:(at+1)*size], c.t)}
			if (at+1)*size <= len(have) {
				first.Got = Format(have[at*size:(at+1)*size], c.t)
			}
		}
		wrong += bad
		if bad > 0 && c.OnWrong != nil {
			for i := at * size; i+size <= len(have); i += size {
				if g, w := load(have[i:i+size]), load(want[i:i+size]); g != w {
					c.OnWrong(from+i/size, g, w)
				}
			}
		}
	})
	return wrong, first
}

// forgive takes what is no further off than Ulps for what is wanted. Floats of one sign count
// as their bits do.
func (c *Checker) forgive(have, want []byte) {
	size := c.t.Size()
	for i := 0; i+size <= len(have); i += size {
		if g, w := load(have[i:i+size]), load(want[i:i+size]); max(g, w)-min(g, w) <= c.Ulps {
			copy(want[i:i+size], have[i:i+size])
		}
	}
}

// blocks calls f for consecutive runs [from, to) of [lo, hi), each within one
// chunk and one block.
func (c *Checker) blocks(lo, hi int, f func(chunk, from, to int)) {
	most := blockBytes / c.t.Size()
	for chunk := range c.n {
		from, end := reduce.Chunk(c.count, c.n, chunk)
		end = min(end, hi)
		for from = max(from, lo); from < end; from += most {
			f(chunk, from, min(from+most, end))
		}
	}
}

// reduce computes the elements of chunk from index from on.
func (c *Checker) reduce(dst []byte, chunk, from int) {
	e := &c.results[0]
	switch c.order {
	case HostsOrder:
		if c.owners != nil {
			chunk = c.owners[chunk]
		}
		e = &c.results[chunk]
	case RingOrder:
		chunk = c.owner(chunk)
		e = &c.results[chunk]
	}
	switch {
	case *e != nil:
	case c.order == HostsOrder:
		*e = alongOf(c.hosts, chunk)
	default:
		if *e = expressionOf(c.order, c.n, chunk); c.root >= 0 {
			(*e).turn(c.order, c.n, c.root)
		}
	}
	c.from = from
	(*e).evaluate(dst, &c.scratch, 0, c.t, c.op, c)
	Finish(dst, c.t, c.op, c.n)
}

func (c *Checker) read(rank int, dst []byte) { Fill(dst, c.t, c.op, rank, c.from, c.seed) }
