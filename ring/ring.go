package ring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ringcli/ring/bootstrap"
	"ringcli/trace"
	"ringcli/verbs"
)

// ErrUsage is wrapped by errors that a change of the command line or of the
// configuration would mend.
var ErrUsage = bootstrap.ErrUsage

// IsUsage tells whether an error is one of usage or configuration (exit code 3)
// rather than of the running ring (exit code 2).
func IsUsage(err error) bool { return errors.Is(err, ErrUsage) }

// Verdict is the error of a ring that failed, as all its ranks are told.
type Verdict = bootstrap.Verdict

// firstEpoch is the epoch of a ring that was connected once. Every header and
// control frame carries it, so that what an earlier ring left behind is dropped.
const firstEpoch = 1

// Ring is one rank's place in a ring: its device, the edges to both neighbours
// and the control ring. Steps are called by one goroutine after the other; State,
// Failed, Err, Fail and Close may be called at any time.
type Ring struct {
	nodes  []bootstrap.Node
	rank   int
	opts   Options
	digest string

	life     context.Context // ends with Close, and running steps with it
	endLife  context.CancelFunc
	stepping sync.Mutex // held by a step, and by Close

	failed atomic.Bool
	moved  atomic.Uint64 // polls that found completions

	mu    sync.Mutex // guards state and err, and the queue pairs' life
	state State
	err   error

	// Made by Open, released by Close.
	addrs   []netip.AddrPort
	local   netip.Addr
	control *bootstrap.Control
	context verbs.Context
	device  verbs.DeviceAttr
	port    verbs.PortAttr
	gid     verbs.GIDEntry
	pd      verbs.PD
	channel verbs.CompChannel
	cq      verbs.CQ
	edges   [2]*Edge // guarded by mu where Fail and Close may meet
	remote  [2]offer // by Exchange
	pings   uint64   // calls of Ping, the sequence of its messages

	// Completions that came an operation too soon. They belong to who runs the
	// operation.
	deferred, early []verbs.Completion
}

// New checks the list, the index and the options. The entries of servers are
// what bootstrap.ParseList takes: hosts, or whole lists, or @FILE.
func New(servers []string, index int, o Options) (*Ring, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	nodes, err := bootstrap.ParseListPort(strings.Join(servers, "\n"), o.TCPPort)
	if err != nil {
		return nil, err
	}
	if index < 0 || index >= len(nodes) {
		return nil, bootstrap.Usagef("index %d is outside the list of %d nodes: expected 0 to %d, this node's place in the list", index, len(nodes), len(nodes)-1)
	}
	r := &Ring{nodes: nodes, rank: index, opts: o, digest: bootstrap.Digest(nodes)}
	r.life, r.endLife = context.WithCancel(context.Background())
	return r, nil
}

// Connect takes all steps in order. On an error everything is released.
func Connect(ctx context.Context, servers []string, index int, o Options) (*Ring, error) {
	r, err := New(servers, index, o)
	if err != nil {
		return nil, err
	}
	ping := func(ctx context.Context) error {
		_, err := r.Ping(ctx, 1)
		return err
	}
	for _, step := range []func(context.Context) error{r.Open, r.Init, r.Exchange, r.RTR, r.RTS, ping} {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, r.Close())
		}
	}
	return r, nil
}

// Rank returns this rank, from 0.
func (r *Ring) Rank() int { return r.rank }

// Size returns the number of ranks.
func (r *Ring) Size() int { return len(r.nodes) }

// Nodes returns the server list, by rank. The caller must not change it.
func (r *Ring) Nodes() []bootstrap.Node { return r.nodes }

// Options returns the options in force, defaults filled in.
func (r *Ring) Options() Options { return r.opts }

// Epoch returns the number that headers and control frames carry.
func (r *Ring) Epoch() uint32 { return firstEpoch }

// LocalAddr returns the IP address that this rank speaks from, after Open.
func (r *Ring) LocalAddr() netip.Addr { return r.local }

// Left returns the edge that data comes from, after Init.
func (r *Ring) Left() *Edge { return r.edges[Left] }

// Right returns the edge that data goes to, after Init.
func (r *Ring) Right() *Edge { return r.edges[Right] }

// Edge returns the edge at a side, after Init.
func (r *Ring) Edge(s Side) *Edge { return r.edges[s] }

// Context returns the open device, after Open.
func (r *Ring) Context() verbs.Context { return r.context }

// PD returns the protection domain of both edges, after Open.
func (r *Ring) PD() verbs.PD { return r.pd }

// CQ returns the completion queue of both edges, after Open.
func (r *Ring) CQ() verbs.CQ { return r.cq }

