// Package disagreement finds out what every rank of a ring calls as an operation, once one
// of them knows that not all call the same.
package disagreement

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ringcli/configs/codes"
	"ringcli/configs/usage"
	"ringcli/ring/bootstrap/calls"
	"ringcli/ring/edges"
)

// Error says that ranks call different operations. It is an ErrUsage of package
// configs/usage.
type Error struct {
	Number uint64 // of the operation on this ring, from 1
	// Calls says who calls what: those that differ from most come first.
	Calls []calls.Called
	// Awaited is set where it is not known what the others call.
	Awaited string
}

func (e *Error) Error() string {
	text := calls.Tell("call", e.Calls)
	if e.Awaited != "" {
		text += "; " + e.Awaited
	}
	return fmt.Sprintf("operation %d: %s: all ranks must make the same calls in the same order", e.Number, text)
}

// FailureCode is that of a call that others do not make.
func (e *Error) FailureCode() codes.Code { return codes.Calls }

// Is makes a disagreement an usage.Err.
func (e *Error) Is(target error) bool { return target == usage.Err }

const (
	// tableWithin is for how long a rank waits for what the others call after the last news of
	// it: a rank that is silent costs all of that. tableMost is for how long in all.
	tableWithin, tableMost = 1500 * time.Millisecond, 5 * time.Second
	// callWithin is how long a rank that hears of a disagreement may take to make the call:
	// ranks of an orderly ring are less apart.
	callWithin = 200 * time.Millisecond
	// tablesMost operations are asked about at a time: ranks are at one, and some at the next.
	tablesMost = 16
	// failedTick is the pause between two looks whether the ring has failed.
	failedTick = 5 * time.Millisecond
)

// Told is what a rank tells a neighbour, and asks what that knows. The answer is what both
// know then.
type Told struct {
	Operation
	Calls []calls.Called `json:"calls"`
}

// Operation tells one from all others of a ring that is rebuilt.
type Operation struct {
	Epoch  uint32 `json:"epoch"`
	Number uint64 `json:"number"`
}

// table is what is known of who calls what as an operation. A rank that finds out that
// another calls something else, or hears of it from a neighbour, tells both neighbours what
// it knows and these do not, again when it knows more. So each call goes round the ring once,
// and a rank that does not answer keeps nothing from the others.
type table struct {
	byRank []calls.Called // those that are not known have neither call nor state
	shared [2]int         // by side: what the neighbour knows, too, was known after so many changes
	made   int            // changes
	news   chan struct{}  // closed, and replaced, at a change
}

// merge takes what another rank knows. That a rank makes a call counts more than that it
// did not soon.
func (t *table) merge(told []calls.Called) {
	before := t.made
	for _, theirs := range told {
		for _, rank := range theirs.Ranks {
			if rank < 0 || rank >= len(t.byRank) {
				continue
			}
			ours := &t.byRank[rank]
			if ours.Call == "" && (theirs.Call != "" || ours.State == "" && theirs.State != "") {
				*ours = calls.Called{Call: theirs.Call, State: theirs.State}
				t.made++
			}
		}
	}
	if t.made > before {
		close(t.news)
		t.news = make(chan struct{})
	}
}

// known is what is known of the ranks of which anything is.
func (t *table) known() []calls.Called {
	return slices.DeleteFunc(calls.Tabulate(t.byRank), func(c calls.Called) bool { return c.Call == "" && c.State == "" })
}

// Ring is what tables need of a rank's ring.
type Ring struct {
	Rank, Size int
	Life       context.Context // ends with the ring
	Epoch      func() uint32
	Failed     func() bool
	Activity   func() string // what this rank does, or ""
	// Tell tells the neighbour at a side what is known here, and returns what both know.
	Tell func(ctx context.Context, side edges.Side, told Told) ([]calls.Called, error)
}

// Tables are those that ranks tell each other just now.
type Tables struct {
	ring Ring
	says atomic.Pointer[func(number uint64) string]

	mu      sync.Mutex // guards all below
	tables  map[Operation]*table
	closed  bool
	telling sync.WaitGroup // added to with mu held, before closed
}

// New returns none.
func New(r Ring) *Tables { return &Tables{ring: r, tables: map[Operation]*table{}} }

