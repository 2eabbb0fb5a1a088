package collective

import (
	"fmt"
	"testing"

	"ringcli/ring"
	"ringcli/verbs/route"
	"ringcli/verbs/verbstest"
)

// mixed makes rank 2 say that it is on another host.
func mixed(rank int) ring.Options {
	o := ring.Options{Device: route.Auto}
	if rank == 2 {
		h := route.ThisHost()
		h.BootID = "another"
		o.Host = &h
	}
	return o
}

// TestMatrixMixed: a ring whose edges are on shared memory and on soft devices
// computes what any other does, under every protocol and algorithm.
func TestMatrixMixed(t *testing.T) {
	m := sampleMatrix()
	m.ranks = []int{3, 4, 5}
	switch {
	case verbstest.Full():
		m = fullMatrix()
		m.ranks = []int{3, 4, 5}
	case testing.Short() || verbstest.Race:
		m.ranks = []int{4}
	}
	m.options, m.private, m.ways = mixed, true, append(allWays(), CallOptions{})
	for _, n := range m.ranks {
		t.Run(fmt.Sprintf("ranks=%d", n), func(t *testing.T) { t.Logf("%d operations", m.run(t, n)) })
	}
}

// TestMixedDevices: such a ring is what it is thought to be, and has no Direct.
func TestMixedDevices(t *testing.T) {
	w := newWorldOf(t, 4, mixed, nil)
	used := map[string]bool{}
	for _, r := range w.rings {
		used[r.Left().Device().Provider()] = true
	}
	if !used["shm"] || !used["soft"] || len(used) != 2 {
		t.Fatalf("the edges are on %v: expected shared memory and soft devices", used)
	}
	w.must(func(_ int, c *Comm) error { return c.Agree(t.Context()) })
	if why := w.comms[0].agreement.Load().NotShared; why == "" {
		t.Error("ranks that do not share memory have Direct")
	}
}