// Channel returns the CQ's completion channel, after Open.
func (r *Ring) Channel() verbs.CompChannel { return r.channel }

// NewWaiter returns a waiter on the CQ, of the policy in Options.
func (r *Ring) NewWaiter() verbs.Waiter {
	return verbs.Waiter{CQ: r.cq, Channel: r.channel, Policy: r.opts.Wait}
}

// Begin starts an operation over the queue pairs: completions that the last one
// deferred come first. Only who runs the operation may call Begin,
// Poll, Defer and End.
func (r *Ring) Begin() {
	r.early = append(r.early, r.deferred...)
	r.deferred = r.deferred[:0]
}

// Defer hands back the completion of a receive that belongs to the next
// operation: the left neighbour is done with this one and has begun it already.
// Nothing is reposted before it has been polled again.
func (r *Ring) Defer(wc verbs.Completion) { r.deferred = append(r.deferred, wc) }

// Poll polls the CQ, and lets the control ring know that something moves: while
// it does, a silent TCP connection is no reason to give up a neighbour.
func (r *Ring) Poll(wc []verbs.Completion) (int, error) {
	if len(r.early) > 0 {
		n := copy(wc, r.early)
		r.early = r.early[:copy(r.early, r.early[n:])]
		return n, nil
	}
	n, err := r.cq.Poll(wc)
	if n > 0 {
		r.moved.Add(1)
	}
	return n, err
}

// End ends an operation over the queue pairs: the neighbours get the ACKs that
// they wait for now, not when somebody polls again.
func (r *Ring) End() error {
	_, err := r.cq.Poll(nil)
	return err
}

// Counters returns the counters of the device's port.
func (r *Ring) Counters() ([]verbs.Counter, error) {
	if r.context == nil {
		return nil, &StepError{Step: "counters", State: r.State(), Missing: "open"}
	}
	return r.context.Counters(r.opts.Port)
}

// State returns how far the ring has come.
func (r *Ring) State() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// Usable returns nil if the queue pairs are in RTS and the ring has not failed,
// else why operations cannot run.
func (r *Ring) Usable() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.err != nil:
		return r.err
	case r.state == StateRTS || r.state == StateReady:
		return nil
	case r.state < StateRTS:
		return &StepError{Step: "operation", State: r.state, Missing: steps[r.state+1]}
	default:
		return &StepError{Step: "operation", State: r.state}
	}
}

// Failed reports whether the ring failed, here or at any rank. It is one atomic
// load, for poll loops.
func (r *Ring) Failed() bool { return r.failed.Load() }

// Err returns why the ring failed: the first reason, or nil.
func (r *Ring) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Fail fails the ring for all ranks: the queue pairs go to ERR, which flushes
// what is posted, and the reason goes round the control ring. The first reason
// counts; Fail may be called by anybody at any time.
func (r *Ring) Fail(err error) {
	r.setFailed(err)
	r.mu.Lock()
	control := r.control
	r.mu.Unlock()
	if control == nil {
		return
	}
	v := &Verdict{Kind: bootstrap.KindFailed, Rank: -1, By: r.rank, Text: err.Error()}
	var c *CompletionError
	switch {
	case IsUsage(err):
		v.Kind = bootstrap.KindMismatch
	case errors.Is(err, context.DeadlineExceeded):
		v.Kind = bootstrap.KindTimeout
	case errors.As(err, &c):
		v.Rank = c.Peer
	}
	control.Fail(v)
}

// setFailed is the local half of Fail.
func (r *Ring) setFailed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil || r.state == StateClosed {
		return
	}
	r.err, r.state = err, StateFailed
	r.failed.Store(true)
	for _, e := range r.edges {
		if e == nil || e.QP == nil {
			continue
		}
		if err := e.QP.Modify(verbs.QPAttr{State: verbs.StateErr}, verbs.AttrState); err != nil {
			trace.Debug(trace.Ring, "queue pair to ERR", slog.String("side", e.Side.String()), slog.String("error", err.Error()))
		}
	}
	trace.Debug(trace.Ring, "the ring failed", slog.String("why", err.Error()))
}

// step runs one step within its deadline. An error fails the ring.
func (r *Ring) step(ctx context.Context, to State, do func(context.Context) error) error {
	return r.untimedStep(ctx, to, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, r.opts.Timeout)
		defer cancel()
		return do(ctx)
	})
}

