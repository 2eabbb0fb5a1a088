package ring

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ringcli/configs/usage"
	"ringcli/ring/bootstrap"
	"ringcli/ring/bootstrap/hosts"
	"ringcli/ring/device"
	"ringcli/ring/diagnose"
	"ringcli/ring/disagreement"
	"ringcli/ring/message"
	"ringcli/ring/polling"
	"ringcli/trace"
	"ringcli/verbs"
	"ringcli/verbs/cpu"
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

	life      context.Context // ends with Close, and running steps with it
	endLife   context.CancelFunc
	watching  sync.WaitGroup // watchIdle and watchLinks
	noCarrier atomic.Int64   // ns, by watchLinks
	tokens    polling.Tokens // guards itself
	pings     *pings         // guards itself
	devices   devices        // says of each field what guards it
	asking    chan struct{}  // of capacity 1: guards runID, and is held while a goroutine asks for it
	runID     string         // "" until it is known

	timeout atomic.Int64                  // in nanoseconds, of the waits that begin now
	failed  atomic.Bool                   // Err is set
	moved   [firstMesh + 1]atomic.Uint64  // polls that found completions of a side, or of the mesh
	epoch   atomic.Uint32                 // 0 before Exchange
	stale   atomic.Uint64                 // messages of another epoch
	faults  atomic.Pointer[device.Faults] // nil: packets are let alone
	tables  *disagreement.Tables          // of who calls what; guards itself

	mu        sync.Mutex            // guards the following, and the queue pairs' life
	state     State                 // StateNew, StateOpened, StateFailed or StateClosed: the queue pairs say the rest
	err       error                 // why the ring has failed
	stepped   signal                // a queue pair has moved on
	exchanged bool                  // since Init
	unclean   error                 // what a failed ping left behind keeps operations from running
	regions   device.Regions        // by AddRegion
	peerEnds  map[EdgeID]peerEnd    // as they were when they were last asked for
	place     func() diagnose.Place // by SetPlace

	beside atomic.Bool // another rank may share memory with this one, by Open

	// Changed with the token and mu: whoever has either may look.
	control  *bootstrap.Control // made by Open
	affinity *cpu.Affinity      // by Open; nil if none is needed
	chosen   [2]edgeDevice      // the devices to the neighbours
	edges    [2]*Edge           // to the neighbours
	mesh     meshEdges          // beside those

	// Changed with the token: whoever has it may look.
	met             bool               // the neighbours were found
	addrs           []netip.AddrPort   // of the list, by Open
	local           netip.Addr         // to speak from, by Open
	deferred, early []verbs.Completion // that came an operation too soon
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
	r := &Ring{membership: membership{nodes, whole, rank, hosts.Digest(nodes), o.Names}, opts: o, stepped: make(signal), peerEnds: make(map[EdgeID]peerEnd), regions: make(device.Regions),
		asking: make(chan struct{}, 1)}
	r.SetTimeout(o.Timeout)
	if rank == 0 {
		r.runID = rand.Text()
	}
	r.pings, r.devices.r = newPings(r), r
	r.life, r.endLife = context.WithCancel(context.Background())
	r.tables = r.newTables()
	return r, nil
}

// MetError is an error of Connect after the ranks had found each other: over TCP the ring was up.
type MetError struct{ error }

func (e *MetError) Unwrap() error { return e.error }

// Diagnosing tells whether the ring is for a diagnosis over TCP, as this rank or rank 0 has asked for
// with Options.Diagnosing: it is not ready, and its queue pairs are as far as they come.
func (r *Ring) Diagnosing() bool {
	if r.opts.Diagnosing {
		return true
	}
	control, err := r.controlRing()
	return err == nil && control.LeaderDiagnoses()
}

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
		if met = i > 2; i == 3 && r.Diagnosing() {
			_, _ = rtr(ctx), rts(ctx) // what cannot be done is not there to be looked at
			return r, nil
		}
		if err := step(ctx); err != nil {
			err = r.Settled(cmp.Or(r.Err(), err)) // what failed the ring may have come between two steps
			// Exchange has asked before.
			if was := r.verdict(err); met && !usage.Is(err) && was.Kind != bootstrap.KindCanceled {
				if found := r.duplicates(ctx, was); found != was {
					err = found
				}
			}
			if err = errors.Join(err, r.Close()); met {
				err = &MetError{err}
			}
			return nil, err
		}
	}
	r.watching.Go(r.watchIdle)
	r.watching.Go(r.watchLinks)
	return r, nil
}

