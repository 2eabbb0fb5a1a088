package sharedmem

import (
	"encoding/binary"
	"fmt"
	"strings"

	"ringcli/verbs/memory"
)

// In a round every rank gives every other one something and waits until it has
// something from each. Rank a writes into the inbox that it has in b's board: payload
// first, then the tag, which the round makes different from all before.
//
// Two sets of inboxes, by the round's parity, are enough, and no barrier ends a
// round. Rank a writes in round i+2 where it wrote in round i. Before that it
// completed round i+1, for which it had b's tag of i+1, and b wrote that after it
// had done with what came in round i. So a never overwrites what b still needs.
// So it is with what a posts in its own board, for all b.
// For the same reason what b finds in an inbox is of its round or of the one two
// before, if its peer keeps to the rules.

// open begins a round.
func (t *Team) open() (parity uint32) {
	t.round++
	t.tag = uint64(t.round)<<32 | uint64(t.fold.value)
	return t.round & 1
}

// put gives a peer its payload of the round: in the line, or in the area behind it, unless it
// is posted.
func (t *Team) put(p *peer, parity uint32, payload []byte) {
	word := uint64(written)
	switch {
	case len(payload) <= linePayload:
		word = wordOf(payload)
	case t.posts:
		word = posted
	default:
		copy(p.outArea[parity], payload)
	}
	// Right before the tag, so that no check for a nil pointer comes between, which would be
	// a load of the line: the rank would wait until it has it back from its peer.
	l := p.out[parity]
	l[1] = word
	l.store(t.tag)
}

// wordOf is a payload of up to linePayload bytes.
func wordOf(payload []byte) uint64 {
	switch len(payload) {
	case 8:
		return binary.NativeEndian.Uint64(payload)
	case 4:
		return uint64(binary.NativeEndian.Uint32(payload))
	}
	var word [linePayload]byte
	copy(word[:], payload)
	return binary.NativeEndian.Uint64(word[:])
}

// What the word of a line says about a payload that does not fit it.
const (
	written  = 0 // it is in the area
	referred = 1 // its address and its key are there
	posted   = 2 // it is in its owner's board
)

// refer gives a peer a reference to its payload, of more than linePayload bytes,
// which stays as it is until the peer has read it.
func (t *Team) refer(p *peer, parity uint32, payload []byte, key uint64) {
	area := p.outArea[parity]
	binary.NativeEndian.PutUint64(area, memory.Addr(payload))
	binary.NativeEndian.PutUint64(area[8:], key)
	l := p.out[parity]
	l[1] = referred
	l.store(t.tag)
}

// get waits for a peer's payload of the round.
func (t *Team) get(p *peer, parity uint32) error {
	l := p.in[parity]
	for {
		got := l.load()
		if got == t.tag {
			break
		}
		if uint32(got>>32) == t.round {
			return t.differs(p, p.calls())
		}
		if err := t.wait.step(); err != nil {
			return t.fail(err)
		}
	}
	t.wait.reset()
	return nil
}

// payload is what a peer gave in the round: n bytes.
func (t *Team) payload(p *peer, parity uint32, n int) ([]byte, error) {
	l, area := p.in[parity], p.inArea[parity]
	switch {
	case n <= linePayload:
		return memory.AsBytes(l[1:2])[:n:n], nil
	case l[1] == written:
		return area[:n:n], nil
	case l[1] == posted:
		return p.postArea[parity][:n:n], nil
	}
	t.referred = true
	addr, key := binary.NativeEndian.Uint64(area), binary.NativeEndian.Uint64(area[8:])
	local, err := t.find(p, key, addr, uint64(n))
	if err != nil {
		t.err = fmt.Errorf("%s: %w", t.name, err)
		return nil, t.err
	}
	return memory.Bytes(local, n), nil
}

// calls is what the peer calls at present, or has last.
func (p *peer) calls() Signature {
	l := p.lines[callLine]
	l.load()
	return Signature{Digest: l[callDigest], Count: l[callCount], Root: l[callRoot]}
}

// differs ends the call, which is another than a peer's.
func (t *Team) differs(p *peer, theirs Signature) error {
	e := &DisagreementError{Rank: t.number(t.rank), Peer: t.number(p.rank), Theirs: theirs}
	e.Epoch = e.Theirs == t.fold.of
	t.err = e
	return e
}

// fail ends the call, and the team, with an error that tells what was awaited.
func (t *Team) fail(err error) error {
	t.err = fmt.Errorf("%w (rank %d, %s)", err, t.number(t.rank), t.awaited())
	return t.err
}

