package sharedmem

import (
	"fmt"
	"time"

	"ringcli/collective/lateness"
	"ringcli/collective/reduce"
	"ringcli/verbs/cpu"
	"ringcli/verbs/memory"
)

// Config makes a Team.
type Config struct {
	// Rank is the own one of Size ranks, MinRanks to MaxRanks.
	Rank, Size int
	// Numbers are what errors call the ranks, where a team is some of those who compute together;
	// nil: by their rank.
	Numbers []int
	// Epoch must be the same on all ranks; calls of different epochs disagree.
	Epoch uint64
	// Boards are the local addresses of the ranks' boards, the own one included:
	// BoardSize(Size) bytes each, zeroed, at the start of a page, and writable.
	Boards []uint64
	// Map returns where length bytes at a peer's address addr lie in this process,
	// of a Buffer that the peer said is mapped, by its key. The view must hold until
	// the peer gives the key up, and while a call is on. An error, for bytes that are
	// not the peer's to give, ends the call. What it returned is remembered: it is
	// not asked in every call.
	Map func(peer int, key, addr, length uint64) (local uint64, err error)
	// Stop is asked every few microseconds of a wait; its error ends the call. It
	// may be nil.
	Stop func() error
	// Long is called many times while a wait lasts long; its error ends the call. It may be
	// nil.
	Long func(since time.Time) error
	// Timeout, asked at each look at the clock, ends a wait without progress; nil is never.
	Timeout func() time.Duration
	// Gosched: a wait yields to other goroutines, and not to other processes: for several
	// ranks in one process, where sched_yield would hold up the goroutines that are to
	// make progress.
	Gosched bool
	// Crowded: the ranks outnumber the CPUs that they run on. It is the same on all ranks.
	Crowded bool
	// Affinity is where the thread comes back to while it waits; it may be nil.
	Affinity *cpu.Affinity
	// Lateness counts waits; nil is not to.
	Lateness *lateness.Counter
}

// Phases are what a call does with the vector. None is a barrier.
type Phases uint8

const (
	Reduce Phases = 1 << iota // every rank gets its chunk reduced
	Gather                    // every rank gets the chunks of all

	phaseSets = int(Reduce|Gather) + 1
)

// Signature stands for all that the ranks must agree on. But for Count, only the
// caller knows what it means.
type Signature struct {
	Digest uint64
	Count  uint64 // elements of the whole vector
	Root   uint64
}

// Buffer is memory of the caller.
type Buffer struct {
	Addr uint64
	// Mapped: peers can map all of the buffer, and know its region by Key, which is
	// given to no other region of this rank, ever: an rkey, which is used again,
	// needs a serial number above it. What peers need of a buffer that is not mapped
	// is copied into the board.
	Mapped bool
	Key    uint64
}

// Run is the elements [Lo, Hi) of a vector.
type Run struct{ Lo, Hi int }

// Call is one collective operation. Team keeps nothing of it.
type Call struct {
	Name      string // of the operation, for errors
	Phases    Phases
	Type      reduce.Type
	Reduction reduce.Op // with Reduce
	// Rooted: the chunk of rank Root is the whole vector, and the others have none. For
	// Reduce Pull has the ranks reduce a chunk each all the same, for the root.
	Rooted bool
	// Signature has the number of elements, and the root, and tells the engines apart. Rank r owns the chunk
	// reduce.Chunk(Count, Size, r), unless the call is Rooted or has Sets.
	Signature
	// Sets are for Pull what the ranks own in place of chunks, by rank: none, one or several runs
	// of the vector, of about one length, all between the first and the last in the rank's
	// buffers. Then the order of operands begins at the owner.
	Sets [][]Run
	// Gives: with Gather alone, this rank takes nothing from the others.
	Gives bool
	// More: another Pull follows at all ranks, and Send is left alone until that returns. So this
	// one does not wait until the others have read it.
	More bool
	// Send and Recv hold the whole vector, but Recv without Gather and Send without
	// Reduce the own chunk only. Their addresses are those of element 0, whether that is
	// in the buffer or not. They are equal (in place), or the buffers have no byte in
	// common.
	Send, Recv Buffer
}

func (c *Call) reduces() bool { return c.Phases&Reduce != 0 }
func (c *Call) gathers() bool { return c.Phases&Gather != 0 }

// scatters: each has something else for each.
func (c *Call) scatters() bool { return c.Phases == Reduce && !c.Rooted }

// count is the number of elements.
func (c *Call) count() int { return int(c.Count) }