// Close ends what is told, after the ring's life.
func (c *Tables) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.telling.Wait()
}

// Say says how to find out what this rank calls as an operation; "" is that it has
// not come to it. It is called on any goroutine. nil is a rank that calls nothing.
func (c *Tables) Say(call func(number uint64) string) { c.says.Store(&call) }

// called is what this rank calls as an operation, if it does soon.
func (c *Tables) called(ctx context.Context, number uint64) calls.Called {
	for begun := time.Now(); ; {
		says := c.says.Load()
		if says == nil || *says == nil {
			break
		}
		if call := (*says)(number); call != "" {
			return calls.Called{Call: call}
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
	if doing := c.ring.Activity(); doing != "" {
		state += " (" + doing + ")"
	}
	return calls.Called{State: state}
}

// Hear takes what the neighbour at a side knows, and returns what both know. ok is false if
// the ring is elsewhere, or closes.
func (c *Tables) Hear(side edges.Side, told Told) (known []calls.Called, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.table(told.Operation)
	if t == nil {
		return nil, false
	}
	t.merge(told.Calls)
	t.shared[side] = t.made
	return t.known(), true
}

// table returns what is known of an operation, and has it told for a while from when it
// is asked for first. It needs mu; nil is that the ring is closed, or elsewhere.
func (c *Tables) table(o Operation) *table {
	if t := c.tables[o]; t != nil || c.closed || o.Epoch != c.ring.Epoch() || len(c.tables) == tablesMost {
		return t
	}
	t := c.empty()
	c.tables[o] = t
	c.telling.Go(func() {
		ctx, cancel := context.WithTimeout(c.ring.Life, tableMost)
		defer cancel()
		var telling sync.WaitGroup
		for _, side := range []edges.Side{edges.Left, edges.Right} {
			telling.Go(func() { c.tell(ctx, side, o, t) })
		}
		own := c.called(ctx, o.Number)
		own.Ranks = []int{c.ring.Rank}
		c.mu.Lock()
		t.merge([]calls.Called{own})
		c.mu.Unlock()
		telling.Wait()
		c.mu.Lock()
		delete(c.tables, o)
		c.mu.Unlock()
	})
	return t
}

func (c *Tables) empty() *table {
	return &table{byRank: make([]calls.Called, c.ring.Size), news: make(chan struct{})}
}

// tell tells the neighbour at a side what it does not know, until ctx ends.
func (c *Tables) tell(ctx context.Context, side edges.Side, o Operation, t *table) {
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
		both, err := c.ring.Tell(ctx, side, Told{o, known})
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

// Find finds out what all ranks call as an operation of which it is known that
// some call something else: known is what some ranks call for sure. It takes five seconds
// at most, and less than two where those that answer are quick.
func (c *Tables) Find(number uint64, known map[int]string, awaited string) *Error {
	byRank := c.await(number, known)
	for rank := range byRank {
		if r := &byRank[rank]; r.Call == "" {
			r.State = cmp.Or(r.State, "not known, no answer came in time")
		}
	}
	e := &Error{Number: number, Calls: calls.Tabulate(byRank)}
	if !calls.Differ(e.Calls) {
		e.Awaited = awaited
	}
	return e
}

// await returns what is known of all ranks once that is something, or has not become
// more for long.
func (c *Tables) await(number uint64, known map[int]string) []calls.Called {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := cmp.Or(c.table(Operation{c.ring.Epoch(), number}), c.empty())
	for rank, call := range known {
		t.merge([]calls.Called{{Call: call, Ranks: []int{rank}}})
	}
	most, made := time.Now().Add(tableMost), -1
	var quiet time.Time
	for {
		whole := !slices.ContainsFunc(t.byRank, func(c calls.Called) bool { return c.Call == "" && c.State == "" })
		if t.made != made {
			made, quiet = t.made, time.Now().Add(tableWithin)
		}
		if now := time.Now(); whole || c.closed || c.ring.Failed() || now.After(quiet) || now.After(most) {
			return slices.Clone(t.byRank)
		}
		news := t.news
		c.mu.Unlock()
		select {
		case <-news:
		case <-time.After(failedTick):
		}
		c.mu.Lock()
	}
}
