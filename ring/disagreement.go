package ring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"ringcli/ring/bootstrap/calls"
	"ringcli/ring/disagreement"
)

// Called is what some ranks call, or that they do not.
type Called = calls.Called

// DisagreementError says that ranks call different operations. It is an ErrUsage of
// package configs/usage.
type DisagreementError = disagreement.Error

// tellCalls tells a neighbour what ranks call, and asks what it knows of that.
const tellCalls = "calls"

// newTables makes the tables of who calls what.
func (r *Ring) newTables() *disagreement.Tables {
	return disagreement.New(disagreement.Ring{
		Rank: r.rank, Size: len(r.nodes), Life: r.life, Epoch: r.Epoch, Failed: r.Failed,
		Activity: func() string {
			control, err := r.controlRing()
			if err != nil {
				return ""
			}
			return control.Activity()
		},
		Tell: func(ctx context.Context, side Side, told disagreement.Told) ([]Called, error) {
			return ask[[]Called](ctx, r, side, tellCalls, told)
		},
	})
}

// SetCalls says how to find out what this rank calls as an operation; "" is that it has
// not come to it. It is called on any goroutine. nil is a rank that calls nothing.
func (r *Ring) SetCalls(calls func(number uint64) string) { r.tables.Say(calls) }

// calls takes what a neighbour knows, and answers with what both know.
func (q *question) calls(context.Context) (any, error) {
	var told disagreement.Told
	if err := json.Unmarshal(q.payload, &told); err != nil {
		return nil, fmt.Errorf("%s cannot read %s, which is to tell what ranks call: %w", q.r.NodeName(q.r.rank), q.payload, err)
	}
	known, ok := q.r.tables.Hear(q.side, told)
	if !ok {
		return nil, fmt.Errorf("%s is at no operation of epoch %d: its ring is in epoch %d, is asked about too many operations, or closes", q.r.NodeName(q.r.rank), told.Epoch, q.r.Epoch())
	}
	return known, nil
}

// Disagreement finds out what all ranks call as an operation of which it is known that
// some call something else: known is what some ranks call for sure. It takes five seconds
// at most, and less than two where those that answer are quick. The error is the ring's if that
// fails meanwhile.
func (r *Ring) Disagreement(number uint64, known map[int]string, awaited string) error {
	e := r.tables.Find(number, known, awaited)
	var v *Verdict
	if err := r.Err(); errors.As(err, &v) {
		return err
	}
	return e
}
