package main

import (
	"math"
	"slices"
	"testing"

	"ringcli/collective"
	"ringcli/collective/plan"
)

// A barrier is measured by each algorithm, and has no size.
func TestBarrierIsCompared(t *testing.T) {
	b := &bench{shape: plan.Shape{Ranks: 4, Slots: 16, SlotSize: 256 << 10, Software: true, Shared: true}}
	b.parts.Ranks = 4
	var lines []string
	for _, k := range b.variants(collective.OpBarrier, 1<<10) {
		lines = append(lines, command(k))
	}
	for _, want := range []string{"barrier --algorithm ring --protocol eager", "barrier --algorithm inbox --protocol direct"} {
		if !slices.Contains(lines, want) {
			t.Errorf("%q: expected %s", lines, want)
		}
	}
}

// One device that is off is an error, whatever the others; rows that tell the parts' costs are none.
func TestTooFar(t *testing.T) {
	of := func(device string, model float64) row { return row{Device: device, Measured: 100, Model: model} }
	well := []row{of("soft:lo", 90), of("soft:lo", 115), of("soft:lo", 300), of("shm:0", 100), {Device: "shm:0", Measured: 100, Fitted: true}}
	if err := tooFar(well, 0.2); err != nil {
		t.Error(err)
	}
	for want, rows := range map[string][]row{
		"shm:0: the median error is 30.0%: expected at most 20%":  append(well, of("shm:0", 130), of("shm:0", 70)),
		"soft:lo: the median error is NaN%: expected at most 20%": {of("soft:lo", math.NaN())},
		"shm:0: nothing was compared":                             {{Device: "shm:0", Measured: 100, Fitted: true}},
	} {
		if err := tooFar(rows, 0.2); err == nil || err.Error() != want {
			t.Errorf("%v, expected %s", err, want)
		}
	}
}
