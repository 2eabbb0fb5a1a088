package ring

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"ringcli/configs/usage"
	"ringcli/ring/bootstrap"
	"ringcli/ring/bootstrap/hosts"
	"ringcli/ring/device"
	"ringcli/ring/polling"
	"ringcli/trace"
)

// Ring is one rank's place in a ring: its devices, the edges to both neighbours
// and the control ring. Steps are called by one goroutine after the other; State,
// Failed, Err, Fail and Close may be called at any time.
type Ring struct {
	membership         // never changed
	opts       Options // never changed

	table   *edgeTable // the edges, and how far they have come
	control *Control   // what goes over TCP
	devices *devices
	poll    *poller
	pings   *pings
	host    *Host
	memory  *Memory
	faults  *Faults
	ends    *Ends
	stalls  *Stalls
	failure *Failure

	watching sync.WaitGroup // idleWatch and linkWatch
	met      bool           // the neighbours were found; needs the token
}

// New checks the list, the index and the options. The entries of servers are
// what hosts.Parse takes: hosts, or whole lists, or @FILE. A list of ports that are perhaps
// numbers of ranks is warned about.
func New(servers []string, index int, o Options) (*Ring, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	whole, err := hosts.Parse(strings.Join(servers, "\n"), o.TCPPort)
	if err != nil {
		return nil, err
	}
	if question := hosts.PortsLikeSlots(whole); question != "" {
		trace.Warn(trace.Ring, question)
	}
	if index < 0 || index >= len(whole) {
		return nil, usage.Errorf("index %d is outside the list of %d nodes: expected 0 to %d, this node's place in the list", index, len(whole), len(whole)-1)
	}
	o.Without = slices.Compact(slices.Sorted(slices.Values(o.Without)))
	nodes, places := hosts.Remaining(whole, o.Without)
	rank := slices.Index(places, index)
	if rank < 0 {
		return nil, usage.Errorf("index %d is left out of the ring: expected another", index)
	}
	return newRing(membership{nodes, whole, rank, hosts.Digest(nodes), o.Names}, o), nil
}

// newRing makes the parts of a ring, and gives each the others that it uses.
func newRing(m membership, o Options) *Ring {
	r := &Ring{membership: m, opts: o}
	of := &r.membership
	r.devices = &devices{of: of, opts: &r.opts, fail: r.Fail}
	r.table = &edgeTable{of: of, events: &r.devices.events, stepped: make(signal)}
	r.control = newControl(of, r.table, &r.opts)
	r.poll = &poller{of: of, control: r.control, devices: r.devices}
	r.pings = newPings(r)
	r.host = &Host{of: of, opts: &r.opts, table: r.table, control: r.control, devices: r.devices, hold: r.Hold}
	r.memory = &Memory{devices: r.devices, own: r.opts.Locality, beside: r.host.Device, regions: make(device.Regions), early: func() error {
		return stepError("register memory", r.table.standing(bothSides), StateInitialised)
	}}
	r.faults = &Faults{of: of, devices: r.devices, addrs: func() []netip.AddrPort { return r.host.addrs }}
	r.ends = &Ends{of: of, table: r.table, control: r.control, poll: r.poll, devices: r.devices, memory: r.memory, byHand: r.opts.ByHand, asked: make(map[EdgeID]peerEnd)}
	r.stalls = newStalls(of, r.table, r.control, r.ends, r.opts.Silence)
	r.failure = &Failure{of: of, table: r.table, control: r.control}
	r.devices.table, r.devices.host, r.devices.faults, r.devices.owner = r.table, r.host, r.faults, &edgeOwner{of, &r.opts, r.table}
	return r
}

// Options returns the options in force, defaults filled in.
func (r *Ring) Options() Options { return r.opts }

// Timeout is the deadline of a wait that begins now.
func (r *Ring) Timeout() time.Duration { return time.Duration(r.control.timeout.Load()) }

// SetTimeout changes it.
func (r *Ring) SetTimeout(d time.Duration) { r.control.timeout.Store(int64(d)) }

// Left returns the edge that data comes from, after Init.
func (r *Ring) Left() *Edge { return r.table.edges[Left] }

// Right returns the edge that data goes to, after Init.
func (r *Ring) Right() *Edge { return r.table.edges[Right] }

// Edge returns an edge: those of the ring after Init, those of a mesh
// after Mesh. It returns nil for one that is not there. It needs the token.
func (r *Ring) Edge(id EdgeID) *Edge { return r.table.edge(id) }

// Epoch is the ring's number, the same on all ranks, and another than that of any ring
// that a process with this History was in; 0 before Exchange. Frames and headers carry it,
// so that what an earlier ring left behind is known.
func (r *Ring) Epoch() uint32 { return r.control.epoch.Load() }

// Gather collects one slice of bytes from every rank on every rank, by rank, over
// the control ring. Control operations must be called in the same order on all
// ranks, after Exchange, and name their purpose alike; Awaited and the errors of a
// wait, within Options.Timeout, name it.
func (r *Ring) Gather(ctx context.Context, purpose Purpose, data []byte) ([][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout())
	defer cancel()
	return controlled(ctx, r.control, func(ctx context.Context, c *bootstrap.Control) ([][]byte, error) { return c.Gather(ctx, purpose, data) })
}

// Broadcast returns rank 0's data on every rank.
func (r *Ring) Broadcast(ctx context.Context, data []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout())
	defer cancel()
	return controlled(ctx, r.control, func(ctx context.Context, c *bootstrap.Control) ([]byte, error) { return c.Broadcast(ctx, data) })
}

// Await is Broadcast for a rank other than 0 that waits for as long as its
// leader likes: no deadline but the context's limits it. It ends with the ring.
func (r *Ring) Await(ctx context.Context) ([]byte, error) {
	return controlled(ctx, r.control, func(ctx context.Context, c *bootstrap.Control) ([]byte, error) { return c.Broadcast(ctx, nil) })
}

