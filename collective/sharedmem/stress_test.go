package sharedmem

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"ringcli/collective/reduce"
	"ringcli/collective/reduce/reference"
	"ringcli/verbs/memory"
)

// stressArena bounds the vectors of the stress: more steps than there are slots.
const stressArena = 3 << 20

// Processes make calls of all kinds and sizes one after another, with no barrier
// between them, and check every bit.
func TestStressProcesses(t *testing.T) {
	calls := 400
	if testing.Short() {
		calls = 60
	}
	for _, n := range []int{2, 3, 5, inboxRanks + 1} {
		t.Run(fmt.Sprint("ranks=", n), func(t *testing.T) {
			_, errs := spawn(t, "stress", fmt.Sprint(calls), n, 2*stressArena)
			for _, err := range errs {
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func stressJob(p *process) error {
	var calls int
	if _, err := fmt.Sscan(p.arg, &calls); err != nil {
		return err
	}
	plain, err := memory.Alloc(2 * stressArena)
	if err != nil {
		return err
	}
	defer func() { _ = plain.Free() }()
	r := rand.New(rand.NewPCG(7, 7)) // the same on all ranks
	for i := range calls {
		tr := trial{
			op: [...]Phases{AllReduce, ReduceScatter, AllGather}[r.IntN(3)], typ: reduce.Types()[r.IntN(10)], red: reduce.Ops()[r.IntN(5)], inbox: r.IntN(2) == 0,
			mapped: r.Uint64(), stores: stores(r.IntN(int(allStores) + 1)), inPlace: r.IntN(2) == 0, seed: r.Uint64(),
		}
		size := tr.typ.Size()
		tr.count = min(counts(r, size), stressArena/size)
		inputs, want := tr.want(p.size)
		at := func(which int) Buffer {
			if tr.mapped>>((2*p.rank+which)%64)&1 == 1 {
				return Buffer{Addr: p.arena + uint64(which)*stressArena, Mapped: true}
			}
			return Buffer{Addr: plain.Addr() + uint64(which)*stressArena}
		}
		send, recv := at(0), at(1)
		if tr.inPlace {
			recv = send
		}
		lo, hi := reduce.Chunk(tr.count, p.size, p.rank)
		copy(memory.Bytes(send.Addr, tr.count*size), inputs[p.rank])
		result, resultAt := want, recv.Addr
		if tr.op == ReduceScatter {
			result, resultAt = want[lo*size:hi*size], recv.Addr+uint64(lo*size)
		}
		c := Call{Name: "trial", Phases: tr.op, Type: tr.typ, Reduction: tr.red, Signature: tr.signature(), Send: send, Recv: recv}
		p.team.fixed, p.team.pull.stores = tr.stores < allStores, tr.stores
		call := p.team.Pull
		if tr.inbox {
			call = p.team.Inbox
		}
		if err := call(&c); err != nil {
			return fmt.Errorf("call %d: %s: %w", i, tr, err)
		}
		if wrong, first := reference.Compare(memory.Bytes(resultAt, len(result)), result, tr.typ); wrong > 0 {
			return fmt.Errorf("call %d: %s: %d wrong from %d", i, tr, wrong, first)
		}
	}
	return nil
}

// A process that ends in the middle of things is named by the others.
func TestPeerStops(t *testing.T) {
	_, errs := spawn(t, "stop", "", 3, 1<<20)
	for r, err := range errs {
		switch {
		case r == 1 && err != nil:
			t.Error(err)
		case r == 1:
		case err == nil:
			t.Errorf("rank %d saw nothing", r)
		case !strings.Contains(err.Error(), "no progress") || !strings.Contains(err.Error(), "rank 1"):
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

func stopJob(p *process) error {
	c := Call{Phases: AllReduce, Type: reduce.Float64, Signature: Signature{Count: 1 << 16}, Send: Buffer{p.arena, true, 0}, Recv: Buffer{p.arena, true, 0}}
	for i := 0; ; i++ {
		if p.rank == 1 && i == 20 {
			os.Exit(0)
		}
		if err := p.team.Pull(&c); err != nil {
			return err
		}
		p.team.wait.timeout = after(4 * time.Second) // all are there, and may wait for a CPU
	}
}
