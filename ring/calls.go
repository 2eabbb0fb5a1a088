package ring

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"ringcli/configs/codes"
	"ringcli/configs/usage"
	"ringcli/ring/bootstrap/calls"
)

// Called is what some ranks call, or that they do not.
type Called = calls.Called

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
	text := calls.Tell("call", e.Calls)
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
	// tableWithin is for how long a rank waits for what the others call after the last news of
	// it: a rank that is silent costs all of that. tableMost is for how long in all.
	tableWithin, tableMost = 1500 * time.Millisecond, 5 * time.Second
	// callWithin is how long a rank that hears of a disagreement may take to make the call:
	// ranks of an orderly ring are less apart.
	callWithin = 200 * time.Millisecond
	// tablesMost operations are asked about at a time: ranks are at one, and some at the next.
	tablesMost = 16
)

// tellCalls tells a neighbour what ranks call, and asks what it knows of that.
const tellCalls = "calls"

func init() { answerers[tellCalls] = (*question).calls }

// callsTold is such a question. The answer is what both know then.
type callsTold struct {
	operation
	Calls []Called `json:"calls"`
}

// operation tells one from all others of a ring that is rebuilt.
type operation struct {
	Epoch  uint32 `json:"epoch"`
	Number uint64 `json:"number"`
}

// callTable is what is known of who calls what as an operation. A rank that finds out that
// another calls something else, or hears of it from a neighbour, tells both neighbours what
// it knows and these do not, again when it knows more. So each call goes round the ring once,
// and a rank that does not answer keeps nothing from the others.
type callTable struct {
	byRank []Called // those that are not known have neither call nor state
	shared [2]int   // by side: what the neighbour knows, too, was known after so many changes
	made   int      // changes
	news   signal   // of a change
}

// merge takes what another rank knows. That a rank makes a call counts more than that it
// did not soon.
func (t *callTable) merge(calls []Called) {
	before := t.made
	for _, theirs := range calls {
		for _, rank := range theirs.Ranks {
			if rank < 0 || rank >= len(t.byRank) {
				continue
			}
			ours := &t.byRank[rank]
			if ours.Call == "" && (theirs.Call != "" || ours.State == "" && theirs.State != "") {
				*ours = Called{Call: theirs.Call, State: theirs.State}
				t.made++
			}
		}
	}
	if t.made > before {
		t.news.notify()
	}
}

// known is what is known of the ranks of which anything is.
func (t *callTable) known() []Called {
	return slices.DeleteFunc(calls.Tabulate(t.byRank), func(c Called) bool { return c.Call == "" && c.State == "" })
}

// callTables are those that ranks tell each other just now.
type callTables struct {
	mu      sync.Mutex // guards all
	tables  map[operation]*callTable
	closed  bool
	telling sync.WaitGroup // added to with mu held, before closed
}

// close ends what is told, after the ring's life.
func (c *callTables) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.telling.Wait()
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

// calls takes what a neighbour knows, and answers with what both know.
func (q *question) calls(context.Context) (any, error) {
	var told callsTold
	if err := json.Unmarshal(q.payload, &told); err != nil {
		return nil, fmt.Errorf("%s cannot read %s, which is to tell what ranks call: %w", q.r.nodeName(q.r.rank), q.payload, err)
	}
	c := &q.r.callTables
	c.mu.Lock()
	defer c.mu.Unlock()
	t := q.r.callTable(told.operation)
	if t == nil {
		return nil, fmt.Errorf("%s is at no operation of epoch %d: its ring is in epoch %d, is asked about too many operations, or closes", q.r.nodeName(q.r.rank), told.Epoch, q.r.Epoch())
	}
	t.merge(told.Calls)
	t.shared[q.side] = t.made
	return t.known(), nil
}