// Barrier returns when all ranks have called it.
func (r *Ring) Barrier(ctx context.Context) error {
	_, err := r.Gather(ctx, Purpose{What: "barrier", Do: "finish"}, nil)
	return err
}

// Close says goodbye to the neighbours and releases everything: queue pairs,
// memory, sockets, goroutines. It may be called in any state, and twice; a step
// that runs is ended first. Operations on the CQ must have ended.
func (r *Ring) Close() error {
	r.control.endLife()
	r.watching.Wait()
	r.stalls.tables.Close()
	// Steps and pings end with the ring's life, now. An operation that nobody
	// ended is left to its poll's error.
	ctx, cancel := context.WithTimeout(context.Background(), r.Timeout())
	defer cancel()
	if word, err := r.poll.tokens.Take(ctx, polling.Holder{Kind: polling.Stepping, Step: "close"}); err == nil {
		defer r.poll.tokens.Give(word)
	}
	if r.State() == StateClosed {
		return nil
	}
	if r.control.boot != nil {
		r.control.boot.Goodbye()
	}
	if err := r.release(StateClosed); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	trace.Debug(trace.Ring, "closed")
	return nil
}

// release gives everything back, and leaves the ring in a state.
func (r *Ring) release(to State) error {
	r.table.mu.Lock()
	r.table.state = to
	edges, devices, control, affinity := r.table.edges, r.devices.list, r.control.boot, r.control.affinity
	r.table.edges, r.devices.list, r.table.chosen = [2]*Edge{}, nil, [2]edgeDevice{}
	r.table.exchanged, r.met = false, false
	if to == StateNew {
		r.control.boot = nil
	}
	r.table.mu.Unlock()
	errs := []error{r.table.mesh.drop(&r.table.mu), closeAll(edges[:]), affinity.Close()}
	for _, d := range devices {
		errs = append(errs, d.Close())
	}
	r.devices.failing.Wait() // there are no more events
	if control != nil {
		errs = append(errs, control.Close())
	}
	return errors.Join(errs...)
}

// Control returns this rank's part in the control ring.
func (r *Ring) Control() *Control { return r.control }

// Devices returns the devices that the edges use, after Open.
func (r *Ring) Devices() []*Device { return r.devices.all() }

// DeviceTo returns the device that an edge uses, or will use, and why,
// after Open; nil before, and for an edge that is not there.
func (r *Ring) DeviceTo(id EdgeID) (d *Device, why string) { return r.devices.to(id) }

// Stalls returns the part of the ring that finds out who keeps this rank waiting.
func (r *Ring) Stalls() *Stalls { return r.stalls }

// Ends returns the part of the ring that looks at both ends of its edges.
func (r *Ring) Ends() *Ends { return r.ends }

// Failed reports whether the ring failed, here or at any rank. It is one atomic
// load, for poll loops.
func (r *Ring) Failed() bool { return r.table.failed.Load() }

// Err returns why the ring failed: the first reason, or nil.
func (r *Ring) Err() error { return r.table.failure() }

// Fail fails the ring for all ranks: the queue pairs go to ERR, which flushes
// what is posted, and the reason goes round the control ring. The first reason
// counts; Fail may be called by anybody at any time. Failure.Settled tells what came of it.
func (r *Ring) Fail(err error) { r.failure.fail(err) }

// Failure returns the part of the ring that agrees on why it has failed.
func (r *Ring) Failure() *Failure { return r.failure }

// Host returns what this rank has of its host.
func (r *Ring) Host() *Host { return r.host }

// Faults returns the part of the ring that injects faults.
func (r *Ring) Faults() *Faults { return r.faults }

// Memory returns the part of the ring that registers and allocates memory.
func (r *Ring) Memory() *Memory { return r.memory }

// State returns how far the ring has come. It asks the queue pairs.
func (r *Ring) State() State { return r.table.standing(bothSides).State }

// Usable returns nil if the queue pairs are in RTS and the ring has not failed,
// else why operations cannot run. It asks the queue pairs, which costs two calls
// of the device; Failed, for poll loops, costs nothing.
func (r *Ring) Usable() error {
	s := r.table.standing(bothSides)
	r.table.mu.Lock()
	failure, unclean := r.table.err, r.table.unclean
	r.table.mu.Unlock()
	switch {
	case failure != nil:
		return failure
	case s.State != StateRTS && s.State != StateReady:
		if failed := r.table.failedQueuePair(true); failed != nil {
			return failed
		}
		return stepError("operation", s, StateReady)
	default:
		return unclean
	}
}

// Begin starts an operation over the queue pairs: it waits until the pings that
// neighbours asked this rank to answer are done, at most for Options.Timeout, and has
// the completions that the last operation deferred come first. Every token needs its End
// or Release, on a ring that has failed, too.
func (r *Ring) Begin(ctx context.Context) (Token, error) {
	t, err := r.Hold(ctx)
	if err == nil {
		t.recall()
	}
	return t, err
}

// Hold is Begin for an operation that polls nothing: it keeps others from polling, and
// from taking steps, until Release.
func (r *Ring) Hold(ctx context.Context) (Token, error) {
	if word, ok := r.poll.tokens.Operate(); ok { // and nothing is allocated
		return Token{r.poll, word}, nil
	}
	alive, cancel := r.control.whileAlive(ctx)
	defer cancel()
	t, err := r.poll.take(alive, polling.Holder{Kind: polling.Operating})
	if err == nil {
		return t, nil
	}
	if failure := r.Err(); failure != nil {
		return Token{}, failure
	}
	return Token{}, fmt.Errorf("begin an operation: %w", err)
}
