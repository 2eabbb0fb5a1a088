package collective

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"ringcli/collective/async"
	"ringcli/collective/fifo"
	"ringcli/collective/inquiry"
	"ringcli/collective/lateness"
	"ringcli/collective/plan"
	"ringcli/collective/sharedmem"
	"ringcli/collective/topology"
	"ringcli/ring"
	"ringcli/verbs"
)

const (
	// ringSends is how many send requests may be outstanding on an edge of the ring,
	// whose queues hold 256, of which a few are left to ring itself.
	ringSends = 240
	// pollBatch completions at a time: more than one round of a pipeline makes.
	pollBatch = 64
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
	ring       *ring.Ring
	options    Options
	rank, size int
	table      atomic.Pointer[Table]
	agreement  atomic.Pointer[plan.Agreement] // Agree stores another

	lock    fifo.Lock
	flying  async.Queue   // its own lock
	version atomic.Uint64 // changes with what a prepared call rests on
	direct  uint64        // operations over shared memory; the holder of the lock publishes it
	over    atomic.Bool   // closed or failed; changes with mu held
	late    atomic.Int64  // nanoseconds, on purpose
	// announced is what this rank calls and where it is: in its board, if it has one. The holder of the lock
	// writes it, and who answers other ranks reads it with answering held, which keeps the
	// board. The control ring waits for that: nothing else is done with it held, as with mu.
	announced atomic.Pointer[sharedmem.Announcement]
	answering sync.Mutex
	long      atomic.Pointer[longWait] // where the operation waits; as announced

	// Below this line: whoever holds the lock.
	waiter      verbs.Waiter
	token       ring.Token // of the operation that runs
	channels    []*channel // by the ID of their edges, whose first they are
	every       []*channel // those, and the others of their edges
	completions [pollBatch]verbs.Completion
	seq         uint64
	flow        flow
	pass        pass
	scriptRun   scriptRun
	roles       map[roleKey]*role // once their edges are there
	agreed      bool
	shared      *shared // nil where the ranks do not share memory
	within      *shared // of the ranks of this host, along hosts; nil where some host's do not share memory, or this is the only one
	prepared    prepared
	current     uint64  // version, when the lock was taken
	nonce       uint32  // of this Comm, the same on all ranks once agreed
	live        Stats   // with the operation that runs
	counted     bool    // it is in live
	staging     *Buffer // landings and partial results
	sums        *Buffer // of the ranks of this host, along hosts: see inside
	inquiry     inquiry.Inquiry
	times       lateness.Counter
	lost        []verbs.Losses // by peer, as of the last Lateness
	noCarrier   time.Duration  // the same

	// registering is held for reading while memory is registered, which pins it
	// and takes its time, so not with mu held; Close waits for it.
	registering sync.RWMutex

	mu      sync.Mutex
	stats   Stats     // guarded by mu; live as of the last operation that ended
	buffers []*Buffer // guarded by mu; the Comm's own too
	serial  uint32    // guarded by mu: of the last buffer that others can map
	failure error     // guarded by mu; the first, never changed
	closed  bool      // guarded by mu
}

// New makes a Comm over a ring that is ready. The Comm is the only user of the
// ring's queue pairs while an operation runs. Close it before the ring.
func New(r *ring.Ring, o Options) (*Comm, error) {
	if err := r.Usable(); err != nil {
		return nil, fmt.Errorf("collective: %w", err)
	}
	c := &Comm{ring: r, options: o, rank: r.Rank(), size: r.Size(), inquiry: inquiry.New(), roles: map[roleKey]*role{}}
	c.version.Store(1)
	c.table.Store(&o.Table)
	c.announced.Store(new(sharedmem.Announcement))
	r.SetCalls(c.called)
	if c.size == 1 {
		c.agreement.Store(&plan.Agreement{Ranks: 1, SlotSize: plan.MaxSegment, Hosts: topology.Sized(1), Reached: true, NotShared: c.notShared()}) // nothing is sent
		c.agreed = true
		return c, nil
	}
	c.waiter = r.NewWaiter()
	left, right := r.Left(), r.Right()
	// The slots are the same on all ranks: RTR compared them.
	slots := min(left.Local.SlotCount, plan.MaxSlots)
	c.agreement.Store(&plan.Agreement{Ranks: c.size, SlotSize: left.Local.SlotSize - ring.SlotHeader, Slots: slots, Software: c.software(), NotShared: c.notShared()})
	for _, e := range []*ring.Edge{left, right} {
		c.channels = append(c.channels, nil)
		for _, e := range e.Channels() {
			ch, err := c.newChannel(e, slots, ringSends)
			if err != nil {
				return nil, fmt.Errorf("collective: %w", err)
			}
			c.add(ch)
		}
	}
	c.flow.c = c
	c.pass.init(c)
	c.scriptRun.flow = &c.flow
	r.SetPlace(c.place)
	return c, nil
}

// Rank returns the rank of this process in the ring.
func (c *Comm) Rank() int { return c.rank }