// untimedStep is step for what keeps its own deadlines.
func (r *Ring) untimedStep(ctx context.Context, to State, do func(context.Context) error) error {
	r.stepping.Lock()
	defer r.stepping.Unlock()
	if err := checkStep(r.State(), to); err != nil {
		return err
	}
	ctx, cancel := r.whileAlive(ctx)
	defer cancel()
	start := time.Now()
	if r.control != nil {
		r.control.SetState(steps[to])
	}
	err := do(ctx)
	if err == nil {
		err = r.Err() // a verdict that came meanwhile
	}
	if err != nil {
		return r.stepFailed(ctx, steps[to], err)
	}
	r.mu.Lock()
	if r.state != StateFailed {
		r.state = to
	}
	r.mu.Unlock()
	r.control.SetState(to.String())
	trace.Debug(trace.Ring, "step done", slog.String("step", steps[to]), slog.Duration("took", time.Since(start)))
	return nil
}

// stepFailed makes a step's error the ring's. What another rank found out stays
// as it was said; a cancelled step is no verdict on anybody: the neighbours will
// hear a goodbye.
func (r *Ring) stepFailed(ctx context.Context, step string, err error) error {
	var v *Verdict
	if errors.As(err, &v) {
		r.setFailed(v)
		return v
	}
	err = fmt.Errorf("%s: %w", step, err)
	if errors.Is(ctx.Err(), context.Canceled) {
		r.setFailed(err)
		return err
	}
	r.Fail(err)
	return err
}

// whileAlive limits a wait to the ring's life.
func (r *Ring) whileAlive(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(r.life, cancel)
	return ctx, func() { stop(); cancel() }
}

// controlled runs an operation of the control ring within Options.Timeout.
func controlled[T any](ctx context.Context, r *Ring, do func(context.Context, *bootstrap.Control) (T, error)) (T, error) {
	r.mu.Lock()
	control, state := r.control, r.state
	r.mu.Unlock()
	if control == nil || state == StateClosed {
		var none T
		return none, &StepError{Step: "control operation", State: state, Missing: map[bool]string{true: "open"}[state == StateNew]}
	}
	ctx, timely := context.WithTimeout(ctx, r.opts.Timeout)
	defer timely()
	ctx, cancel := r.whileAlive(ctx)
	defer cancel()
	return do(ctx, control)
}

// Gather collects one slice of bytes from every rank on every rank, by rank, over
// the control ring. Control operations must be called in the same order on all
// ranks, after Exchange.
func (r *Ring) Gather(ctx context.Context, data []byte) ([][]byte, error) {
	return controlled(ctx, r, func(ctx context.Context, c *bootstrap.Control) ([][]byte, error) { return c.Gather(ctx, data) })
}

// Broadcast returns rank 0's data on every rank.
func (r *Ring) Broadcast(ctx context.Context, data []byte) ([]byte, error) {
	return controlled(ctx, r, func(ctx context.Context, c *bootstrap.Control) ([]byte, error) { return c.Broadcast(ctx, data) })
}

// Barrier returns when all ranks have called it.
func (r *Ring) Barrier(ctx context.Context) error {
	_, err := controlled(ctx, r, func(ctx context.Context, c *bootstrap.Control) (struct{}, error) { return struct{}{}, c.Barrier(ctx) })
	return err
}

// Probe asks every other rank over TCP how it is; it takes at most a second.
func (r *Ring) Probe(ctx context.Context) ([]bootstrap.PeerReport, error) {
	return controlled(ctx, r, func(ctx context.Context, c *bootstrap.Control) ([]bootstrap.PeerReport, error) {
		return c.Probe(ctx), nil
	})
}

// Close says goodbye to the neighbours and releases everything: queue pairs,
// memory, sockets, goroutines. It may be called in any state, and twice; a step
// that runs is ended first. Operations on the CQ must have ended.
func (r *Ring) Close() error {
	r.endLife()
	r.stepping.Lock()
	defer r.stepping.Unlock()
	if r.State() == StateClosed {
		return nil
	}
	if r.control != nil {
		r.control.Goodbye()
	}
	r.mu.Lock()
	r.state = StateClosed
	edges := r.edges
	r.edges = [2]*Edge{}
	r.mu.Unlock()
	var errs []error
	for _, e := range edges {
		if e != nil {
			errs = append(errs, e.close())
		}
	}
	if r.cq != nil {
		errs = append(errs, r.cq.Close())
	}
	if r.channel != nil {
		errs = append(errs, r.channel.Close())
	}
	if r.pd != nil {
		errs = append(errs, r.pd.Close())
	}
	if r.context != nil {
		errs = append(errs, r.context.Close())
	}
	if r.control != nil {
		errs = append(errs, r.control.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	trace.Debug(trace.Ring, "closed")
	return nil
}
