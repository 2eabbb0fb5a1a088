package sharedmem

import (
	"ringcli/collective/reduce"
)

// ReferBytes, for each peer, is from where on a mapped contribution is read in
// place. That takes a second trip of a line, after which its owner may change it,
// and a second turn of every rank where they outnumber CPUs, but spares writing
// lines that a peer has in its cache: 32 KiB on two ranks take 0.7 us and not 2.0,
// between far cores 1.1 and not 7.2. What is posted once is no other: 32 KiB on four ranks
// and two CPUs take 16 us and not 22.
const ReferBytes = 4 << 10

// ReferTurns is the same of the whole vector that each has for a reduce-scatter, where ranks
// take turns: of 16 KiB chunks that are written take a tenth to a fifth less, of 32 KiB a
// tenth more, and of 24 KiB as long, on 3 to 8 ranks and two CPUs.
const ReferTurns = 24 << 10

// Inbox performs a call by all-to-all exchange. Every rank writes what it
// contributes into an inbox in each peer's board, the whole vector for
// all-reduce, the peer's chunk for reduce-scatter, its own chunk for all-gather,
// and reduces what it finds in its own board in the order of ranks:
//
//	((x[0] op x[1]) op ...) op x[n-1]
//
// One trip of a cache line each way is all the latency there is, which is what
// small messages are made of. More than InboxPiece bytes go piece by piece. A
// contribution of some length that is mapped, and that the result does not
// overwrite, is not written into inboxes but read where it is.
func (t *Team) Inbox(c *Call) error {
	if err := t.begin(c, false); err != nil {
		return err
	}
	t.phase = phaseInbox
	if t.queues(c) {
		t.record(c, waitsAfter, (t.ranks-1)*c.count())
		return t.queue.run(c)
	}
	own := t.hi - t.lo
	if c.gathers() {
		own = c.count()
	}
	t.record(c, waitsAfter, (t.ranks-1)*own)
	t.refers, t.referred, t.posts = false, false, false
	var err error
	switch {
	case c.Phases == 0:
		t.parts = 1
		err = t.meet()
	case !c.reduces():
		err = t.inboxGather(c)
	case c.gathers():
		err = t.inboxReduce(c, 0, c.count(), c.count())
	default:
		err = t.inboxReduce(c, t.lo, t.hi, t.longest)
	}
	if err != nil || !t.refers && !t.referred {
		return err
	}
	return t.awaitReads(c)
}

// meet is a round of nothing.
func (t *Team) meet() error {
	parity := t.open()
	for _, p := range t.targets {
		t.put(p, parity, nil)
	}
	return t.gather(parity)
}

// gather waits for all peers.
func (t *Team) gather(parity uint32) error {
	for _, p := range t.others {
		if err := t.get(p, parity); err != nil {
			return err
		}
	}
	return nil
}

// cut divides contributions of up to longest elements into pieces, and decides
// whether the own ones are referred to. It returns the elements of a piece.
func (t *Team) cut(c *Call, longest int, overwritten bool) (elements int) {
	size := c.Type.Size()
	if elements, t.parts = longest, 1; longest*size > InboxPiece { // a division costs a short call something
		elements = InboxPiece / size
		t.parts = (longest + elements - 1) / elements
	}
	refers := longest*size >= ReferBytes*(t.ranks-1)
	if t.turns && c.scatters() {
		refers = c.count()*size >= ReferTurns
	}
	t.refers = refers && c.Send.Mapped && !overwritten && t.contributes(c)
	// What is the same for all most find in a cache that another rank has filled. On two CPUs
	// all-reduce of 4 KiB takes a quarter to two fifths less on 8 ranks, all-gather of 32 KiB
	// a sixth less on 4. Chunks of 4 KiB would take a tenth more, posted together on 4.
	t.posts = t.turns && c.gathers() && !t.refers
	return elements
}

// contributes tells whether the rank gives the others anything.
func (t *Team) contributes(c *Call) bool { return !c.Rooted || c.gathers() == (t.rank == int(c.Root)) }

// between asks stop now and then between pieces that need no waiting.
func (t *Team) between() error {
	if t.piece%busySteps != busySteps-1 {
		return nil
	}
	if err := t.wait.stopped(); err != nil {
		return t.fail(err)
	}
	return nil
}

// giveAll gives all peers the same.
func (t *Team) giveAll(parity uint32, payload []byte, key uint64) {
	if t.posts && len(payload) > linePayload {
		copy(t.peers[t.rank].postArea[parity], payload)
	}
	for _, p := range t.targets {
		t.give(p, parity, payload, key)
	}
}

