package ring

import (
	"cmp"
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

// Verdict is the error of a ring that failed, as all its ranks are told.
type Verdict = bootstrap.Verdict

// Direction is from one rank to another over the edge between them.
type Direction = bootstrap.Direction

// Doing is the operation that a rank was in, as a verdict has it.
type Doing = bootstrap.Doing

// Waits are what a process waits for from other ranks.
type Waits = bootstrap.Waits

// History is what a process remembers of the rings that it was in.
type History = bootstrap.History

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
	r.devices = &devices{r: r}
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
	return r
}

// MetError is an error of Connect after the ranks had found each other: over TCP the ring was up.
type MetError struct{ error }

func (e *MetError) Unwrap() error { return e.error }

// Connect takes all steps in order. On an error everything is released. A ring for a diagnosis is
// connected when the ranks have found each other.
func Connect(ctx context.Context, servers []string, index int, o Options) (*Ring, error) {
	r, err := New(servers, index, o)
	if err != nil {
		return nil, err
	}
	ping := func(ctx context.Context) error {
		_, err := r.Ping(ctx, 1)
		return err
	}
	init := func(ctx context.Context) error { return r.Init(ctx, Values{}) }
	rtr := func(ctx context.Context) error { return r.RTR(ctx, Values{}) }
	rts := func(ctx context.Context) error { return r.RTS(ctx, Values{}) }
	met := false
	for i, step := range []func(context.Context) error{r.Open, init, r.Exchange, rtr, r.AwaitNeighbours, rts, ping} {
		if met = i > 2; i == 3 && r.control.Diagnosing() {
			_, _ = rtr(ctx), rts(ctx) // what cannot be done is not there to be looked at
			return r, nil
		}
		if err := step(ctx); err != nil {
			err = r.failure.Settled(cmp.Or(r.Err(), err)) // what failed the ring may have come between two steps
			// Exchange has asked before.
			if was := r.failure.verdict(err); met && !usage.Is(err) && was.Kind != bootstrap.KindCanceled {
				if found := r.host.duplicates(ctx, was); found != was {
					err = found
				}
			}
			if err = errors.Join(err, r.Close()); met {
				err = &MetError{err}
			}
			return nil, err
		}
	}
	idle := &idleWatch{r.table, r.control, r.poll, r.ends, r.stalls, r.Fail}
	links := &linkWatch{&r.membership, r.host, r.devices, r.control.life}
	r.watching.Go(idle.run)
	r.watching.Go(links.run)
	return r, nil
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
