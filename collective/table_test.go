package collective

import (
	"errors"
	"testing"

	"ringcli/collective/reduce"
	"ringcli/ring"
)

// A table that is set between two operations decides the next one.
func TestSetTable(t *testing.T) {
	w := newWorld(t, 2, ring.Options{}, nil)
	protocol := func() Protocol {
		p, err := w.comms[1].Plan(Call{Op: OpAllReduce, Count: 1 << 16, Type: reduce.Int32, Reduction: reduce.Sum, CallOptions: CallOptions{}})
		if err != nil {
			t.Fatal(err)
		}
		return p.Protocol
	}
	if got := protocol(); got != ReceiverInitiated {
		t.Fatalf("without a table: %s", got)
	}
	table := Table{Rules: []Rule{{Op: OpAllReduce, Algorithm: AlgorithmRing, Protocol: RendezvousRead}}}
	w.must(func(_ int, c *Comm) error {
		if err := c.SetTable(table); err != nil {
			return err
		}
		b, err := c.Alloc(1 << 18)
		if err != nil {
			return err
		}
		return c.AllReduce(t.Context(), b.Addr(), b.Addr(), 1<<16, reduce.Int32, reduce.Sum, CallOptions{})
	})
	if got := protocol(); got != RendezvousRead || len(w.comms[0].Table().Rules) != 1 {
		t.Errorf("with the table: %s, and it has %v", got, w.comms[0].Table())
	}
	if err := w.comms[0].SetTable(Table{Rules: []Rule{{}}}); !errors.Is(err, ErrUsage) || len(w.comms[0].Table().Rules) != 1 {
		t.Errorf("a wrong table: %v", err)
	}
}
