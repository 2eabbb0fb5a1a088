package collective

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"ringcli/collective/agree"
	"ringcli/collective/buffer"
	"ringcli/collective/exec"
	"ringcli/collective/fifo"
	"ringcli/collective/hostteam"
	"ringcli/collective/lateness"
	"ringcli/collective/plan"
	"ringcli/collective/topology"
	"ringcli/collective/watch"
	"ringcli/configs/usage"
	"ringcli/ring"
	"ringcli/trace"
	"ringcli/verbs"
)

// Options say how a Comm works. They must be the same on all ranks, but for
// Corrupt. The zero value is useful.
type Options struct {
	// Table chooses algorithms and protocols.
	Table Table
	// Corrupt injects faults, to show that a check finds them: it is called with
	// each segment that arrived, numbered from 0 in the order of arrival, before
	// it is used, and may change the payload. nil is none.
	Corrupt func(op Operation, segment int, payload []byte)
}

// Comm runs collective operations over a ring that is ready. Operations run one at a time, first
// in, first out, each on the goroutine of its caller, or on that of the operations in flight; all
// methods may be called concurrently. Every rank must make the same calls in the same order.
type Comm struct {
	pool      *buffer.Pool
	ring      *ring.Ring
	options   Options
	table     atomic.Pointer[Table]
	agreement atomic.Pointer[plan.Agreement] // Agree stores another

	lock fifo.Lock
	over atomic.Bool  // closed or failed
	late atomic.Int64 // nanoseconds, on purpose

	// Below this line: whoever holds the lock.
	watch    *watch.Watch
	exec     *exec.Executor
	agreed   bool
	prepared Prepared
	current  uint64         // version, when the lock was taken
	shared   *hostteam.Team // nil where the ranks do not share memory
	within   *hostteam.Team // of the ranks of this host, along hosts; nil where some host's do not share memory, or this is the only one
	counted  bool           // the operation that runs is in the executor's Stats

	mu    sync.Mutex
	stats Stats // guarded by mu: as of the last operation that ended
}

// New makes a Comm over a ring that is ready. The Comm is the only user of the
// ring's queue pairs while an operation runs. Close it before the ring.
func New(r *ring.Ring, o Options) (*Comm, error) {
	if err := r.Usable(); err != nil {
		return nil, fmt.Errorf("collective: %w", err)
	}
	c := &Comm{pool: buffer.NewPool(r), ring: r, options: o, watch: watch.New(r)}
	c.table.Store(&o.Table)
	var err error
	if c.exec, err = exec.New(c.watch, c.pool, o.Corrupt); err != nil {
		return nil, fmt.Errorf("collective: %w", err)
	}
	g := &plan.Agreement{Ranks: r.Size(), NotShared: c.notShared()}
	if g.Ranks == 1 { // nothing is sent
		g.SlotSize, g.Hosts, g.Reached = plan.MaxSegment, topology.Sized(1), true
		c.agreed = true
	} else {
		g.SlotSize, g.Slots, g.Software = r.Left().Local.SlotSize-ring.SlotHeader, exec.Slots(r), agree.Software(r)
	}
	c.agreement.Store(g)
	c.prepared.c = c
	return c, nil
}

// notShared returns why this rank cannot share memory with all others, or "".
func (c *Comm) notShared() string {
	if why := hostteam.NotShared(c.ring); why != "" || c.options.Corrupt == nil {
		return why
	}
	return "faults are injected into what arrives, and nothing does"
}

// Rank returns the rank of this process in the ring.
func (c *Comm) Rank() int { return c.ring.Rank() }

// Size returns the number of ranks.
func (c *Comm) Size() int { return c.ring.Size() }

// Timeout is how long an operation waits for another rank.
func (c *Comm) Timeout() time.Duration { return c.ring.Timeout() }

// Hosts is where the ranks are; nil before Agree.
func (c *Comm) Hosts() *topology.Hosts { return c.agreement.Load().Hosts }

// SetTable gives the Comm another table, from its next operation on. It must be
// the same on all ranks, between the same two operations of each.
func (c *Comm) SetTable(t Table) error {
	if err := t.Validate(); err != nil {
		return fmt.Errorf("collective: %w", err)
	}
	c.table.Store(&t)
	c.pool.Version.Add(1)
	return nil
}

