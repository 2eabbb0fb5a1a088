package collective

import (
	"fmt"
	"testing"

	"ringcli/collective/reduce"
	"ringcli/ring"
)

// shared0 is the device of shared memory.
const shared0 = "shm:0"

// TestMatrixShared runs every operation among ranks that share memory, by every
// algorithm and protocol, with buffers that can be mapped and with others.
func TestMatrixShared(t *testing.T) {
	m := fullMatrix()
	if testing.Short() || raceEnabled {
		m = sampleMatrix()
	}
	m.device = shared0
	m.ways = append(m.ways, CallOptions{Algorithm: AlgorithmRing, Protocol: Direct}, CallOptions{Algorithm: AlgorithmInbox, Protocol: Direct},
		CallOptions{Algorithm: AlgorithmInbox, Protocol: Eager}, CallOptions{Algorithm: AlgorithmRing, Sync: true})
	for _, n := range m.ranks[1:] {
		t.Run(fmt.Sprintf("ranks=%d", n), func(t *testing.T) { t.Logf("%d operations", m.run(t, n)) })
	}
}

// TestDirectIsTheDefault: ranks that share memory use it, and say so; others are
// told why there is none.
func TestDirectIsTheDefault(t *testing.T) {
	w := newWorld(t, 3, ring.Options{Device: shared0}, nil)
	w.must(func(_ int, c *Comm) error { return c.Agree(t.Context()) })
	for bytes, want := range map[int]Algorithm{8: AlgorithmInbox, smallMost: AlgorithmInbox, smallMost + 4: AlgorithmRing} {
		p, err := w.comms[1].Plan(OpAllReduce, bytes/4, reduce.Float32, reduce.Sum, CallOptions{})
		if err != nil || p.Algorithm != want || p.Protocol != Direct {
			t.Errorf("%d bytes: %+v, %v, want %s by direct", bytes, p, err, want)
		}
	}
}