// give writes or refers.
func (t *Team) give(p *peer, parity uint32, payload []byte, key uint64) {
	if t.refers && len(payload) > linePayload {
		t.refer(p, parity, payload, key)
	} else {
		t.put(p, parity, payload)
	}
}

// inboxReduce reduces the elements [lo, hi): all, or the own chunk, while each
// peer reduces its own. In a large team the whole vector is posted, of which each takes its part.
func (t *Team) inboxReduce(c *Call, lo, hi, longest int) error {
	size := c.Type.Size()
	kernel := reduce.Lookup(c.Type, c.Reduction)
	whole := c.gathers() || Posts(t.ranks)
	if whole {
		longest = c.count()
	}
	elements := t.cut(c, longest, c.Send.Addr == c.Recv.Addr)
	for t.piece = 0; t.piece < t.parts; t.piece++ {
		if err := t.between(); err != nil {
			return err
		}
		parity := t.open()
		first := t.piece * elements
		var from, end int // of what is given here
		if whole {
			from = min(first, c.count())
			end = min(from+elements, c.count())
			t.giveAll(parity, elems(c.Send.Addr, from, end, size), c.Send.Key)
		} else {
			for _, p := range t.targets {
				from = min(p.lo+first, p.hi)
				t.give(p, parity, elems(c.Send.Addr, from, min(from+elements, p.hi), size), c.Send.Key)
			}
			from = min(lo+first, hi)
			end = min(from+elements, hi)
		}
		if err := t.gather(parity); err != nil {
			return err
		}
		given, skip := (end-from)*size, 0
		if from < lo {
			skip = (min(lo, end) - from) * size
			from = min(lo, end)
		}
		end = max(from, min(end, hi))
		result := elems(c.Recv.Addr, from, end, size)
		if err := t.combine(kernel, result, elems(c.Send.Addr, from, end, size), parity, given, skip); err != nil {
			return err
		}
		reduce.Finish(c.Type, c.Reduction, t.ranks, result)
	}
	return nil
}

// combine reduces a piece in the order of ranks, of peers that gave so many bytes those after
// the ones to skip. Partial results are in scratch memory until the last step: in place,
// result is own.
func (t *Team) combine(kernel reduce.Kernel, result, own []byte, parity uint32, given, skip int) error {
	n := len(result)
	if n == 0 {
		return nil
	}
	var partial []byte
	for r := range t.peers {
		x, err := own, error(nil)
		if r != t.rank {
			if x, err = t.payload(&t.peers[r], parity, given); err != nil {
				return err
			}
			x = x[skip : skip+n]
		}
		if r == 0 {
			partial = x
			continue
		}
		to := result
		if r < t.ranks-1 {
			to = t.peers[t.rank].inArea[parity][:n:n]
		}
		kernel(to, partial, x)
		partial = to
	}
	return nil
}

func (t *Team) inboxGather(c *Call) error {
	size := c.Type.Size()
	// In place, the own chunk is all that the result does not overwrite.
	elements := t.cut(c, t.longest, false)
	for t.piece = 0; t.piece < t.parts; t.piece++ {
		if err := t.between(); err != nil {
			return err
		}
		parity := t.open()
		first := t.piece * elements
		from := min(t.lo+first, t.hi)
		end := min(from+elements, t.hi)
		own := elems(c.Send.Addr, from, end, size)
		t.giveAll(parity, own, c.Send.Key)
		if c.Send.Addr != c.Recv.Addr {
			copy(elems(c.Recv.Addr, from, end, size), own)
		}
		for _, p := range t.others {
			if err := t.get(p, parity); err != nil {
				return err
			}
			from := min(p.lo+first, p.hi)
			result := elems(c.Recv.Addr, from, min(from+elements, p.hi), size)
			data, err := t.payload(p, parity, len(result))
			if err != nil {
				return err
			}
			copy(result, data)
		}
	}
	return nil
}

// awaitReads ends a call in which somebody referred to memory: it says that the
// peers' was read, and waits until the peers have read the own.
func (t *Team) awaitReads(c *Call) error {
	t.phase = phaseRead
	if t.referred {
		t.own[readLine].store(uint64(t.round))
	}
	if !t.refers {
		return nil
	}
	for _, p := range t.others {
		if c.Rooted && c.reduces() && p.rank != int(c.Root) {
			continue // it reads nothing
		}
		for p.lines[readLine].load() != uint64(t.round) {
			if err := t.wait.step(); err != nil {
				return t.fail(err)
			}
		}
		t.wait.reset()
	}
	return nil
}
