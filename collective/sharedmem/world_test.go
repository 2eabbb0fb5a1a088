package sharedmem

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"ringcli/collective/reduce"
	"ringcli/collective/reduce/reference"
	"ringcli/verbs/memory"
)

// world is a team whose ranks are goroutines of this process. All its memory is
// Go's, so that the race detector sees what they do.
type world struct {
	tb     testing.TB
	boards [][]uint64
	teams  []*Team
}

// heap returns Go memory that begins at a page, and its address.
func heap(n uint64) ([]uint64, uint64) {
	b := make([]uint64, (n+pageBytes)/8+1)
	addr := memory.Addr(b)
	return b, (addr + pageBytes - 1) / pageBytes * pageBytes
}

// newWorld makes n ranks. configure may be nil.
func newWorld(tb testing.TB, n int, configure func(c *Config)) *world {
	tb.Helper()
	w := &world{tb: tb, teams: make([]*Team, n)}
	addrs := make([]uint64, n)
	for r := range addrs {
		board, addr := heap(BoardSize(n))
		w.boards = append(w.boards, board)
		addrs[r] = addr
	}
	for r := range n {
		c := Config{Rank: r, Size: n, Boards: addrs, Timeout: after(20 * time.Second), Gosched: true, Map: identity}
		if configure != nil {
			configure(&c)
		}
		var err error
		if w.teams[r], err = New(c); err != nil {
			tb.Fatal(err)
		}
	}
	return w
}

// identity maps memory of the same process. The key of a test's buffer is the
// rank of its owner plus one.
func identity(peer int, key, addr, _ uint64) (uint64, error) {
	if key != uint64(peer)+1 {
		return 0, fmt.Errorf("key %d: expected %d", key, peer+1)
	}
	return addr, nil
}

// each runs f on every rank at once and returns the ranks' errors.
func (w *world) each(f func(rank int, t *Team) error) []error {
	errs := make([]error, len(w.teams))
	var wg sync.WaitGroup
	for r, t := range w.teams {
		wg.Go(func() { errs[r] = f(r, t) })
	}
	wg.Wait()
	return errs
}

func (w *world) must(f func(rank int, t *Team) error) {
	w.tb.Helper()
	if err := errors.Join(w.each(f)...); err != nil {
		w.tb.Fatal(err)
	}
}

// The operations that phases make.
const (
	AllReduce     = Reduce | Gather
	ReduceScatter = Reduce
	AllGather     = Gather
	Barrier       = Phases(0)
)

// trial is one call of all ranks, with what it must give.
type trial struct {
	op       Phases
	typ      reduce.Type
	red      reduce.Op
	count    int
	inPlace  bool
	inbox    bool
	mapped   uint64 // bit 2r: rank r's send buffer, bit 2r+1: its receive buffer; ranks from 32 on have those of rank r-32
	stores   stores
	misalign int
	seed     uint64
}

func (tr trial) String() string {
	engine := "pull"
	if tr.inbox {
		engine = "inbox"
	}
	return fmt.Sprintf("%s, phases %d of %d %s, %s, in place %v, mapped %b, stores %d", engine, tr.op, tr.count, tr.typ, tr.red, tr.inPlace, tr.mapped, tr.stores)
}

// signature is a stand-in for the one that package collective makes.
func (tr trial) signature() Signature {
	return Signature{Digest: uint64(tr.op) | uint64(tr.typ)<<4 | uint64(tr.red)<<8, Count: uint64(tr.count)}
}

