package bootstrap

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"time"

	"ringcli/configs/usage"
	"ringcli/ring/bootstrap/oob"
)

// MaxPart is the most bytes that one rank can put into Gather or Broadcast:
// base64 in JSON makes four of three.
const MaxPart = (oob.MaxFrame - 4096) / 4 * 3

// maxAhead bounds the operations that others may have begun and this rank not,
// before their frames are left in the socket, and answers behind them with them.
const maxAhead = 256

// maxTogether bounds the bytes of parts that go in one frame, other than a single one: a
// frame is passed on once it has come whole.
const maxTogether = 16 << 10

// parts are some ranks' contributions to an operation of the control ring. Each goes right
// until it has seen every rank.
type parts struct {
	Op      uint64   `json:"op"` // counts the operations
	Kind    string   `json:"kind"`
	Call    uint64   `json:"call,omitempty"`
	Do      string   `json:"do,omitempty"`
	Origins []int    `json:"origins"`
	Data    []string `json:"data"` // of each, in base64
	bytes   int
}

// add appends a rank's part.
func (p *parts) add(origin int, data string) {
	const least = 8 // around it
	p.Origins, p.Data, p.bytes = append(p.Origins, origin), append(p.Data, data), p.bytes+least+len(data)
}

// operation collects parts. Those of an operation that this rank has not begun
// yet wait in it.
type operation struct {
	purpose Purpose
	by      int // the rank whose part fixed the purpose
	parts   [][]byte
	have    []bool
	came    int // so many
	clash   string
	held    parts // of this rank's block, until all of it has come
	passed  bool  // so: what comes is held no more
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
	return c.collect(ctx, purpose, data, true, true)
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
	parts, err := c.collect(ctx, Purpose{What: "broadcast", Do: "say what comes next"}, data, c.rank == 0, false)
	if err != nil {
		return nil, err
	}
	return parts[0], nil
}

// collect contributes data and waits for the parts of all ranks, or for that of rank 0. A
// caller that gives up leaves the ring in step: what it contributed is on its way, and what
// still comes is dropped.
func (c *Control) collect(ctx context.Context, purpose Purpose, data []byte, contribute, all bool) ([][]byte, error) {
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
		own := parts{Op: id, Kind: kind, Call: purpose.Call, Do: purpose.Do}
		own.add(c.rank, base64.StdEncoding.EncodeToString(data))
		c.take(op, &own, [][]byte{data})
	}
	c.notify() // a reader may have waited for this rank to catch up
	c.mu.Unlock()

	err := c.wait(ctx, purpose.ToDo(), contribute, func() (absent []int) {
		switch {
		case op.clash != "" || op.came == c.size || !all && op.have[0]:
			return nil
		case !all:
			return []int{0}
		}
		for r, have := range op.have {
			if !have {
				absent = append(absent, r)
			}
		}
		return absent
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.release(op)
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

// takeParts takes parts that came from the left.
func (c *Control) takeParts(l *connection, p parts) error {
	strange := func(rank int) bool { return rank < 0 || rank >= c.size }
	if l.side != left || p.Op == 0 || len(p.Origins) == 0 || len(p.Data) != len(p.Origins) || slices.ContainsFunc(p.Origins, strange) {
		return fmt.Errorf("%d parts of operation %d from ranks %v: expected one from each, below %d, from the left", len(p.Data), p.Op, p.Origins, c.size)
	}
	data := make([][]byte, len(p.Data))
	for i, text := range p.Data {
		var err error
		if data[i], err = base64.StdEncoding.DecodeString(text); err != nil {
			return fmt.Errorf("part of operation %d from rank %d: %w", p.Op, p.Origins[i], err)
		}
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
	if p.Op <= c.lastOp && c.ops[p.Op] == nil { // its caller has given up
		for i, origin := range p.Origins {
			c.pass(&p, origin, p.Data[i])
		}
		return nil
	}
	op := c.operation(p.Op, Purpose{What: p.Kind, Call: p.Call, Do: p.Do}, p.Origins[0])
	c.take(op, &p, data)
	if c.untold = op.came < c.size && op.clash == "" && !slices.Contains(p.Origins, 0); !c.untold {
		c.notify() // a broadcast is rank 0's alone
	}
	return nil
}

// take stores what parts have and passes them on, those of this rank's block together. It
// needs the lock.
func (c *Control) take(op *operation, p *parts, data [][]byte) {
	for i, origin := range p.Origins {
		if !op.have[origin] {
			op.have[origin] = true
			op.came++
		}
		op.parts[origin] = data[i]
		if origin < c.block || origin > c.rank || op.passed || op.clash != "" {
			c.pass(p, origin, p.Data[i])
			continue
		}
		if op.held.Op == 0 {
			op.held = parts{Op: p.Op, Kind: p.Kind, Call: p.Call, Do: p.Do}
		}
		op.held.add(origin, p.Data[i])
	}
	if len(op.held.Origins) == c.rank+1-c.block {
		c.release(op)
	}
}

// blockOf is the first of the ranks up to this one whose parts it passes on together, as the
// last rank of a block: frames a rank are as many as blocks and ranks of a block, and not as
// ranks. They come no later than the last of them would. A ring of few has none, nor has
// rank 0 one: a broadcast is its part alone.
func blockOf(rank, size int) int {
	const least = 16
	side := int(math.Sqrt(float64(size)))
	if size < least || rank%side != side-1 && rank != size-1 {
		return rank + 1
	}
	return max(rank-rank%side, 1)
}

// release passes on what is held: a rank of the block may come much later. It needs the lock.
func (c *Control) release(op *operation) {
	for i, origin := range op.held.Origins {
		c.pass(&op.held, origin, op.held.Data[i])
	}
	op.passed = op.passed || len(op.held.Origins) > 0
	op.held = parts{}
}

// pass sends one of some parts to the right, in a frame with those that wait to be written. It
// needs the lock.
func (c *Control) pass(of *parts, origin int, data string) {
	l := c.connections[right]
	if l == nil || l.ended || l.peer == origin {
		return
	}
	var p *parts
	if n := len(l.out); n > 0 {
		p = l.out[n-1].parts
	}
	if p == nil || p.Op != of.Op || p.Kind != of.Kind || p.bytes+len(data) > maxTogether {
		p = &parts{Op: of.Op, Kind: of.Kind, Call: of.Call, Do: of.Do}
		c.queue(l, outgoing{parts: p})
	}
	p.add(origin, data)
}
