package sharedmem

import (
	"fmt"

	"ringcli/collective/reduce"
	"ringcli/verbs/memory"
)

const (
	// queueDepth posts of a rank may wait for its readers, and queueBytes of payload that
	// does not fit their lines. So far a rank that gives and takes nothing goes ahead of the
	// others: where ranks outnumber CPUs a turn of them all is shared by as many operations.
	queueDepth, queueBytes = 64, 64 << 10
	// QueueMost is the longest vector of a call that has a root which goes through queues:
	// longer ones are read in place.
	QueueMost = 16 << 10
	// queueTold: a reader says how far it is once in so many calls, and a rank that waits for
	// room waits for that of queueRoom, since the line of such a counter then changes hands.
	queueTold, queueRoom = 4, queueDepth / 4
	// queueClaimed is how many calls before its own a line is fetched from those who have read
	// it. Nobody waits at it yet, unless all keep up with who posts. A broadcast of 8 bytes on
	// two ranks takes 0.09 us and not 0.10, and between far cores 0.16 and not 0.21.
	queueClaimed = 4
)

// Words of a post's line, beside the tag.
const (
	postWord = 1 + iota // of a payload of up to linePayload bytes
	postDigest
	postCount
	postRoot
)

// queue is the calls with a root whose vectors are short. Who contributes posts in its own
// board and returns: the root of a broadcast, and all but the root of a reduce. Who takes waits
// for that. Call i, of those, is in line i modulo queueDepth, and its payload follows that of
// the call before in queueBytes that are used again and again, on every rank, so that all know
// where it is. A rank writes over what all others are past: each tells how far it is.
//
// The lines hold what the ranks must agree on, since who has posted may be elsewhere already
// when somebody finds another tag than its own. Nobody looks for the post of a rank that alone
// takes itself for one that contributes: so who tells how far it is also tells what it has called
// up to there, in few bits, and who waits for room compares that.
type queue struct {
	t     *Team
	calls uint64 // so far
	// chain is what has been called so far, chains what had been after so many calls, modulo
	// queueDepth, and called the fold of each.
	chain  uint64
	chains [queueDepth]uint64
	called [queueDepth]uint32
	end    uint64 // of the payload of all of them, in bytes
	// first is the oldest call whose line and payload the present one leaves alone.
	first  uint64
	starts [queueDepth]uint64 // of their payload
	folds  [queueDepth]uint32 // in the own lines
	told   uint64             // of the own calls
	toldAt uint64             // their end
	from   *peer              // who contributes to the present call; nil is all others
	passed uint64             // all others are past so many calls, as far as is known
}

// queues tells whether a call goes through queues.
func (t *Team) queues(c *Call) bool {
	return c.Rooted && c.Phases != 0 && c.count()*c.Type.Size() <= QueueMost
}

// run performs such a call, in the order of operands of Inbox.
func (q *queue) run(c *Call) error {
	q.t.phase = phaseQueue
	n := c.count() * c.Type.Size()
	at := q.place(n)
	var err error
	if q.from = nil; !c.reduces() {
		q.from = &q.t.peers[c.Root]
	}
	switch own := q.t.rank == int(c.Root); {
	case q.t.contributes(c):
		send := memory.Bytes(c.Send.Addr, n)
		if err = q.post(c, at, send); err == nil && own && c.Send.Addr != c.Recv.Addr {
			copy(memory.Bytes(c.Recv.Addr, n), send)
		}
	case own:
		err = q.takeAll(c, at, n)
	default:
		if err = q.await(q.from); err == nil {
			copy(memory.Bytes(c.Recv.Addr, n), q.posted(q.from, at, n))
		}
	}
	if err != nil {
		return err
	}
	if q.pass(q.t.fold.value); q.calls-q.told >= queueTold || q.end-q.toldAt >= queueBytes/8 {
		q.told, q.toldAt = q.calls, q.end
		q.t.own[passedLine].store(passedWord(q.calls, q.chain))
	}
	return nil
}

// pass ends the present call.
func (q *queue) pass(fold uint32) {
	q.called[q.calls%queueDepth] = fold
	q.chain = (q.chain ^ uint64(fold)) * golden
	q.calls++
	q.chains[q.calls%queueDepth] = q.chain
}

// passedWord is what a rank tells that is past so many calls.
func passedWord(calls, chain uint64) uint64 { return calls<<chainBits | chain>>(64-chainBits) }

// chainBits of the chain go with the number of calls. What they miss once they find later, since
// a chain never meets another one again but by chance.
const chainBits = 16

// gives tells whether a peer contributes to the present call.
func (q *queue) gives(p *peer) bool { return q.from == nil || q.from == p }

// line is that of the present call in a rank's queue.
func (q *queue) line(p *peer) *line { return q.t.layout.queued(p.board, q.calls%queueDepth) }

// has tells whether a peer has posted for the present call.
func (q *queue) has(p *peer) bool { return q.line(p).load() == q.postTag() }

// place gives the payload of the present call, n bytes, its place among queueBytes.
func (q *queue) place(n int) (at uint64) {
	if n <= linePayload {
		n = 0
	}
	begin, room := q.end, uint64(n+63)/64*64
	if begin%queueBytes+room > queueBytes { // it is in one piece
		begin += queueBytes - begin%queueBytes
	}
	q.starts[q.calls%queueDepth], q.end = begin, begin+room
	if q.calls >= queueDepth {
		q.first = max(q.first, q.calls-queueDepth+1)
	}
	for q.first < q.calls && q.starts[q.first%queueDepth]+queueBytes < q.end {
		q.first++
	}
	return begin % queueBytes
}

