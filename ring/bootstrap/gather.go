package bootstrap

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"sync"
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

// empty makes parts of the same operation.
func (p *parts) empty() *parts { return &parts{Op: p.Op, Kind: p.Kind, Call: p.Call, Do: p.Do} }

// gathers are the operations of the control ring.
type gathers struct {
	own        *node
	life       *lifetime
	neighbours *neighbours
	outcome    *outcome
	changes    *changes
	failing    func() bool // the ring has failed, or is about to
	wait       waitFunc
	block      int // see blockOf

	mu     sync.Mutex // guards the following
	ops    map[uint64]*operation
	lastOp uint64
	untold bool // parts have come that no wait was told of
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

// ahead returns the operation that this rank has to begin next if another has begun
// it: what it is for, and the rank that it was first heard from.
func (g *gathers) ahead() (purpose Purpose, by int, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	op := g.ops[g.lastOp+1]
	if op == nil {
		return Purpose{}, -1, false
	}
	return op.purpose, op.by, true
}

// collect contributes data and waits for the parts of all ranks, or for that of rank 0. A
// caller that gives up leaves the ring in step: what it contributed is on its way, and what
// still comes is dropped.
func (g *gathers) collect(ctx context.Context, purpose Purpose, data []byte, contribute, all bool) ([][]byte, error) {
	kind := purpose.What
	if len(data) > MaxPart {
		return nil, fmt.Errorf("%s of %d bytes: expected at most %d", kind, len(data), MaxPart)
	}
	phase := g.outcome.phase()
	if !phase.sealed {
		return nil, fmt.Errorf("%s: %w", kind, errNotConnected)
	}
	contributes := contribute && !g.failing() && !phase.leaving
	g.mu.Lock()
	g.lastOp++
	id := g.lastOp
	op := g.operation(id, purpose, g.own.rank)
	if contributes {
		own := &parts{Op: id, Kind: kind, Call: purpose.Call, Do: purpose.Do}
		own.add(g.own.rank, base64.StdEncoding.EncodeToString(data))
		g.take(op, own, [][]byte{data})
	}
	g.mu.Unlock()
	g.changes.notify() // a reader may have waited for this rank to catch up

	err := g.wait(ctx, purpose.ToDo(), contribute, func() (absent []int) {
		g.mu.Lock()
		defer g.mu.Unlock()
		switch {
		case op.clash != "" || op.came == g.own.size || !all && op.have[0]:
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
	g.mu.Lock()
	defer g.mu.Unlock()
	g.release(op)
	delete(g.ops, id)
	switch {
	case err != nil:
		return nil, err
	case op.clash != "":
		return nil, usage.Errorf("%s", op.clash)
	}
	return op.parts, nil
}

// operation finds or begins operation id. It needs the lock.
func (g *gathers) operation(id uint64, purpose Purpose, by int) *operation {
	op := g.ops[id]
	if op == nil {
		op = &operation{purpose: purpose, by: by, parts: make([][]byte, g.own.size), have: make([]bool, g.own.size)}
		g.ops[id] = op
	}
	if op.purpose.What != purpose.What && op.clash == "" {
		op.clash = fmt.Sprintf("rank %d is to %s, and rank %d to %s: all ranks must run the same operations in the same order",
			op.by, op.purpose.ToDo(), by, purpose.ToDo())
	}
	return op
}

// takeParts takes parts that came from the left.
func (g *gathers) takeParts(l *connection, p parts) error {
	strange := func(rank int) bool { return rank < 0 || rank >= g.own.size }
	if l.side != left || p.Op == 0 || len(p.Origins) == 0 || len(p.Data) != len(p.Origins) || slices.ContainsFunc(p.Origins, strange) {
		return fmt.Errorf("%d parts of operation %d from ranks %v: expected one from each, below %d, from the left", len(p.Data), p.Op, p.Origins, g.own.size)
	}
	data := make([][]byte, len(p.Data))
	for i, text := range p.Data {
		var err error
		if data[i], err = base64.StdEncoding.DecodeString(text); err != nil {
			return fmt.Errorf("part of operation %d from rank %d: %w", p.Op, p.Origins[i], err)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if ahead := func() bool { return p.Op > g.lastOp+maxAhead }; ahead() {
		g.mu.Unlock()
		l.set(func() { l.now.blocked = true })
		g.changes.until(g.life.ring, func() bool {
			g.mu.Lock()
			defer g.mu.Unlock()
			return !ahead()
		})
		l.set(func() { l.now.blocked, l.now.heard = false, time.Now() })
		g.mu.Lock()
	}
	if p.Op <= g.lastOp && g.ops[p.Op] == nil { // its caller has given up
		for i, origin := range p.Origins {
			g.pass(&p, origin, p.Data[i])
		}
		return nil
	}
	op := g.operation(p.Op, Purpose{What: p.Kind, Call: p.Call, Do: p.Do}, p.Origins[0])
	g.take(op, &p, data)
	if g.untold = op.came < g.own.size && op.clash == "" && !slices.Contains(p.Origins, 0); !g.untold {
		g.changes.notify() // a broadcast is rank 0's alone
	}
	return nil
}

// take stores what parts have and passes them on, those of this rank's block together. It
// needs the lock.
func (g *gathers) take(op *operation, p *parts, data [][]byte) {
	for i, origin := range p.Origins {
		if !op.have[origin] {
			op.have[origin] = true
			op.came++
		}
		op.parts[origin] = data[i]
		if origin < g.block || origin > g.own.rank || op.passed || op.clash != "" {
			g.pass(p, origin, p.Data[i])
			continue
		}
		if op.held.Op == 0 {
			op.held = *p.empty()
		}
		op.held.add(origin, p.Data[i])
	}
	if len(op.held.Origins) == g.own.rank+1-g.block {
		g.release(op)
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
func (g *gathers) release(op *operation) {
	for i, origin := range op.held.Origins {
		g.pass(&op.held, origin, op.held.Data[i])
	}
	op.passed = op.passed || len(op.held.Origins) > 0
	op.held = parts{}
}

// pass sends one of some parts to the right, in a frame with those that wait to be written. It
// needs the lock.
func (g *gathers) pass(of *parts, origin int, data string) {
	if l := g.neighbours.at(right); l != nil && l.peer != origin {
		l.pass(of, origin, data)
	}
}

// tick passes on what ranks of the block that come late hold up, and wakes the waits that were
// not told of parts.
func (g *gathers) tick() {
	g.mu.Lock()
	for _, op := range g.ops {
		g.release(op)
	}
	untold := g.untold
	g.untold = false
	g.mu.Unlock()
	if untold {
		g.changes.notify()
	}
}
