package collective

import (
	"fmt"
	"testing"

	"ringcli/collective/plan"
	"ringcli/collective/reduce"
	"ringcli/ring"
	"ringcli/verbs/verbstest"
)

// shared0 is the device of shared memory.
const shared0 = "shm:0"

// memoryWays are those that only ranks that share memory have.
var memoryWays = []CallOptions{
	{}, {Algorithm: AlgorithmRing, Protocol: Direct}, {Algorithm: AlgorithmInbox, Protocol: Direct}, {Algorithm: AlgorithmRing, Sync: true},
}

// TestMatrixShared runs every operation among ranks that share memory, with buffers
// that can be mapped and with others: directly all there is, over their queue pairs
// a sample.
func TestMatrixShared(t *testing.T) {
	m := fullMatrix(memoryWays...)
	m.ranks = []int{2, 3, 4}
	if verbstest.Full() {
		m.ranks = []int{2, 3, 4, 5, 8}
	}
	sample := sampleMatrix()
	sample.ranks = sample.ranks[1:]
	sample.ways = append(allWays(), CallOptions{Algorithm: AlgorithmInbox, Protocol: Eager})
	if testing.Short() || verbstest.Race {
		m = sampleMatrix()
		m.ranks, m.ways, sample.ranks = []int{2, 3, 5}, memoryWays, []int{3}
	}
	many := sampleMatrix()
	many.ranks, many.types, many.ways = []int{9, 17}, many.types[:2], memoryWays[:3]
	if verbstest.Full() {
		many.ranks = []int{9, 16, 17, 33}
	}
	if testing.Short() || verbstest.Race {
		many.ranks, many.types = []int{9}, many.types[:1]
	}
	if verbstest.Race {
		m.ranks, sample.ranks = []int{3}, []int{2}
	}
	for name, m := range map[string]matrix{"directly": m, "over queue pairs": sample, "many": many} {
		m.options, m.private = on(shared0), true
		for _, n := range m.ranks {
			t.Run(fmt.Sprintf("%s, ranks=%d", name, n), func(t *testing.T) { t.Logf("%d operations", m.run(t, n)) })
		}
	}
}

// TestDirectIsTheDefault: ranks that share memory use it, and say so; others are
// told why there is none.
func TestDirectIsTheDefault(t *testing.T) {
	for _, n := range []int{3, plan.MaxInboxRanks + 1} {
		w := newWorld(t, n, ring.Options{Device: shared0}, nil)
		w.must(func(_ int, c *Comm) error { return c.Agree(t.Context()) })
		most := map[int]int{3: 32 << 10, plan.MaxInboxRanks + 1: 16 << 10}[n]
		for bytes, want := range map[int]Algorithm{8: AlgorithmInbox, most: AlgorithmInbox, most + 4: AlgorithmRing} {
			p, err := w.comms[1].Plan(Call{Op: OpAllReduce, Count: bytes / 4, Type: reduce.Float32, Reduction: reduce.Sum, CallOptions: CallOptions{}})
			if err != nil || p.Algorithm != want || p.Protocol != Direct {
				t.Errorf("%d bytes on %d ranks: %+v, %v, want %s by direct", bytes, n, p, err, want)
			}
		}
	}
}