// post contributes to the present call.
func (q *queue) post(c *Call, at uint64, payload []byte) error {
	if q.passed < q.first {
		if err := q.awaitRoom(); err != nil {
			return err
		}
	}
	l, slot := q.line(&q.t.peers[q.t.rank]), q.calls%queueDepth
	word := uint64(written)
	if n := len(payload); n > linePayload {
		copy(q.t.layout.payload(q.t.board, at, n), payload)
	} else {
		word = wordOf(payload)
	}
	if q.folds[slot] != q.t.fold.value || q.calls < queueDepth {
		q.folds[slot] = q.t.fold.value
		l[postDigest], l[postCount], l[postRoot] = c.Digest, c.Count, c.Root
	}
	l[postWord] = word // right before the tag: see put
	l.store(q.postTag())
	claim(&q.t.layout.queued(q.t.board, (q.calls+queueClaimed)%queueDepth)[0])
	return nil
}

// postTag is that of the present call. Lines of 0 are of none.
func (q *queue) postTag() uint64 { return (q.calls+1)<<32 | uint64(q.t.fold.value) }

// awaitRoom waits until the others are past what the present call writes over, and somewhat
// further: to there nobody waits for this rank.
func (q *queue) awaitRoom() error {
	q.t.phase = phaseRoom
	for _, p := range q.t.others {
		for q.lags(p) {
			if err := q.t.wait.step(); err != nil {
				return q.t.fail(err)
			}
		}
		q.t.wait.reset()
		if err := q.compare(p); err != nil {
			return err
		}
	}
	q.passed = q.wanted()
	return nil
}

// compare looks whether a peer that is not ahead has called what this rank has. If not, the
// peer has posted what nobody has looked for, or it looks for what this rank has not posted.
func (q *queue) compare(p *peer) error {
	word := p.lines[passedLine].load()
	past := word >> chainBits
	if past > q.calls || past+queueDepth <= q.calls || word == passedWord(past, q.chains[past%queueDepth]) {
		return nil
	}
	for call := max(q.calls, queueDepth) - queueDepth; call < past; call++ {
		l := q.t.layout.queued(p.board, call%queueDepth)
		if tag := l.load(); tag>>32 == (call+1)&(1<<32-1) && uint32(tag) != q.called[call%queueDepth] {
			return q.t.differs(p, l.posted())
		}
	}
	if theirs := p.calls(); theirs != q.t.fold.of {
		return q.t.differs(p, theirs)
	}
	q.t.err = fmt.Errorf("%s: rank %d has called something else than rank %d, before, in one of %d calls with a root", q.t.name, q.t.number(p.rank), q.t.number(q.t.rank), queueDepth)
	return q.t.err
}

// wanted is how many calls the others must be past. What a reader has not told is less than
// queueTold calls.
func (q *queue) wanted() uint64 {
	return max(q.first, min(max(q.calls, queueTold)-queueTold, q.first+queueRoom))
}

// lags tells whether a peer is not past them.
func (q *queue) lags(p *peer) bool { return p.lines[passedLine].load()>>chainBits < q.wanted() }

// await waits for a peer's post of the present call.
func (q *queue) await(p *peer) error {
	l, want := q.line(p), q.postTag()
	for {
		got := l.load()
		if got == want {
			break
		}
		if got>>32 == want>>32 {
			return q.t.differs(p, l.posted())
		}
		if err := q.t.wait.step(); err != nil {
			return q.t.fail(err)
		}
	}
	q.t.wait.reset()
	return nil
}

// posted is a peer's payload of the present call, n bytes.
func (q *queue) posted(p *peer, at uint64, n int) []byte {
	if n > linePayload {
		return q.t.layout.payload(p.board, at, n)
	}
	return memory.AsBytes(q.line(p)[postWord : postWord+1])[:n:n]
}

// takeAll reduces what the others have posted, at the root.
func (q *queue) takeAll(c *Call, at uint64, n int) error {
	kernel := reduce.Lookup(c.Type, c.Reduction)
	own, result := memory.Bytes(c.Send.Addr, n), memory.Bytes(c.Recv.Addr, n)
	// Partial results are in scratch memory until the last step: in place, result is own.
	scratch := q.t.peers[q.t.rank].inArea[0][:n:n]
	var partial []byte
	for r := range q.t.peers {
		x := own
		if p := &q.t.peers[r]; r != q.t.rank {
			if err := q.await(p); err != nil {
				return err
			}
			x = q.posted(p, at, n)
		}
		if r == 0 {
			partial = x
			continue
		}
		to := result
		if r < q.t.ranks-1 {
			to = scratch
		}
		if n > 0 {
			kernel(to, partial, x)
		}
		partial = to
	}
	reduce.Finish(c.Type, c.Reduction, q.t.ranks, result)
	return nil
}

// Ahead tells whether the last call let this rank go on without the others.
func (t *Team) Ahead() bool { return t.phase == phaseQueue || t.phase == phaseRoom }

func (l *line) posted() Signature {
	return Signature{Digest: l[postDigest], Count: l[postCount], Root: l[postRoot]}
}
