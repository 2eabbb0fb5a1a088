package ring

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"ringcli/configs/codes"
	"ringcli/configs/usage"
	"ringcli/ring/bootstrap"
)

// Called is what some ranks call, or that they do not.
type Called = bootstrap.Called

// DisagreementError says that ranks call different operations. It is an ErrUsage of
// package configs/usage.
type DisagreementError struct {
	Number uint64 // of the operation on this ring, from 1
	// Calls says who calls what: those that differ from most come first.
	Calls []Called
	// Awaited is set where it is not known what the others call.
	Awaited string
}

func (e *DisagreementError) Error() string {
	text := bootstrap.TellCalls("call", e.Calls)
	if e.Awaited != "" {
		text += "; " + e.Awaited
	}
	return fmt.Sprintf("operation %d: %s: all ranks must make the same calls in the same order", e.Number, text)
}

// FailureCode is that of a call that others do not make.
func (e *DisagreementError) FailureCode() codes.Code { return codes.Calls }

// Is makes a disagreement an usage.Err.
func (e *DisagreementError) Is(target error) bool { return target == usage.Err }

const (
	// tableWithin is how long ranks may take to say what they call: a rank that is silent
	// costs all of it.
	tableWithin = 1500 * time.Millisecond
	// callWithin is how long a rank that was asked may take to make the call: ranks of an
	// orderly ring are less apart.
	callWithin = 200 * time.Millisecond
	// tableLeast: with less time a rank asks no further. Each on the way has an eighth less
	// than who asked it, to answer with what has come, and a busy host takes some of that.
	tableLeast = 100 * time.Millisecond
)

// askCalls asks a rank, and through it those behind it, what they call.
const askCalls = "calls"

func init() { answerers[askCalls] = (*question).calls }

// callsAsked is a question for calls. It goes on from rank to rank while Hops are left.
type callsAsked struct {
	Number uint64 `json:"number"`
	Hops   int    `json:"hops"`
}

// SetCalls says how to find out what this rank calls as an operation; "" is that it has
// not come to it. It is called on any goroutine. nil is a rank that calls nothing.
func (r *Ring) SetCalls(calls func(number uint64) string) { r.calls.Store(&calls) }

// called is what this rank calls as an operation, if it does soon.
func (r *Ring) called(ctx context.Context, number uint64) Called {
	for begun := time.Now(); ; {
		calls := r.calls.Load()
		if calls == nil || *calls == nil {
			break
		}
		if call := (*calls)(number); call != "" {
			return Called{Call: call}
		}
		if time.Since(begun) > callWithin || ctx.Err() != nil {
			break
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
		}
	}
	state := "has not called it"
	if control, err := r.controlRing(); err == nil {
		if doing := control.Activity(); doing != "" {
			state += " (" + doing + ")"
		}
	}
	return Called{State: state}
}

// calls answers with what this rank calls, and then those behind it as far as they
// answer.
func (q *question) calls(ctx context.Context) (any, error) {
	var asked callsAsked
	if err := json.Unmarshal(q.payload, &asked); err != nil {
		return nil, fmt.Errorf("%s cannot read the question %s for calls: %w", q.r.nodeName(q.r.rank), q.payload, err)
	}
	behind := q.r.askCalls(ctx, 1-q.side, asked.Number, asked.Hops-1)
	own := q.r.called(ctx, asked.Number)
	return append([]Called{own}, <-behind...), nil
}

// askCalls asks so many ranks in the direction of a side, the nearest first. What is not
// answered in time is left out.
func (r *Ring) askCalls(ctx context.Context, side Side, number uint64, hops int) <-chan []Called {
	answers := make(chan []Called, 1)
	deadline, limited := ctx.Deadline()
	if hops <= 0 || limited && time.Until(deadline) < tableLeast {
		answers <- nil
		return answers
	}
	go func() {
		list, err := ask[[]Called](ctx, r, side, askCalls, callsAsked{number, hops})
		if err != nil {
			list = nil
		}
		answers <- list[:min(len(list), hops)]
	}()
	return answers
}

// Disagreement finds out what all ranks call as an operation of which it is known that
// some call something else: known is what some ranks call for sure. It takes two seconds
// at most. The error is the ring's if that fails meanwhile.
func (r *Ring) Disagreement(number uint64, known map[int]string, awaited string) error {
	ctx, cancel := context.WithTimeout(r.life, tableWithin)
	defer cancel()
	n := len(r.nodes)
	right, left := r.askCalls(ctx, Right, number, n-1), r.askCalls(ctx, Left, number, n-1)
	byRank := make([]Called, n)
	byRank[r.rank] = r.called(ctx, number)
	for i, c := range <-right {
		byRank[(r.rank+1+i)%n] = c
	}
	for i, c := range <-left {
		at := &byRank[(r.rank+2*n-1-i)%n]
		at.Call, at.State = cmp.Or(at.Call, c.Call), cmp.Or(at.State, c.State)
	}
	for rank := range byRank {
		c := &byRank[rank]
		if c.Call = cmp.Or(known[rank], c.Call); c.Call != "" {
			c.State = ""
		} else {
			c.State = cmp.Or(c.State, "not known, no answer came in time")
		}
	}
	var v *Verdict
	if err := r.Err(); errors.As(err, &v) {
		return err
	}
	e := &DisagreementError{Number: number, Calls: bootstrap.Tabulate(byRank)}
	if !bootstrap.Differ(e.Calls) {
		e.Awaited = awaited
	}
	return e
}