// Table returns the table in force.
func (c *Comm) Table() Table { return *c.table.Load() }

// Plan returns a call as it is going to run: with an algorithm, a protocol, a segment
// and a depth. Under Direct the last two are 0.
func (c *Comm) Plan(k Call) (Call, error) { return c.agreement.Load().Plan(k, *c.table.Load()) }

// Agree has all ranks learn what each of them can, and take over the table of rank
// 0. It is collective. The first operation does it where nobody has: until then
// Plan goes by the own table. A rank that does not come is named.
func (c *Comm) Agree(ctx context.Context) error {
	if err := c.enter(ctx, nil); err != nil {
		return fmt.Errorf("agree: %w", err)
	}
	defer c.leave()
	if err := c.agree(ctx); err != nil {
		return c.fail(err)
	}
	return nil
}

// agree needs the lock.
func (c *Comm) agree(ctx context.Context) error {
	if c.agreed {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.ring.Timeout())
	defer cancel()
	a, err := agree.Agree(ctx, c.ring, agree.Own(c.ring, c.table.Load(), c.notShared()), *c.agreement.Load())
	if err == nil {
		c.table.Store(a.Table)
		c.exec.Nonce = a.Nonce
		err = c.share(ctx, a)
	}
	if err != nil {
		return fmt.Errorf("agree: %w", err)
	}
	c.agreement.Store(&a.Agreement)
	c.current = c.pool.Version.Add(1)
	c.agreed = true
	return nil
}

// share makes what the ranks share memory with: those of the ring, and those of each host. It is collective.
func (c *Comm) share(ctx context.Context, a *agree.Agreed) (err error) {
	team := hostteam.Config{
		Watch: c.watch, Buffers: c.pool, Ranks: topology.Sized(c.Size()).Ranks(0), Crowded: a.Turns > 1,
		Device: func() (*ring.Device, error) { return c.ring.Left().Device(), nil },
	}
	if a.NotShared == "" {
		if c.shared, a.NotShared, err = hostteam.New(ctx, team); err != nil {
			return err
		}
	}
	if a.NotShared != "" {
		trace.Debug(trace.Collective, "the ranks do not share memory", slog.String("why", a.NotShared))
	}
	if a.Hosts.Number() == 1 || a.Hosts.Most() == 1 {
		return nil
	}
	team.All, team.Ranks = c.shared, a.Hosts.On(c.Rank())
	var said []agree.Capabilities
	for _, rank := range team.Ranks {
		said = append(said, a.All[rank])
	}
	team.Crowded = agree.Turns(said) > 1
	team.Device = func() (*ring.Device, error) {
		if why := hostteam.NotTeam("host", len(team.Ranks)); why != "" {
			return nil, errors.New(why)
		}
		if c.options.Corrupt != nil {
			return nil, errors.New(c.notShared())
		}
		return c.ring.Memory().Shared(ctx)
	}
	why := ""
	if c.within, why, err = hostteam.New(ctx, team); err != nil {
		return err
	}
	if a.Within = why == ""; a.Within {
		c.pool.MayBeMapped()
	} else {
		trace.Debug(trace.Collective, "the ranks of some host do not share memory", slog.String("why", why))
	}
	return nil
}

// Alloc maps n zeroed bytes outside the Go heap and registers them: where ranks
// share a host, such that all of them can reach it. The buffer lives until Free or Close.
func (c *Comm) Alloc(n uint64) (*Buffer, error) { return c.pool.Alloc(n) }

// Register registers n bytes of the caller's memory at addr, which must lie
// outside the Go heap and stay mapped until Free or Close.
func (c *Comm) Register(addr, n uint64) (*Buffer, error) { return c.pool.Register(addr, n) }

// Share registers n bytes of the caller's memory at addr, as Register does, such that the ranks
// of the host reach them as they reach Alloc's: no operation copies them through segments.
// The memory must stay mapped until Free or Close. A file
// among it must not be made shorter: then operations fail on whoever uses it. ErrUsage:
// the kernel does not allow it of this memory, or the ring has no shared memory; Register takes it, and
// the error says what would do.
func (c *Comm) Share(addr, n uint64, how Sharing) (*Buffer, error) { return c.pool.Share(addr, n, how) }

