package ring

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"ringcli/ring/bootstrap"
	"ringcli/ring/message"
	"ringcli/trace"
	"ringcli/verbs/cpu"
)

// Control is a rank's part in the control ring: what it tells and asks others over TCP, and for
// how long it waits for them.
type Control struct {
	of         *membership // never changed
	table      *edgeTable
	diagnosing bool // Options.Diagnosing

	life    context.Context // ends with Close, and running steps with it
	endLife context.CancelFunc
	timeout atomic.Int64  // in nanoseconds, of the waits that begin now
	epoch   atomic.Uint32 // 0 before Exchange
	stale   atomic.Uint64 // messages of another epoch
	asking  chan struct{} // of capacity 1: guards runID, and is held while a goroutine asks for it
	runID   string        // "" until it is known

	// Changed with the token and the table's mu: whoever has either may look.
	boot     *bootstrap.Control // made by Open
	affinity *cpu.Affinity      // by Open; nil if none is needed
}

func newControl(of *membership, table *edgeTable, o *Options) *Control {
	c := &Control{of: of, table: table, diagnosing: o.Diagnosing, asking: make(chan struct{}, 1)}
	c.timeout.Store(int64(o.Timeout))
	c.life, c.endLife = context.WithCancel(context.Background())
	if of.rank == 0 {
		c.runID = rand.Text()
	}
	return c
}

// ring returns the control ring of an open ring.
func (c *Control) ring() (*bootstrap.Control, error) {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	if c.boot == nil || c.table.state == StateClosed {
		return nil, stepError("control operation", standing{State: c.table.state, err: c.table.err}, StateInitialised)
	}
	return c.boot, nil
}

// opened returns the control ring, that of a closed ring, too; nil before Open.
func (c *Control) opened() *bootstrap.Control {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	return c.boot
}

// whileAlive limits a wait to the ring's life.
func (c *Control) whileAlive(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.life, cancel)
	return ctx, func() { stop(); cancel() }
}

// limit is the deadline of a wait that begins now.
func (c *Control) limit() time.Duration { return time.Duration(c.timeout.Load()) }

// restore brings the thread back to its CPU.
func (c *Control) restore() {
	c.table.mu.Lock()
	affinity := c.affinity
	c.table.mu.Unlock()
	affinity.Restore(time.Now())
}

// controlled runs an operation of the control ring, while the ring lives.
func controlled[T any](ctx context.Context, c *Control, do func(context.Context, *bootstrap.Control) (T, error)) (result T, err error) {
	control, err := c.ring()
	if err != nil {
		return result, err
	}
	ctx, cancel := c.whileAlive(ctx)
	defer cancel()
	result, err = do(ctx, control)
	c.restore() // who was woken may be anywhere
	return result, err
}

// SetActivity sets what this rank does, as other ranks are told it that wait for it:
// "idle at its prompt".
func (c *Control) SetActivity(text string) {
	if control, err := c.ring(); err == nil {
		control.SetActivity(text)
	}
}

// Diagnosing tells whether the ring is for a diagnosis over TCP, as this rank or rank 0 has asked for
// with Options.Diagnosing: it is not ready, and its queue pairs are as far as they come.
func (c *Control) Diagnosing() bool {
	if c.diagnosing {
		return true
	}
	control, err := c.ring()
	return err == nil && control.LeaderDiagnoses()
}

// DropStale counts a message of another epoch, which its receiver has dropped.
func (c *Control) DropStale(h *message.Header, peer int) {
	c.stale.Add(1)
	trace.Debug(trace.Ring, "message of another epoch dropped", slog.Int("peer", peer), slog.String("kind", h.Kind.String()),
		slog.Uint64("epoch", uint64(h.Epoch)), slog.Uint64("expected", uint64(c.epoch.Load())))
}

// Stale counts what came of other epochs, messages over queue pairs and control frames,
// and was dropped.
func (c *Control) Stale() uint64 {
	n := c.stale.Load()
	if control, err := c.ring(); err == nil {
		n += control.Stale()
	}
	return n
}

// RunID returns what tells this bring-up of the ring from any other, the same on
// all ranks, after Exchange. Rank 0 has made it up; others ask to the left, once.
func (c *Control) RunID(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.limit())
	defer cancel()
	// One asks for all: in a long ring each rank would pass on as many questions as
	// there are ranks to its right.
	select {
	case c.asking <- struct{}{}:
		defer func() { <-c.asking }()
	case <-ctx.Done():
		return "", fmt.Errorf("the run's id: %w", context.Cause(ctx))
	}
	if c.runID == "" {
		id, err := ask[string](ctx, c, Left, askRunID, nil)
		if err != nil {
			return "", fmt.Errorf("the run's id: %w", err)
		}
		c.runID = id
	}
	return c.runID, nil
}

// awaitedFor is what a neighbour is to do before it answers a question.
var awaitedFor = map[string]string{askAwaitRTR: "take the step rtr", askConnectionData: "take the step init"}

// ask asks the neighbour at a side. It waits until ctx ends.
func ask[T any](ctx context.Context, c *Control, side Side, kind string, payload any) (answer T, err error) {
	raw, err := controlled(ctx, c, func(ctx context.Context, b *bootstrap.Control) (json.RawMessage, error) {
		defer b.Begin(ctx, cmp.Or(awaitedFor[kind], "answer"), c.of.neighbour(side))()
		return b.Ask(ctx, int(side), kind, payload)
	})
	if err != nil || len(raw) == 0 {
		return answer, err
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return answer, fmt.Errorf("the answer of %s to %q makes no sense: %w", c.of.NodeName(c.of.neighbour(side)), kind, err)
	}
	return answer, nil
}

// askBoth asks both neighbours at once. One error is enough.
func askBoth[T any](ctx context.Context, c *Control, kind string) (answers [2]T, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make(chan error, len(answers))
	for side := range answers {
		go func() {
			var err error
			answers[side], err = ask[T](ctx, c, Side(side), kind, nil)
			errs <- err
		}()
	}
	for range answers {
		if e := <-errs; e != nil && err == nil {
			err = e
			cancel()
		}
	}
	return answers, err
}

// The questions that this file answers.
const (
	askAwaitRTR       = "await-rtr"       // answered when the queue pair can receive
	askConnectionData = "connection-data" // what this end says in Exchange, once it is in INIT
	askRunID          = "run-id"
)
