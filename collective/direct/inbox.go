package direct

import (
	"ringcli/collective/reduce"
)

// Inbox performs a call by all-to-all exchange. Every rank writes what it
// contributes into an inbox in each peer's board, the whole vector for
// all-reduce, the peer's chunk for reduce-scatter, its own chunk for all-gather,
// and reduces what it finds in its own board in the order of ranks:
//
//	((x[0] op x[1]) op ...) op x[n-1]
//
// One trip of a cache line each way is all the latency there is, which is what
// small messages are made of. More than InboxPiece bytes go piece by piece.
func (t *Team) Inbox(c *Call) error {
	if err := t.begin(c); err != nil {
		return err
	}
	t.phase = phaseInbox
	switch c.Op {
	case AllReduce:
		return t.inboxReduce(c, 0, c.Count, false)
	case ReduceScatter:
		return t.inboxReduce(c, t.lo, t.hi, true)
	case AllGather:
		return t.inboxGather(c)
	}
	t.parts = 1
	parity := t.open()
	return t.swap(parity)
}

// swap is an exchange of nothing but tags.
func (t *Team) swap(parity uint32) error {
	for k := 1; k < t.ranks; k++ {
		t.put(t.at(k), parity, nil)
	}
	return t.gather(parity)
}

// gather waits for all peers.
func (t *Team) gather(parity uint32) error {
	for k := 1; k < t.ranks; k++ {
		if err := t.get(t.at(k), parity); err != nil {
			return err
		}
	}
	return nil
}

// at returns the peer k ranks after the own one, so that ranks do not all begin
// with the same.
func (t *Team) at(k int) *peer {
	r := t.rank + k
	if r >= t.ranks {
		r -= t.ranks
	}
	return &t.peers[r]
}

// pieces returns how many rounds chunks of up to longest elements take, and the
// elements of a round.
func pieces(longest, size int) (rounds, elements int) {
	elements = InboxPiece / size
	return max(1, (longest+elements-1)/elements), elements
}

// inboxReduce reduces the elements [lo, hi), which are the same for all ranks or
// this rank's chunk.
func (t *Team) inboxReduce(c *Call, lo, hi int, scattered bool) error {
	size := c.Type.Size()
	kernel := reduce.Lookup(c.Type, c.Reduction)
	longest := hi - lo
	to := c.Recv.Addr // where element 0 would be
	if scattered {
		longest = t.longest
		to -= uint64(lo * size)
	}
	var elements int
	t.parts, elements = pieces(longest, size)
	for t.piece = 0; t.piece < t.parts; t.piece++ {
		parity := t.open()
		first := t.piece * elements
		for k := 1; k < t.ranks; k++ {
			p := t.at(k)
			from, end := lo, hi
			if scattered {
				from, end = p.lo, p.hi
			}
			from = min(from+first, end)
			t.put(p, parity, elems(c.Send.Addr, from, min(from+elements, end), size))
		}
		if err := t.gather(parity); err != nil {
			return err
		}
		from := min(lo+first, hi)
		end := min(from+elements, hi)
		own, result := elems(c.Send.Addr, from, end, size), elems(to, from, end, size)
		t.combine(kernel, result, own, parity)
		reduce.Finish(c.Type, c.Reduction, t.ranks, result)
	}
	return nil
}

// combine reduces a piece in the order of ranks. Partial results are in scratch
// memory until the last step: in place, result is own.
func (t *Team) combine(kernel reduce.Kernel, result, own []byte, parity uint32) {
	n := len(result)
	if n == 0 {
		return
	}
	contribution := func(r int) []byte {
		if r == t.rank {
			return own
		}
		return t.peers[r].payload(parity, n)
	}
	partial := contribution(0)
	for r := 1; r < t.ranks; r++ {
		to := result
		if r < t.ranks-1 {
			to = t.peers[t.rank].inArea[parity][:n:n]
		}
		kernel(to, partial, contribution(r))
		partial = to
	}
}

func (t *Team) inboxGather(c *Call) error {
	size := c.Type.Size()
	lo, hi := t.lo, t.hi
	var elements int
	t.parts, elements = pieces(t.longest, size)
	base := c.Send.Addr - uint64(lo*size)
	for t.piece = 0; t.piece < t.parts; t.piece++ {
		parity := t.open()
		first := t.piece * elements
		from := min(lo+first, hi)
		own := elems(base, from, min(from+elements, hi), size)
		for k := 1; k < t.ranks; k++ {
			t.put(t.at(k), parity, own)
		}
		copy(elems(c.Recv.Addr, from, min(from+elements, hi), size), own)
		for k := 1; k < t.ranks; k++ {
			p := t.at(k)
			if err := t.get(p, parity); err != nil {
				return err
			}
			from := min(p.lo+first, p.hi)
			end := min(from+elements, p.hi)
			copy(elems(c.Recv.Addr, from, end, size), p.payload(parity, (end-from)*size))
		}
	}
	return nil
}
