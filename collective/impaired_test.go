package collective

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"ringcli/collective/reduce"
	"ringcli/ring"
	"ringcli/verbs/verbstest"
)

// TestImpairments: whatever a network does to packets, short of never letting one pass,
// results are right to the bit in every run. The log says what it costs. Packets that were
// damaged are repaired by their ICRC; what passes that is found where segments are
// verified.
func TestImpairments(t *testing.T) {
	settings := []struct {
		name, fault string
		verify      bool
	}{
		{"none", "loss 0%", false},
		{"loss 0.1 %", "loss 0.1%", false},
		{"loss 1 %", "loss 1%", false},
		{"loss 5 %", "loss 5%", false},
		{"loss 10 %", "loss 10%", false},
		{"reordering 10 %", "reorder 10%", false},
		{"duplication 5 %", "duplicate 5%", false},
		{"corruption 1 %, segments verified", "corrupt 1%", true},
	}
	const n = 2
	count, runs := 1<<18, 1 // 1 MiB
	switch {
	case verbstest.Full():
		count, runs = 1<<20, 5
	case testing.Short():
		settings, count, runs = []struct {
			name, fault string
			verify      bool
		}{settings[3], settings[5], settings[7]}, 1<<15, 1
	}
	var table strings.Builder
	fmt.Fprintf(&table, "%d ranks on soft:lo, all-reduce of %d KiB of int32, each run checked; MB/s of busbw, medians of %d runs\n%-36s", n, count>>8, runs, "")
	for _, way := range allWays()[:5] {
		name := way.Protocol.String()
		if way.Algorithm != AlgorithmRing {
			name = way.Algorithm.String()
		}
		fmt.Fprintf(&table, " %18s", name)
	}
	for i, s := range settings {
		fmt.Fprintf(&table, "\n%-36s", s.name)
		w := newWorld(t, n, ring.Options{Inject: fmt.Sprintf("soft: %s, seed %d", s.fault, i)}, nil)
		k := newKit(w, count, reduce.Int32, reduce.Sum)
		k.expect(count)
		for _, way := range allWays()[:5] {
			way.Verify = s.verify
			var times []time.Duration
			for range runs {
				for op := range OpBarrier {
					k.check(op, count, w.comms[0].elseEager(op, way), op == OpAllReduce)
				}
				begun := time.Now()
				k.runs(1, count, way)
				times = append(times, time.Since(begun))
			}
			slices.Sort(times)
			fmt.Fprintf(&table, " %18.1f", float64(count)*4*OpAllReduce.BusFactor(n)/float64(times[len(times)/2].Microseconds()))
		}
		w.must(func(rank int, _ *Comm) error { return errors.Join(k.send[rank].Free(), k.recv[rank].Free()) })
		w.close()
		w.rings, w.comms = nil, nil
	}
	t.Log(table.String())
}