// Team is one rank's end of a group of ranks that compute together. It belongs
// to one goroutine. After an error it is of no more use, since nobody knows how
// far the others came: make another one, on fresh boards.
type Team struct {
	rank, ranks int
	numbers     []int // see Config
	epoch       uint64
	layout      layout
	mapped      func(peer int, key, addr, length uint64) (uint64, error)
	board       uint64
	peers       []peer  // by rank; the own one's inbox is scratch memory
	others      []*peer // from the next rank on, so that ranks do not all begin with the same
	targets     []*peer // where to write in a round: for the others, or beyond inboxRanks once for all
	turns       bool    // the ranks take turns on the CPUs, and have inboxes
	wait        waiter
	err         error

	// The own chunk of the present call, in elements, and the length of the longest run; how many
	// runs a rank has at most, and whether they are Sets.
	lo, hi, longest, most int
	sets                  bool

	// round counts the rounds, and tag is the present one's: round in the upper
	// half, the fold of the call in the lower.
	round uint32
	tag   uint64
	fold  struct {
		of    Signature
		value uint32
		known bool
	}

	// The lines of the own board that peers only read.
	own [ownLines]*line

	made time.Time
	// choosers are used by rank 0 alone, unless a test fixes the stores.
	choosers choosers
	fixed    bool

	state // of the present call
	pull  puller
	queue queue
}

// peer is what a rank has of another one.
type peer struct {
	rank int
	// By parity of the round: where it writes, and where we write to it.
	in, out         [2]*line
	inArea, outArea [2][]byte
	postArea        [2][]byte // where it posts
	board           uint64
	lines           [ownLines]*line // of its board

	// Its chunk of the present call: the runs, and from the first to the last of them.
	runs   []Run
	lo, hi int
	one    [1]Run // runs, without Sets

	view  // of the present Pull
	views views
}

// state is what errors tell of the present call.
type state struct {
	name  string // of the call's operation
	phase phase
	piece int // of inbox, from 0
	parts int // pieces or steps of the call
	// refers: the own contributions to inboxes are read in place; referred: a
	// peer's were.
	refers, referred bool
	// posts: the own ones are written once, in the own board, and not into each inbox.
	posts bool
}

// phase is what a rank waits in.
type phase uint8

const (
	phaseInbox  phase = iota // contributions
	phaseRefs                // where the peers' buffers are
	phaseSteps               // chunks reduced and pulled
	phaseFinish              // the peers, which read the own buffers
	phaseRead                // the same of an inbox call
	phaseQueue               // what is posted
	phaseRoom                // the peers, to post more
)

// New makes a Team. All ranks do, over the same boards.
func New(c Config) (*Team, error) {
	switch {
	case c.Size < MinRanks || c.Size > MaxRanks:
		return nil, fmt.Errorf("%w: a team of %d ranks: expected %d to %d", ErrUsage, c.Size, MinRanks, MaxRanks)
	case c.Rank < 0 || c.Rank >= c.Size:
		return nil, fmt.Errorf("%w: rank %d of %d: expected 0 to %d", ErrUsage, c.Rank, c.Size, c.Size-1)
	case len(c.Boards) != c.Size:
		return nil, fmt.Errorf("%w: %d boards for %d ranks: expected one each", ErrUsage, len(c.Boards), c.Size)
	}
	t := &Team{
		rank: c.Rank, ranks: c.Size, numbers: c.Numbers, epoch: c.Epoch, layout: layoutOf(c.Size), mapped: c.Map,
		board: c.Boards[c.Rank], peers: make([]peer, c.Size), wait: newWaiter(c.Gosched, c.Crowded, c.Affinity, c.Timeout, c.Stop), made: time.Now(),
		turns: c.Crowded && !Posts(c.Size),
	}
	t.pull.t, t.queue.t = t, t
	t.wait.long = c.Long
	if c.Lateness != nil {
		t.wait.counter = c.Lateness
	}
	l := &t.layout
	for r := range t.peers {
		p := &t.peers[r]
		p.rank, p.board = r, c.Boards[r]
		if p.board == 0 || p.board%lineBytes != 0 {
			return nil, fmt.Errorf("%w: the board of rank %d is at %#x: expected the start of a page", ErrUsage, r, p.board)
		}
		for parity := range uint32(2) {
			in, from, out := t.board, r, t.rank
			switch {
			case !Posts(c.Size):
			case r == t.rank:
				from, out = scratch, l.posted()
			default:
				in, from, out = p.board, l.posted(), l.posted() // and it is not written
			}
			p.in[parity], p.inArea[parity] = l.inbox(in, from, parity), l.area(in, from, parity)
			p.out[parity], p.outArea[parity] = l.inbox(p.board, out, parity), l.area(p.board, out, parity)
			p.postArea[parity] = l.area(p.board, l.posted(), parity)
		}
		for which := range p.lines {
			p.lines[which] = l.own(p.board, which)
		}
	}
	t.own = t.peers[t.rank].lines
	for k := 1; k < t.ranks; k++ {
		t.others = append(t.others, &t.peers[(t.rank+k)%t.ranks])
	}
	if t.targets = t.others; Posts(c.Size) {
		t.targets = []*peer{&t.peers[t.rank]}
	}
	return t, nil
}