// callTable returns what is known of an operation, and has it told for a while from when it
// is asked for first. It needs callTables.mu; nil is that the ring is closed.
func (r *Ring) callTable(o operation) *callTable {
	c := &r.callTables
	if t := c.tables[o]; t != nil || c.closed || o.Epoch != r.Epoch() || len(c.tables) == tablesMost {
		return t
	}
	t := &callTable{byRank: make([]Called, len(r.nodes)), news: make(signal)}
	if c.tables == nil {
		c.tables = map[operation]*callTable{}
	}
	c.tables[o] = t
	c.telling.Go(func() {
		ctx, cancel := context.WithTimeout(r.life, tableMost)
		defer cancel()
		var telling sync.WaitGroup
		for _, side := range bothSides {
			telling.Go(func() { r.tellCalls(ctx, side, o, t) })
		}
		own := r.called(ctx, o.Number)
		own.Ranks = []int{r.rank}
		c.mu.Lock()
		t.merge([]Called{own})
		c.mu.Unlock()
		telling.Wait()
		c.mu.Lock()
		delete(c.tables, o)
		c.mu.Unlock()
	})
	return t
}

// tellCalls tells the neighbour at a side what it does not know, until ctx ends.
func (r *Ring) tellCalls(ctx context.Context, side Side, o operation, t *callTable) {
	c := &r.callTables
	for {
		c.mu.Lock()
		made, news, known := t.made, t.news, t.known()
		told := made == t.shared[side]
		c.mu.Unlock()
		if told {
			select {
			case <-news:
				continue
			case <-ctx.Done():
				return
			}
		}
		both, err := ask[[]Called](ctx, r, side, tellCalls, callsTold{o, known})
		if err != nil {
			<-ctx.Done() // the other neighbour may know more
			return
		}
		c.mu.Lock()
		only := t.made == made // what is new since is of this neighbour
		if t.merge(both); only {
			made = t.made
		}
		t.shared[side] = max(t.shared[side], made)
		c.mu.Unlock()
	}
}

// Disagreement finds out what all ranks call as an operation of which it is known that
// some call something else: known is what some ranks call for sure. It takes five seconds
// at most, and less than two where those that answer are quick. The error is the ring's if that
// fails meanwhile.
func (r *Ring) Disagreement(number uint64, known map[int]string, awaited string) error {
	byRank := r.awaitCalls(number, known)
	for rank := range byRank {
		if c := &byRank[rank]; c.Call == "" {
			c.State = cmp.Or(c.State, "not known, no answer came in time")
		}
	}
	var v *Verdict
	if err := r.Err(); errors.As(err, &v) {
		return err
	}
	e := &DisagreementError{Number: number, Calls: calls.Tabulate(byRank)}
	if !calls.Differ(e.Calls) {
		e.Awaited = awaited
	}
	return e
}

// awaitCalls returns what is known of all ranks once that is something, or has not become
// more for long.
func (r *Ring) awaitCalls(number uint64, known map[int]string) []Called {
	c := &r.callTables
	c.mu.Lock()
	defer c.mu.Unlock()
	t := r.callTable(operation{r.Epoch(), number})
	if t == nil {
		t = &callTable{byRank: make([]Called, len(r.nodes)), news: make(signal)}
	}
	for rank, call := range known {
		t.merge([]Called{{Call: call, Ranks: []int{rank}}})
	}
	most, made := time.Now().Add(tableMost), -1
	var quiet time.Time
	for {
		whole := !slices.ContainsFunc(t.byRank, func(c Called) bool { return c.Call == "" && c.State == "" })
		if t.made != made {
			made, quiet = t.made, time.Now().Add(tableWithin)
		}
		if now := time.Now(); whole || c.closed || r.Failed() || now.After(quiet) || now.After(most) {
			return slices.Clone(t.byRank)
		}
		news := t.news
		c.mu.Unlock()
		select {
		case <-news:
		case <-time.After(awaitTick): // the ring may have failed
		}
		c.mu.Lock()
	}
}