// Symmetric tells all ranks of a buffer of each, and maps the peers'. It is collective: either
// all ranks get theirs or all get an ErrUsage that names the first rank whose buffer
// cannot be mapped, and why: the ranks do not share memory, or one's came from Register.
func (c *Comm) Symmetric(ctx context.Context, b *Buffer) (*Symmetric, error) {
	if err := c.enter(ctx, nil); err != nil {
		return nil, fmt.Errorf("symmetric: %w", err)
	}
	defer c.leave()
	err := c.agree(ctx)
	var s *Symmetric
	why := ""
	switch {
	case err != nil:
	case c.Size() == 1:
		s = hostteam.Alone(b)
	case c.shared == nil:
		why = c.agreement.Load().NotShared
	default:
		ctx, cancel := context.WithTimeout(ctx, c.ring.Timeout())
		defer cancel()
		s, why, err = c.shared.Symmetric(ctx, b)
	}
	switch {
	case err != nil:
		return nil, c.fail(fmt.Errorf("symmetric: %w", err))
	case why != "":
		return nil, usage.Errorf("symmetric: %s", why)
	}
	return s, nil
}

// Stats returns the counters as of the last operation that ended.
func (c *Comm) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Operations += atomic.LoadUint64(&c.watch.Shared)
	return s
}

// Lateness returns what this rank has kept of its operations since it was asked last.
func (c *Comm) Lateness(ctx context.Context) (r lateness.Record, err error) {
	if err := c.lock.Lock(ctx); err != nil {
		return r, err
	}
	defer c.lock.Unlock()
	return c.exec.Lateness(), nil
}

// Losses returns by peer what this rank's queue pairs have counted since they were created,
// and false if a device counts for all its queue pairs together.
func (c *Comm) Losses() (byPeer []verbs.Losses, counted bool) {
	_ = c.lock.Lock(context.Background()) // operations have their deadlines
	defer c.lock.Unlock()
	return c.exec.Losses()
}

// Close deregisters and frees everything that is left, buffers of Alloc
// included, after the operations that run or were started before, whose handles have all
// resolved when it returns. Closing twice is harmless.
func (c *Comm) Close() error {
	defer c.pool.Flying.Idle()            // those started meanwhile find it closed
	_ = c.lock.Lock(context.Background()) // operations have their deadlines
	defer c.lock.Unlock()
	c.over.Store(true)
	c.watch.Close()
	teams := [...]*hostteam.Team{c.shared, c.within}
	for _, t := range teams {
		t.AwaitOthers()
	}
	c.shared, c.within = nil, nil
	return c.pool.Close(ErrClosed, func() error { return errors.Join(teams[0].Close(), teams[1].Close()) })
}

// Err returns why the Comm can do nothing more, or nil.
func (c *Comm) Err() error { return c.pool.Over() }

// Delay makes this rank enter every later operation late, by so long, on purpose.
func (c *Comm) Delay(by time.Duration) { c.late.Store(int64(by)) }

// enter waits for the lock, by a turn that was taken before or nil, and for as long as this
// rank is to be late.
func (c *Comm) enter(ctx context.Context, turn *fifo.Turn) (err error) {
	if turn == nil {
		err = c.lock.Lock(ctx)
	} else {
		err = turn.Wait(ctx)
	}
	if err != nil {
		return c.fail(fmt.Errorf("cancelled: %w", err))
	}
	if late := time.Duration(c.late.Load()); late > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(late):
		}
	}
	c.current = c.pool.Version.Load()
	if c.over.Load() {
		c.lock.Unlock()
		return c.Err()
	}
	return nil
}

// leave hands the lock on, and makes what the operation has counted known.
func (c *Comm) leave() {
	if c.counted {
		c.counted = false
		c.mu.Lock()
		c.stats = c.exec.Live
		c.mu.Unlock()
	}
	c.watch.End()
	c.lock.Unlock()
}

// fail ends the Comm and the ring: queue pairs to ERR and keys dead before any
// buffer goes back to its owner. The first failure is the one that counts.
func (c *Comm) fail(err error) error {
	c.ring.Fail(err)
	err = c.ring.Failure().Settled(err)
	first, keys := c.pool.End(err)
	if !first {
		return err
	}
	c.over.Store(true)
	return errors.Join(err, keys)
}
