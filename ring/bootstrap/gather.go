package bootstrap

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"ringcli/configs/usage"
)

// MaxPart is the most bytes that one rank can put into Gather or Broadcast:
// base64 in JSON makes four of three.
const MaxPart = (MaxFrame - 4096) / 4 * 3

// maxAhead bounds the operations that others may have begun and this rank not,
// before their frames are left in the socket, and answers behind them with them.
const maxAhead = 256

// part is one rank's contribution to an operation of the control ring. It goes
// right until it has seen every rank.
type part struct {
	Op     uint64 `json:"op"` // counts the operations
	Kind   string `json:"kind"`
	Call   uint64 `json:"call,omitempty"`
	Do     string `json:"do,omitempty"`
	Origin int    `json:"origin"`
	Data   []byte `json:"data,omitempty"`
}

// operation collects parts. Those of an operation that this rank has not begun
// yet wait in it.
type operation struct {
	purpose Purpose
	by      int // the rank whose part fixed the purpose
	parts   [][]byte
	have    []bool
	clash   string
}

// Purpose is what a control operation is for.
type Purpose struct {
	What string
	// Call is the number of the caller's own operation that it is part of; 0 is none.
	Call uint64
	// Do is what ranks that are awaited were to do, in a few words for people; ""
	// stands for "join" and What.
	Do string
}

// String is as in "operation 3, inbox".
func (p Purpose) String() string {
	if p.Call != 0 {
		return fmt.Sprintf("operation %d, %s", p.Call, p.What)
	}
	return p.What
}

// ToDo is what ranks that are awaited were to do.
func (p Purpose) ToDo() string { return cmp.Or(p.Do, "join "+p.What) }

// Gather collects one slice of bytes from every rank on every rank, by rank. All ranks
// must name the purpose alike: the error of ranks that differ, one of usage, names both
// purposes, that of a wait in vain the own one.
func (c *Control) Gather(ctx context.Context, purpose Purpose, data []byte) ([][]byte, error) {
	return c.collect(ctx, purpose, data, true, nil)
}

// Ahead returns the operation that this rank has to begin next if another has begun
// it: what it is for, and the rank that it was first heard from.
func (c *Control) Ahead() (purpose Purpose, by int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	op := c.ops[c.lastOp+1]
	if op == nil {
		return Purpose{}, -1, false
	}
	return op.purpose, op.by, true
}

// Broadcast returns rank 0's data on every rank; the others' is not looked at.
func (c *Control) Broadcast(ctx context.Context, data []byte) ([]byte, error) {
	parts, err := c.collect(ctx, Purpose{What: "broadcast", Do: "say what comes next"}, data, c.rank == 0, []int{0})
	if err != nil {
		return nil, err
	}
	return parts[0], nil
}

// collect contributes data and waits for the parts of the ranks in from, or of
// all. A caller that gives up leaves the ring in step: what it contributed is on
// its way, and what still comes is dropped.
func (c *Control) collect(ctx context.Context, purpose Purpose, data []byte, contribute bool, from []int) ([][]byte, error) {
	kind := purpose.What
	if len(data) > MaxPart {
		return nil, fmt.Errorf("%s of %d bytes: expected at most %d", kind, len(data), MaxPart)
	}
	c.mu.Lock()
	if !c.sealed {
		c.mu.Unlock()
		return nil, fmt.Errorf("%s: %w", kind, errNotConnected)
	}
	c.lastOp++
	id := c.lastOp
	op := c.operation(id, purpose, c.rank)
	if contribute && !c.failing() && !c.leaving {
		op.parts[c.rank], op.have[c.rank] = data, true
		if c.size > 1 {
			c.send(c.connections[right], TypePart, part{Op: id, Kind: kind, Call: purpose.Call, Do: purpose.Do, Origin: c.rank, Data: data})
		}
	}
	c.notify() // a reader may have waited for this rank to catch up
	c.mu.Unlock()

	err := c.wait(ctx, purpose.ToDo(), contribute, func() []int {
		if op.clash != "" {
			return nil
		}
		var absent []int
		for r, have := range op.have {
			if !have && (from == nil || slices.Contains(from, r)) {
				absent = append(absent, r)
			}
		}
		return absent
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.ops, id)
	switch {
	case err != nil:
		return nil, err
	case op.clash != "":
		return nil, usage.Errorf("%s", op.clash)
	}
	return op.parts, nil
}

// operation finds or begins operation id. It needs the lock.
func (c *Control) operation(id uint64, purpose Purpose, by int) *operation {
	op := c.ops[id]
	if op == nil {
		op = &operation{purpose: purpose, by: by, parts: make([][]byte, c.size), have: make([]bool, c.size)}
		c.ops[id] = op
	}
	if op.purpose.What != purpose.What && op.clash == "" {
		op.clash = fmt.Sprintf("rank %d is to %s, and rank %d to %s: all ranks must run the same operations in the same order",
			op.by, op.purpose.ToDo(), by, purpose.ToDo())
	}
	return op
}

// takePart stores a part that came from the left and passes it on to the right.
func (c *Control) takePart(l *connection, p part) error {
	if p.Origin < 0 || p.Origin >= c.size || l.side != left || p.Op == 0 {
		return fmt.Errorf("part of operation %d from rank %d: expected a rank below %d, from the left", p.Op, p.Origin, c.size)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for p.Op > c.lastOp+maxAhead && !c.closed && c.failure == nil {
		changed := c.changed
		l.blocked = true
		c.mu.Unlock()
		<-changed
		c.mu.Lock()
		l.blocked, l.heard = false, time.Now()
	}
	if next := c.connections[right]; next != nil && c.neighbour(right) != p.Origin {
		c.send(next, TypePart, p)
	}
	if p.Op <= c.lastOp && c.ops[p.Op] == nil {
		return nil // its caller has given up
	}
	op := c.operation(p.Op, Purpose{What: p.Kind, Call: p.Call, Do: p.Do}, p.Origin)
	op.parts[p.Origin], op.have[p.Origin] = p.Data, true
	c.notify()
	return nil
}