// Posts tells whether the ranks of a team of so many post all in their own boards, the tags too,
// and do not write into the others'.
func Posts(ranks int) bool { return ranks > inboxRanks }

// begin makes the team ready for a call, of which the ranks share the work or not.
func (t *Team) begin(c *Call, share bool) error {
	if t.err != nil {
		return fmt.Errorf("%s: the team is of no more use: %w", c.Name, t.err)
	}
	if c.count() < 0 || c.Rooted && c.Root >= uint64(t.ranks) || c.Phases > Reduce|Gather || c.Phases != 0 && !c.Type.Valid() || c.reduces() && !c.Reduction.Valid() {
		return fmt.Errorf("%w: a call of phases %d, count %d, type %d, reduction %d", ErrUsage, c.Phases, c.count(), c.Type, c.Reduction)
	}
	t.name, t.piece = c.Name, 0
	f := &t.fold
	same := f.known && f.of == c.Signature
	if !same || t.sets || c.Sets != nil {
		t.divide(c, !c.Rooted || share && c.reduces())
	}
	if !same {
		f.of, f.known = c.Signature, true
		f.value = fold(t.epoch, c.Signature)
		// Whoever finds another tag than its own in a round reads why here. The owner
		// of the line cannot have left that round: nobody answers it there.
		l := t.own[callLine]
		l[callEpoch], l[callDigest], l[callCount], l[callRoot] = t.epoch, c.Digest, c.Count, c.Root
		l.store(uint64(f.value))
	}
	return nil
}

// divide gives the ranks their chunks of a call, all of them one or the root the whole vector, or
// their sets.
func (t *Team) divide(c *Call, chunks bool) {
	count := c.count()
	t.sets, t.longest, t.most = c.Sets != nil, 0, 1
	for r := range t.peers {
		p := &t.peers[r]
		p.runs, p.one[0] = p.one[:], Run{}
		switch {
		case t.sets:
			p.runs = c.Sets[r]
		case chunks:
			p.one[0].Lo, p.one[0].Hi = reduce.Chunk(count, t.ranks, r)
		case r == int(c.Root):
			p.one[0].Hi = count
		}
		p.lo, p.hi = 0, 0
		for i, run := range p.runs {
			if t.longest = max(t.longest, run.Hi-run.Lo); i == 0 {
				p.lo = run.Lo
			}
			p.lo, p.hi = min(p.lo, run.Lo), max(p.hi, run.Hi)
		}
		t.most = max(t.most, len(p.runs))
	}
	t.lo, t.hi = t.peers[t.rank].lo, t.peers[t.rank].hi
}

// owned is how many elements the own chunk has.
func (t *Team) owned() (n int) {
	for _, run := range t.peers[t.rank].runs {
		n += run.Hi - run.Lo
	}
	return n
}

// number is what errors call a rank.
func (t *Team) number(rank int) int {
	if t.numbers == nil {
		return rank
	}
	return t.numbers[rank]
}

// Words of the line in which a rank tells what it calls; the first is the fold.
const (
	callEpoch = 1 + iota
	callDigest
	callCount
	callRoot
)

// golden is 2^64 divided by the golden ratio, by which hashes are multiplied.
const golden = 0x9e3779b97f4a7c15

// fold makes 32 bits of what ranks must agree on. That two calls that differ have
// one fold is as likely as a bit error that a checksum of 32 bits misses; then
// results are wrong, but nobody reads or writes outside what it has.
func fold(epoch uint64, s Signature) uint32 {
	h := (s.Digest ^ s.Digest>>29) * golden
	h = (h ^ h>>32 ^ s.Count) * golden
	h = (h ^ h>>32 ^ s.Root) * golden
	h = (h ^ h>>32 ^ epoch) * golden
	return uint32(h >> 32)
}

// elems views the elements [lo, hi) of a buffer whose element 0 is at addr.
func elems(addr uint64, lo, hi, size int) []byte {
	return memory.Bytes(addr+uint64(lo*size), (hi-lo)*size)
}