// Options returns the options in force, defaults filled in.
func (r *Ring) Options() Options { return r.opts }

// HostName names this rank's host, the same for all ranks on it: those that have one kernel and
// one network namespace, between which nothing goes over a network.
func (r *Ring) HostName() string {
	h := r.opts.Locality().Host
	if h.Missing != "" {
		return r.nodes[r.rank].Host
	}
	return h.BootID + " " + h.NetNS
}

// Timeout is the deadline of a wait that begins now.
func (r *Ring) Timeout() time.Duration { return time.Duration(r.timeout.Load()) }

// SetTimeout changes it.
func (r *Ring) SetTimeout(d time.Duration) { r.timeout.Store(int64(d)) }

// LocalAddr returns the IP address that this rank speaks from, after Open.
func (r *Ring) LocalAddr() netip.Addr { return r.local }

// Affinity returns the CPU that this rank's polling thread comes back to, nil if there is
// none: after Open.
func (r *Ring) Affinity() *cpu.Affinity {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.affinity
}

// Left returns the edge that data comes from, after Init.
func (r *Ring) Left() *Edge { return r.edges[Left] }

// Right returns the edge that data goes to, after Init.
func (r *Ring) Right() *Edge { return r.edges[Right] }

// Edge returns an edge: those of the ring after Init, those of a mesh
// after Mesh. It returns nil for one that is not there. It needs the token.
func (r *Ring) Edge(id EdgeID) *Edge {
	var e *Edge
	switch first := id.First(); {
	case id < 0:
	case first < firstMesh:
		e = r.edges[first]
	case int(first-firstMesh) < len(r.mesh.list):
		e = r.mesh.list[first-firstMesh]
	}
	if channel := id.Channel(); e != nil && channel > 0 {
		if channel > len(e.beside) {
			return nil
		}
		return e.beside[channel-1]
	}
	return e
}

// queuePairs returns those of all edges that there are, channels of an edge one after the
// other. It needs the token or mu.
func (r *Ring) queuePairs() (list []*Edge) {
	for _, e := range slices.Concat(r.edges[:], r.mesh.list) {
		if e != nil {
			list = append(list, e.Channels()...)
		}
	}
	return list
}

// Epoch is the ring's number, the same on all ranks, and another than that of any ring
// that a process with this History was in; 0 before Exchange. Frames and headers carry it,
// so that what an earlier ring left behind is known.
func (r *Ring) Epoch() uint32 { return r.epoch.Load() }

// DropStale counts a message of another epoch, which its receiver has dropped.
func (r *Ring) DropStale(h *message.Header, peer int) {
	r.stale.Add(1)
	trace.Debug(trace.Ring, "message of another epoch dropped", slog.Int("peer", peer), slog.String("kind", h.Kind.String()),
		slog.Uint64("epoch", uint64(h.Epoch)), slog.Uint64("expected", uint64(r.Epoch())))
}

// Stale counts what came of other epochs, messages over queue pairs and control frames,
// and was dropped.
func (r *Ring) Stale() uint64 {
	n := r.stale.Load()
	if control, err := r.controlRing(); err == nil {
		n += control.Stale()
	}
	return n
}

// change changes what needs mu; what it changes is seen by others whole.
func (r *Ring) change(to func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	to()
}

// whileAlive limits a wait to the ring's life.
func (r *Ring) whileAlive(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(r.life, cancel)
	return ctx, func() { stop(); cancel() }
}

// controlRing returns the control ring of an open ring.
func (r *Ring) controlRing() (*bootstrap.Control, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.control == nil || r.state == StateClosed {
		return nil, stepError("control operation", standing{State: r.state, err: r.err}, StateInitialised)
	}
	return r.control, nil
}

