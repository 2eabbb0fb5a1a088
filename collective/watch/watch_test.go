package watch

import (
	"testing"
	"time"

	"ringcli/collective/plan"
	"ringcli/collective/reduce"
	"ringcli/collective/sharedmem"
	"ringcli/ring/diagnose"
)

// TestWhereabouts: what others are told of an operation that waits, of one that gets on and
// of none.
func TestWhereabouts(t *testing.T) {
	c := &Watch{}
	c.announced.Store(new(sharedmem.Announcement))
	k := plan.Call{Op: plan.OpAllReduce, Count: 9, Type: reduce.Int32, CallOptions: plan.CallOptions{Algorithm: plan.AlgorithmTree, Protocol: plan.Eager, Segment: 64, Depth: 2}}
	c.announced.Load().Begin(7, k.Signature())
	if p := c.place(); p.Operation != 7 || !p.Running || p.Call != k.String() || len(p.Awaits) > 0 {
		t.Errorf("%+v", p)
	}
	c.note(diagnose.Place{Operation: 7, Awaits: []diagnose.Await{{From: 3, What: "message 1"}}}, time.Now().Add(-time.Second), longLasts)
	if p := c.place(); len(p.Awaits) != 1 || p.Awaits[0].For < time.Second || p.Call != k.String() {
		t.Errorf("%+v", p)
	}
	c.announced.Load().Begin(8, k.Signature())
	if p := c.place(); p.Operation != 8 || len(p.Awaits) > 0 {
		t.Errorf("%+v", p)
	}
	c.announced.Load().End(8)
	if p := c.place(); p.Operation != 8 || p.Running || p.Call != "" {
		t.Errorf("%+v", p)
	}
	if n := testing.AllocsPerRun(100, func() { c.announced.Load().Begin(9, k.Signature()); c.announced.Load().End(9) }); n > 0 {
		t.Errorf("%g allocations", n)
	}
}