// Size returns the number of ranks.
func (c *Comm) Size() int { return c.size }

// Timeout is how long an operation waits for another rank.
func (c *Comm) Timeout() time.Duration { return c.ring.Timeout() }

// Hosts is where the ranks are; nil before Agree.
func (c *Comm) Hosts() *topology.Hosts { return c.agreement.Load().Hosts }

// Err returns why the Comm can do nothing more, or nil.
func (c *Comm) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err()
}

// err needs c.mu.
func (c *Comm) err() error {
	if c.closed {
		return ErrClosed
	}
	return c.failure
}

// SetTable gives the Comm another table, from its next operation on. It must be
// the same on all ranks, between the same two operations of each.
func (c *Comm) SetTable(t Table) error {
	if err := t.Validate(); err != nil {
		return fmt.Errorf("collective: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.table.Store(&t)
	c.version.Add(1)
	return nil
}

// Table returns the table in force.
func (c *Comm) Table() Table { return *c.table.Load() }

// Plan returns a call as it is going to run: with an algorithm, a protocol, a segment
// and a depth. Under Direct the last two are 0.
func (c *Comm) Plan(k Call) (Call, error) { return c.agreement.Load().Plan(k, *c.table.Load()) }

// Barrier returns when every rank has called it.
func (c *Comm) Barrier(ctx context.Context) error {
	return c.Run(ctx, Call{Op: OpBarrier})
}

// Close deregisters and frees everything that is left, buffers of Alloc
// included, after the operations that run or were started before, whose handles have all
// resolved when it returns. Closing twice is harmless.
func (c *Comm) Close() error {
	defer c.flying.Idle()                 // those started meanwhile find it closed
	_ = c.lock.Lock(context.Background()) // operations have their deadlines
	defer c.lock.Unlock()
	c.mu.Lock()
	c.closed = true
	c.over.Store(true)
	c.mu.Unlock()
	c.ring.SetPlace(nil)
	c.answering.Lock()
	c.announced.Store(new(sharedmem.Announcement)) // the board goes
	c.answering.Unlock()
	c.inquiry.Close()
	for _, s := range c.teams() {
		s.awaitOthers()
	}
	c.registering.Lock()
	defer c.registering.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, s := range c.teams() {
		errs = append(errs, s.close())
	}
	c.shared, c.within = nil, nil
	for _, b := range c.buffers {
		errs = append(errs, b.release())
	}
	c.buffers = nil
	return errors.Join(errs...)
}

// Delay has this rank be late to each operation from now on, by so long, on purpose.
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
	c.current = c.version.Load()
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
		c.stats = c.live
		c.mu.Unlock()
	}
	c.announced.Load().End(c.seq)
	c.lock.Unlock()
}

// changed makes prepared calls void. It needs the lock.
func (c *Comm) changed() { c.current = c.version.Add(1) }

// stopped returns why the operation must end now, if it must.
func (c *Comm) stopped(ctx context.Context) error {
	if c.ring.Failed() {
		return c.ring.Err()
	}
	select {
	case <-ctx.Done():
		return fmt.Errorf("cancelled: %w", context.Cause(ctx))
	default:
		return nil
	}
}

// fail ends the Comm and the ring: queue pairs to ERR and keys dead before any
// buffer goes back to its owner. The first failure is the one that counts.
func (c *Comm) fail(err error) error {
	c.ring.Fail(err)
	err = c.ring.Settled(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure != nil {
		return err
	}
	c.failure = err
	c.over.Store(true)
	for _, b := range c.buffers {
		if e := b.deregister(); e != nil {
			err = errors.Join(err, e)
		}
	}
	return err
}

// teams are those who share memory with this rank.
func (c *Comm) teams() (list []*shared) {
	for _, s := range [...]*shared{c.shared, c.within} {
		if s != nil {
			list = append(list, s)
		}
	}
	return list
}

// channelAt returns the channel of an ID, or nil.
func (c *Comm) channelAt(id ring.EdgeID) *channel {
	if id < 0 || int(id.First()) >= len(c.channels) {
		return nil
	}
	ch := c.channels[id.First()]
	if n := id.Channel(); n > 0 && ch != nil {
		return ch.turns[n] // the ring knows no other
	}
	return ch
}

// add makes a channel one of the Comm's, at the place of its edge.
func (c *Comm) add(ch *channel) {
	first := &c.channels[ch.edge.ID.First()]
	if *first == nil {
		*first = ch
	}
	(*first).turns = append((*first).turns, ch)
	c.every = append(c.every, ch)
}

// grow replaces a buffer of the Comm's own by one of at least n bytes, if it has
// fewer.
func (c *Comm) grow(b **Buffer, n uint64) (*Buffer, error) {
	if *b != nil && (*b).n >= n {
		return *b, nil
	}
	if *b != nil {
		if err := (*b).Free(); err != nil {
			return nil, err
		}
		*b = nil
	}
	next, err := c.Alloc(n)
	if err != nil {
		return nil, err
	}
	*b = next
	return next, nil
}