// want returns the inputs of all ranks and the result for the whole vector.
func (tr trial) want(n int) (inputs [][]byte, result []byte) {
	size := tr.typ.Size()
	inputs = make([][]byte, n)
	for r := range inputs {
		inputs[r] = make([]byte, tr.count*size)
		reference.Fill(inputs[r], tr.typ, tr.red, r, 0, tr.seed)
	}
	result = make([]byte, tr.count*size)
	switch {
	case tr.op == AllGather:
		for r := range n {
			lo, hi := reduce.Chunk(tr.count, n, r)
			copy(result[lo*size:hi*size], inputs[r][lo*size:])
		}
	case tr.inbox:
		reference.NewChecker(reference.RankOrder, tr.typ, tr.red, n, tr.count, tr.seed).Expect(0, tr.count, result)
	default:
		reference.NewChecker(reference.RingOrder, tr.typ, tr.red, n, tr.count, tr.seed).Expect(0, tr.count, result)
	}
	return inputs, result
}

const poison = 0xa5

// run performs the trial and checks every byte of every rank's buffers.
func (w *world) run(tr trial) {
	w.tb.Helper()
	n, size := len(w.teams), tr.typ.Size()
	inputs, want := tr.want(n)
	w.must(func(rank int, t *Team) error { return tr.perform(t, inputs[rank], want, size, n) })
}

// perform makes one rank's call.
func (tr trial) perform(t *Team, input, want []byte, size, n int) error {
	lo, hi := reduce.Chunk(tr.count, n, t.rank)
	lo, hi = lo*size, hi*size
	// Poison around the buffers shows what is written outside.
	alloc := func(bytes int) []byte {
		b := make([]byte, bytes+64+tr.misalign)
		for i := range b {
			b[i] = poison
		}
		return b[tr.misalign : tr.misalign+bytes+64]
	}
	send, recv := alloc(len(input)), alloc(len(input))
	copy(send, input)
	sendAt, recvFrom, recvLen := memory.Addr(send), 0, len(input)
	recvAt := memory.Addr(recv)
	if tr.inPlace {
		recv = send
		switch tr.op {
		case AllGather:
			for i := range input {
				if i < lo || i >= hi {
					send[i] = poison
				}
			}
		case ReduceScatter:
			recvFrom, recvLen = lo, hi-lo
		}
		recvAt = sendAt
	} else if tr.op == ReduceScatter {
		recvLen = hi - lo
		recvAt -= uint64(lo)
	}
	key := uint64(t.rank) + 1
	c := Call{
		Name: "trial", Phases: tr.op, Type: tr.typ, Reduction: tr.red, Signature: tr.signature(),
		Send: Buffer{Addr: sendAt, Key: key, Mapped: tr.mapped>>(2*t.rank%64)&1 == 1},
		Recv: Buffer{Addr: recvAt, Key: key, Mapped: tr.mapped>>((2*t.rank+1)%64)&1 == 1},
	}
	if tr.op == AllGather {
		c.Reduction = reduce.Sum
	}
	t.fixed, t.pull.stores = tr.stores < allStores, tr.stores
	var err error
	if tr.inbox {
		err = t.Inbox(&c)
	} else {
		err = t.Pull(&c)
	}
	if err != nil {
		return fmt.Errorf("rank %d: %s: %w", t.rank, tr, err)
	}
	got, result := recv[recvFrom:recvFrom+recvLen], want
	if tr.op == ReduceScatter {
		result = want[lo:hi]
	}
	if wrong, first := reference.Compare(got, result, tr.typ); wrong > 0 {
		return fmt.Errorf("rank %d: %s: %d wrong from %d", t.rank, tr, wrong, first)
	}
	if !tr.inPlace && string(send[:len(input)]) != string(input) {
		return fmt.Errorf("rank %d: %s: the send buffer was changed", t.rank, tr)
	}
	for i, b := range recv {
		inside := i >= recvFrom && i < recvFrom+recvLen
		if tr.inPlace && tr.op == ReduceScatter && i < len(input) && !inside {
			inside = b == input[i]
		}
		if !inside && b != poison {
			return fmt.Errorf("rank %d: %s: byte %d around the receive buffer was written", t.rank, tr, i)
		}
	}
	return nil
}

// after is a timeout that stays.
func after(d time.Duration) func() time.Duration { return func() time.Duration { return d } }