// controlled runs an operation of the control ring, while the ring lives.
func controlled[T any](ctx context.Context, r *Ring, do func(context.Context, *bootstrap.Control) (T, error)) (result T, err error) {
	control, err := r.controlRing()
	if err != nil {
		return result, err
	}
	ctx, cancel := r.whileAlive(ctx)
	defer cancel()
	result, err = do(ctx, control)
	r.Affinity().Restore(time.Now()) // who was woken may be anywhere
	return result, err
}

// Gather collects one slice of bytes from every rank on every rank, by rank, over
// the control ring. Control operations must be called in the same order on all
// ranks, after Exchange, and name their purpose alike; Awaited and the errors of a
// wait, within Options.Timeout, name it.
func (r *Ring) Gather(ctx context.Context, purpose Purpose, data []byte) ([][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout())
	defer cancel()
	return controlled(ctx, r, func(ctx context.Context, c *bootstrap.Control) ([][]byte, error) { return c.Gather(ctx, purpose, data) })
}

// Broadcast returns rank 0's data on every rank.
func (r *Ring) Broadcast(ctx context.Context, data []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout())
	defer cancel()
	return controlled(ctx, r, func(ctx context.Context, c *bootstrap.Control) ([]byte, error) { return c.Broadcast(ctx, data) })
}

// Await is Broadcast for a rank other than 0 that waits for as long as its
// leader likes: no deadline but the context's limits it. It ends with the ring.
func (r *Ring) Await(ctx context.Context) ([]byte, error) {
	return controlled(ctx, r, func(ctx context.Context, c *bootstrap.Control) ([]byte, error) { return c.Broadcast(ctx, nil) })
}

// Barrier returns when all ranks have called it.
func (r *Ring) Barrier(ctx context.Context) error {
	_, err := r.Gather(ctx, Purpose{What: "barrier", Do: "finish"}, nil)
	return err
}

// SetActivity sets what this rank does, as other ranks are told it that wait for it:
// "idle at its prompt".
func (r *Ring) SetActivity(text string) {
	if control, err := r.controlRing(); err == nil {
		control.SetActivity(text)
	}
}

// Waiting is that nothing has moved since then that others are to do: to be called again
// while that lasts, several times a second.
func (r *Ring) Waiting(what string, from []int, since time.Time) {
	if control, err := r.controlRing(); err == nil {
		control.Note(what, from, since)
	}
}

// Close says goodbye to the neighbours and releases everything: queue pairs,
// memory, sockets, goroutines. It may be called in any state, and twice; a step
// that runs is ended first. Operations on the CQ must have ended.
func (r *Ring) Close() error {
	r.endLife()
	r.watching.Wait()
	r.tables.Close()
	// Steps and pings end with the ring's life, now. An operation that nobody
	// ended is left to its poll's error.
	ctx, cancel := context.WithTimeout(context.Background(), r.Timeout())
	defer cancel()
	if word, err := r.tokens.Take(ctx, polling.Holder{Kind: polling.Stepping, Step: "close"}); err == nil {
		defer r.tokens.Give(word)
	}
	if r.State() == StateClosed {
		return nil
	}
	if r.control != nil {
		r.control.Goodbye()
	}
	if err := r.release(StateClosed); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	trace.Debug(trace.Ring, "closed")
	return nil
}

// release gives everything back, and leaves the ring in a state.
func (r *Ring) release(to State) error {
	r.mu.Lock()
	r.state = to
	edges, devices, control, affinity := r.edges, r.devices.list, r.control, r.affinity
	r.edges, r.devices.list, r.chosen = [2]*Edge{}, nil, [2]edgeDevice{}
	r.exchanged, r.met = false, false
	if to == StateNew {
		r.control = nil
	}
	r.mu.Unlock()
	errs := []error{r.mesh.drop(&r.mu), closeAll(edges[:]), affinity.Close()}
	for _, d := range devices {
		errs = append(errs, d.Close())
	}
	r.devices.failing.Wait() // there are no more events
	if control != nil {
		errs = append(errs, control.Close())
	}
	return errors.Join(errs...)
}
