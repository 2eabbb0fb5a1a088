package ring

import (
	"context"
	"errors"
	"time"

	"ringcli/ring/diagnose"
	"ringcli/ring/disagreement"
)

// tellCalls tells a neighbour what ranks call, and asks what it knows of that.
const tellCalls = "calls"

// Stalls finds out who keeps this rank waiting: who is late or stopped in an operation, who runs
// another one, and what is wrong with the path between two ranks. All ask the other ranks over
// the control ring, and answer them.
type Stalls struct {
	of      *membership
	table   *edgeTable
	control *Control
	ends    *Ends
	silence time.Duration         // Options.Silence
	tables  *disagreement.Tables  // of who calls what; guards itself
	place   func() diagnose.Place // by SetPlace; guarded by the table's mu
}

// newStalls makes the part; the tables are of who calls what.
func newStalls(of *membership, table *edgeTable, control *Control, ends *Ends, silence time.Duration) *Stalls {
	tables := disagreement.New(disagreement.Ring{
		Rank: of.rank, Size: len(of.nodes), Life: control.life, Epoch: control.epoch.Load, Failed: table.failed.Load,
		Activity: func() string {
			ring, err := control.ring()
			if err != nil {
				return ""
			}
			return ring.Activity()
		},
		Tell: func(ctx context.Context, side Side, told disagreement.Told) ([]Called, error) {
			return ask[[]Called](ctx, control, side, tellCalls, told)
		},
	})
	return &Stalls{of: of, table: table, control: control, ends: ends, silence: silence, tables: tables}
}

// SetCalls says how to find out what this rank calls as an operation; "" is that it has
// not come to it. It is called on any goroutine. nil is a rank that calls nothing.
func (s *Stalls) SetCalls(calls func(number uint64) string) { s.tables.Say(calls) }

// Disagreement finds out what all ranks call as an operation of which it is known that
// some call something else: known is what some ranks call for sure. It takes five seconds
// at most, and less than two where those that answer are quick. The error is the ring's if that
// fails meanwhile.
func (s *Stalls) Disagreement(number uint64, known map[int]string, awaited string) error {
	e := s.tables.Find(number, known, awaited)
	var v *Verdict
	if err := s.table.failure(); errors.As(err, &v) {
		return err
	}
	return e
}