// Awaits are the ranks that the present call waits for, as far as that can be told, in
// which phase and with which piece or step. It is for Config.Long.
func (t *Team) Awaits() (ranks []int, phase string, number int) {
	lags := func(*peer) bool { return false }
	switch number = t.piece; t.phase {
	case phaseInbox, phaseRefs:
		phase = "contributions"
		if t.phase == phaseRefs {
			phase = "where the buffers are"
		}
		lags = func(p *peer) bool { return p.in[t.round&1].load() != t.tag }
	case phaseRead:
		phase = "that the send buffer was read"
		lags = func(p *peer) bool { return p.lines[readLine].load() != uint64(t.round) }
	case phaseSteps:
		e := &t.pull
		phase, number = "the steps of their chunks", e.reduced
		lags = func(p *peer) bool {
			return e.sendSlots && e.staged < e.total && !e.mayStage(p) || e.reduced < e.total && !e.mayReduce(p) ||
				e.gathers && p.got < e.total && !e.mayTake(p)
		}
	case phaseQueue:
		phase = "contributions"
		lags = func(p *peer) bool { return t.queue.gives(p) && !t.queue.has(p) }
	case phaseRoom:
		phase = "that earlier contributions were read"
		lags = t.queue.lags
	case phaseFinish:
		phase, number = "that the buffers were read", t.pull.total
		lags = t.pull.needs
	}
	for _, p := range t.others {
		if lags(p) {
			ranks = append(ranks, p.rank)
		}
	}
	return ranks, phase, number
}

// named are the peers that an error speaks of: all of a small team, and of a large one the
// first that are awaited; awaited is how many are, or 0 where all are named.
func (t *Team) named() (ranks []int, awaited int) {
	if t.ranks > inboxRanks {
		ranks, _, _ = t.Awaits()
		return ranks[:min(len(ranks), inboxRanks)], len(ranks)
	}
	for r := range t.peers {
		if r != t.rank {
			ranks = append(ranks, r)
		}
	}
	return ranks, 0
}

// awaited says where the rank is in its call, what it has, and what from whom it
// has not.
func (t *Team) awaited() string {
	ranks, awaited := t.named()
	var b strings.Builder
	switch t.phase {
	case phaseInbox, phaseRefs:
		what := fmt.Sprintf("piece %d of %d", t.piece+1, t.parts)
		if t.phase == phaseRefs {
			what = "where the buffers are"
		}
		fmt.Fprintf(&b, "%s, %s (round %d):", t.name, what, t.round)
		for _, r := range ranks {
			switch tag := t.peers[r].in[t.round&1].load(); {
			case tag == t.tag:
				fmt.Fprintf(&b, " rank %d's had come;", t.number(r))
			case uint32(tag>>32) == t.round-2:
				fmt.Fprintf(&b, " awaited from rank %d;", t.number(r))
			default:
				fmt.Fprintf(&b, " awaited from rank %d, whose inbox has round %d;", t.number(r), tag>>32)
			}
		}
	case phaseRead:
		fmt.Fprintf(&b, "%s, round %d; awaited: that the others have read the send buffer;", t.name, t.round)
		for _, r := range ranks {
			fmt.Fprintf(&b, " rank %d has read round %d;", t.number(r), t.peers[r].lines[readLine].load())
		}
	case phaseQueue:
		fmt.Fprintf(&b, "%s, call %d of those with a root:", t.name, t.queue.calls+1)
		for _, r := range ranks {
			switch p := &t.peers[r]; {
			case !t.queue.gives(p):
			case t.queue.has(p):
				fmt.Fprintf(&b, " rank %d's had come;", t.number(r))
			default:
				fmt.Fprintf(&b, " awaited from rank %d;", t.number(r))
			}
		}
	case phaseRoom:
		fmt.Fprintf(&b, "%s, call %d of those with a root; awaited: that the others are past %d of them;", t.name, t.queue.calls+1, t.queue.first)
		for _, r := range ranks {
			fmt.Fprintf(&b, " rank %d is past %d;", t.number(r), t.peers[r].lines[passedLine].load()>>chainBits)
		}
	case phaseSteps, phaseFinish:
		t.pull.progress(&b, ranks)
	}
	if awaited > 0 {
		fmt.Fprintf(&b, " of %d other ranks %d are awaited", t.ranks-1, awaited)
	}
	return strings.TrimSuffix(b.String(), ";")
}
