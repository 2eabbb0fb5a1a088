package bootstrap

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ringcli/configs/usage"
	"ringcli/ring/bootstrap/calls"
	"ringcli/ring/bootstrap/hosts"
	"ringcli/ring/bootstrap/kernel"
	"ringcli/ring/bootstrap/oob"
	"ringcli/ring/bootstrap/seal"
	"ringcli/trace"
)

// Config says who this node is and how it reaches the others.
type Config struct {
	List []hosts.Node
	Rank int
	// Names are what people call the hosts, where the list has addresses; nil is none.
	Names map[hosts.Node]string
	// Whole is the list that all nodes were given, and Without its entries that List is
	// without, by the leader's decision of that number; nil means List.
	Whole    []hosts.Node
	Without  []int
	Decision uint64
	// Follows has a leader that has decided later end the bring-up, with a Verdict that
	// says who is in the ring now.
	Follows bool
	// Diagnosing tells the other ranks that this one asks for the control ring alone.
	Diagnosing bool
	// Addrs are the list's addresses, an invalid one of an entry whose name has none yet:
	// SetAddrs comes before Exchange then.
	Addrs []netip.AddrPort
	// Bind is where to listen; an unspecified address means all.
	Bind netip.AddrPort
	// Death is how long it may take until a host or a network that is down is told, 0 means
	// 1.5 s; Silence is how long a neighbour may say nothing whose host answers, 0 means 5 s:
	// it is stopped or stuck. Neither counts while Moved of it goes on.
	Death, Silence time.Duration
	// ByHand is for steps that an operator takes: an Exchange whose deadline
	// passes can be repeated, and does not end the ring.
	ByHand bool
	// Moved counts whatever moves between this rank and a neighbour besides TCP; nil counts
	// nothing.
	Moved func(rank int) uint64
	// OnFailure is called once, with the first verdict, from a goroutine of the
	// Control or of whoever calls Fail. It must not call Close.
	OnFailure func(*Verdict)
	// Review, if set, is asked about the verdict that this rank has on a ring that did not come
	// up, before the others are told, and returns it, or one that says more.
	Review func(context.Context, *Verdict) *Verdict
	// Answer answers the questions that a neighbour put with Ask; from is its
	// rank and side (0 left, 1 right) is this rank's side of the edge. What it
	// returns goes back as JSON, an error as *AnswerError. Each call runs on a
	// goroutine of the Control, at most 16 for each connection at a time, and may
	// wait: its context ends with the asker's deadline, when the asker gives up,
	// when the ring fails, with the connection and with Close, which waits for it. It is
	// not called before Exchange, and must not call Close. nil refuses all.
	Answer func(ctx context.Context, kind string, from, side int, payload json.RawMessage) (any, error)
	// History is what the process remembers of earlier rings; nil is nothing.
	History *History
	// Token, if set, is what every rank of the ring must have, too.
	Token *seal.Token
	// Waits, if set, are told what this rank waits for.
	Waits *Waits
	// Clock and Sample replace trace.Clock and trace.AddClockSample, for tests in
	// which several ranks share a process.
	Clock  func() int64
	Sample func(peer int, at, offset, rtt int64)
	// Listen and Dial replace net's, for tests that stall or cut connections.
	Listen func(ctx context.Context, network, address string) (net.Listener, error)
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
}

// The neighbours, seen from a rank.
const (
	left  = 0 // dials this rank
	right = 1 // dialled by this rank
)

const (
	// handshakeTimeout is how long a connection may take for its first frame.
	// A live node answers within a round trip; a busy one within a time slice.
	handshakeTimeout = 3 * time.Second
	// dialTimeout is how long a call may take: one SYN may be lost.
	dialTimeout = 2 * time.Second
	// dialPause bounds the pause between two dials: short enough that the last
	// node to start is found at once, long enough not to load it.
	dialPauseMin, dialPauseMax = 20 * time.Millisecond, 250 * time.Millisecond
	// maxBeat bounds the pause between two signs of life, however long Death is: the
	// neighbour's may be shorter.
	maxBeat = 250 * time.Millisecond
	// clockPause is the pause between two comparisons of clocks.
	clockPause = time.Second
	// goodbyeGrace is how long what is under way may take to end after a
	// neighbour's goodbye, before the ring counts as broken.
	goodbyeGrace = time.Second
	// linger is how long Goodbye waits for the neighbours' goodbyes, flush how
	// long Close lets the last frames take.
	linger, flush = 250 * time.Millisecond, 500 * time.Millisecond
)

// A peer that vanishes with its host is noticed by the kernel in 35 s.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 4}

// shortest is the segment size that every path takes (RFC 9293, section 3.7.1), and
// shortSegments has a caller and whom it calls send none longer: where the MTU of a path
// shrinks, the control ring is to tell so.
const shortest = 536

func shortSegments(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, shortest) // without, long ones do
	})
}

// identity tells two processes with one index apart.
type identity struct {
	Instance string      `json:"instance,omitempty"`
	Host     string      `json:"host"`
	PID      int         `json:"pid"`
	Process  *kernel.Key `json:"process,omitempty"` // for neighbours alone
	// Diagnosing is Config's.
	Diagnosing bool `json:"diagnosing,omitempty"`
}

func (i identity) String() string { return fmt.Sprintf("host %s, pid %d", i.Host, i.PID) }

// Control is a rank's end of the control ring. Its methods may be called from
// any goroutine; Gather and Broadcast must be called in the same order on all ranks.
type Control struct {
	cfg       Config
	pace      pace
	rank      int
	size      int
	block     int // see blockOf
	digest    string
	group     Group
	self      identity
	listener  net.Listener
	life      context.Context // ends with Close
	end       context.CancelCauseFunc
	live      context.Context // ends with life, or with the verdict
	kill      context.CancelCauseFunc
	running   sync.WaitGroup
	dialling  sync.Once
	closeOnce sync.Once
	callers   oob.Lobby // accepted, no neighbours yet
	strangers passers   // so, and no neighbours at all
	epoch     atomic.Uint32
	stale     atomic.Uint64
	addrs     atomic.Pointer[[]netip.AddrPort] // of the list; what it points to does not change

	mu          sync.Mutex         // guards all that follows
	changed     chan struct{}      // closed and replaced whenever something below changes
	connections [2]*connection     // to the neighbours
	info        [2]json.RawMessage // what the neighbours sent in Exchange
	sealed      bool               // the exchange is over: a newcomer is not for us
	members     map[int]identity   // by rank, as far as they are known
	doing       func() Doing       // nil: idle
	watch       watch
	proposal    *Verdict  // the best verdict yet, which is the failure once it has settled
	proposedAt  time.Time // when there was the first
	failure     *Verdict
	leaving     bool // Goodbye or Close was called
	closed      bool
	state       string
	activity    string    // what it does, if anybody has said
	active      time.Time // since when
	waiting     []int
	waitingTo   string    // what they are to do
	waitingAt   time.Time // since when
	opened      time.Time
	tried, came int      // calls of the right neighbour; connections from the left one's host
	problem     string   // why the right neighbour was not reached last time
	unanswered  bool     // so: nothing came back
	half        bool     // calls of the left neighbour are not completed
	intruder    string   // what a stranger at the right neighbour's address said or did
	untrusted   bool     // so, of a token
	remarks     []string // strangers
	ops         map[uint64]*operation
	lastOp      uint64
	untold      bool // parts have come that no wait was told of
	lastAsk     uint64
}

// Open binds the listener and answers probes and the left neighbour from now on.
func Open(ctx context.Context, cfg Config) (*Control, error) {
	if cfg.Rank < 0 || cfg.Rank >= len(cfg.List) || len(cfg.Addrs) != len(cfg.List) {
		return nil, usage.Errorf("index %d: expected 0 to %d, the entries of the list", cfg.Rank, len(cfg.List)-1)
	}
	if cfg.Whole == nil {
		cfg.Whole = cfg.List
	}
	if cfg.History == nil {
		cfg.History = &History{}
	}
	cfg.Death, cfg.Silence = cmp.Or(cfg.Death, 1500*time.Millisecond), cmp.Or(cfg.Silence, 5*time.Second)
	if cfg.Clock == nil {
		cfg.Clock = trace.Clock
	}
	if cfg.Sample == nil {
		cfg.Sample = trace.AddClockSample
	}
	if cfg.Listen == nil {
		lc := net.ListenConfig{KeepAliveConfig: keepAlive}
		cfg.Listen = lc.Listen
	}
	if cfg.Dial == nil {
		// Go sets TCP_NODELAY on its own.
		d := net.Dialer{Timeout: dialTimeout, KeepAliveConfig: keepAlive, Control: shortSegments}
		cfg.Dial = d.DialContext
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	c := &Control{
		cfg: cfg, pace: paceOf(cfg.Death, cfg.Silence), rank: cfg.Rank, size: len(cfg.List), block: blockOf(cfg.Rank, len(cfg.List)), digest: hosts.Digest(cfg.List),
		self:    identity{Instance: rand.Text(), Host: host, PID: os.Getpid(), Process: kernel.This(), Diagnosing: cfg.Diagnosing},
		group:   Group{Whole: hosts.Digest(cfg.Whole), Without: cfg.Without, Decision: cfg.Decision},
		changed: make(chan struct{}), ops: make(map[uint64]*operation),
		state: "open", opened: time.Now(), members: make(map[int]identity),
	}
	c.SetAddrs(cfg.Addrs)
	c.members[c.rank] = c.self
	c.watch = newWatch(c)
	if c.listener, err = c.bind(ctx); err != nil {
		return nil, err
	}
	c.life, c.end = context.WithCancelCause(context.Background())
	c.live, c.kill = context.WithCancelCause(c.life)
	if cfg.Follows && c.rank != 0 {
		cfg.History.awaits(&Vigil{c: c})
	}
	c.running.Go(c.accept)
	c.running.Go(c.keepTime)
	if !isOwn(c.at(c.neighbour(left)).Addr()) { // else no network lies between
		c.running.Go(c.lookForHalfOpen)
	}
	trace.Debug(trace.Bootstrap, "listening", slog.String("address", c.listener.Addr().String()))
	return c, nil
}

// LeaderDiagnoses tells whether rank 0 asks for the control ring alone; after Exchange.
func (c *Control) LeaderDiagnoses() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.members[0].Diagnosing
}

// SetAddrs sets the addresses of the list.
func (c *Control) SetAddrs(addrs []netip.AddrPort) {
	addrs = slices.Clone(addrs)
	c.addrs.Store(&addrs)
}

// Addrs returns the addresses of the list: a neighbour's may have changed while the ring came up.
func (c *Control) Addrs() []netip.AddrPort { return slices.Clone(*c.addrs.Load()) }

// at is a rank's address.
func (c *Control) at(rank int) netip.AddrPort { return (*c.addrs.Load())[rank] }

// SetState sets what probes are told that this rank does.
func (c *Control) SetState(s string) {
	c.mu.Lock()
	c.state = s
	c.mu.Unlock()
}

// SetDoing sets what says which operation runs, for the verdicts that this rank finds. It is
// called under the Control's lock: it must return at once and call nothing of the Control.
func (c *Control) SetDoing(doing func() Doing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.doing = doing
}

// Failure returns the verdict that counts, nil if the ring has not failed.
func (c *Control) Failure() *Verdict {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failure
}

func (c *Control) report(v *Verdict, first bool) {
	if !first {
		return
	}
	trace.Debug(trace.Bootstrap, "the ring failed", slog.String("kind", string(v.Kind)),
		slog.Int("fault", v.Rank), slog.String("why", v.Text))
	if c.cfg.OnFailure != nil {
		c.cfg.OnFailure(v)
	}
}

// notify wakes all waits; it needs the lock.
func (c *Control) notify() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// name says which rank is meant, for messages.
func (c *Control) name(rank int) string {
	if rank < 0 || rank >= c.size {
		return fmt.Sprintf("rank %d", rank)
	}
	return fmt.Sprintf("rank %d (%s)", rank, c.cfg.List[rank].Called(c.cfg.Names))
}

// verdict makes a verdict that this rank finds, and has seen.
func (c *Control) verdict(kind Kind, rank int, format string, args ...any) *Verdict {
	return &Verdict{Kind: kind, Rank: rank, Confidence: Certain, By: c.rank, Text: fmt.Sprintf(format, args...)}
}

func (c *Control) neighbour(side int) int {
	if side == left {
		return (c.rank + c.size - 1) % c.size
	}
	return (c.rank + 1) % c.size
}

// wait waits until missing, called under the lock, returns no rank. A little
// before the context's deadline it stops and asks every rank how it is. Who has nothing
// to do meanwhile does not say that it waits.
func (c *Control) wait(ctx context.Context, what string, tell bool, missing func() []int) error {
	start := time.Now()
	on, end := c.begin(ctx, what)
	defer end()
	enough := ctx
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		enough, cancel = context.WithDeadline(ctx, deadline.Add(-min(time.Second, deadline.Sub(start)/4)))
		defer cancel()
	}
	var from []int
	for late := false; ; {
		c.mu.Lock()
		failure, closed, changed := c.failure, c.closed, c.changed
		from = missing()
		if tell {
			c.waiting, c.waitingTo, c.waitingAt = from, what, start
		}
		c.mu.Unlock()
		switch {
		case len(from) == 0:
			return nil
		case failure != nil:
			return failure
		case closed:
			return ErrClosed
		}
		if tell {
			on(from)
		}
		if !late {
			select {
			case <-changed:
			case <-c.life.Done():
				return ErrClosed
			case <-enough.Done():
				late = true // what came untold is looked at once more
			}
			continue
		}
		if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return fmt.Errorf("waiting for %s to %s: %w", calls.Ranks(from), what, context.Cause(ctx))
		}
		e := &TimeoutError{What: what, From: from, Peers: c.lateProbe(ctx)}
		c.mu.Lock()
		failure = c.failure
		e.blame(c)
		e.Remarks = append(e.Remarks, c.remarks...)
		for _, p := range e.Peers {
			switch {
			case p.Rank != c.neighbour(right) || c.connections[right] != nil:
				continue
			case c.untrusted:
				e.untrusted = true
			}
			switch {
			case p.Up && c.problem != "":
				e.Remarks = append(e.Remarks, "last attempt to reach "+c.name(p.Rank)+": "+c.problem)
			case !p.Up && c.intruder != "" && c.intruder != p.State:
				// A stranger that serves one caller, and went.
				e.Remarks = append(e.Remarks, "who answered there before: "+c.intruder)
			}
		}
		c.mu.Unlock()
		if failure != nil {
			return failure
		}
		// What it was given, of which the probes take the last: what the user has asked for.
		deadline, _ := ctx.Deadline() // which has passed, or is about to
		e.After = max(deadline.Sub(start), 0)
		return e
	}
}

// lateProbe probes in what is left of a deadline. On a machine too busy to keep
// it, a deadline overrun by a quarter of a second that says who is missing is
// worth more than one kept that does not.
func (c *Control) lateProbe(ctx context.Context) []PeerReport {
	deadline, _ := ctx.Deadline()
	within, cancel := awake(c.life, max(time.Until(deadline), time.Second/4))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			cancel() // the caller has given up
		}
	})
	defer stop()
	return c.Probe(within)
}

// Goodbye tells the neighbours that this rank leaves on purpose, and gives them
// a moment to say so too, so that nobody's queue pair goes while a peer still
// waits for its last acknowledgement. After a failure it returns at once.
func (c *Control) Goodbye() {
	c.mu.Lock()
	friendly := !c.leaving && !c.failing()
	c.leaving = true
	for _, l := range c.connections {
		if l != nil && friendly {
			c.send(l, TypeGoodbye, nil)
		}
	}
	c.notify()
	friendly = friendly && c.sealed
	c.mu.Unlock()
	enough := time.After(linger)
	for friendly {
		c.mu.Lock()
		changed := c.changed
		friendly = slices.ContainsFunc(c.connections[:], func(l *connection) bool { return l != nil && !l.ended && l.goodbye.IsZero() })
		c.mu.Unlock()
		if !friendly {
			return
		}
		select {
		case <-changed:
		case <-enough:
			return
		}
	}
}

// Close says goodbye if that was not done, ends all connections and goroutines
// and frees the port. Closing twice is harmless.
func (c *Control) Close() error {
	var err error
	c.closeOnce.Do(func() {
		c.Goodbye()
		c.mu.Lock()
		c.closed = true
		c.end(ErrClosed)
		connections := c.connections
		c.notify()
		c.mu.Unlock()
		err = c.listener.Close()
		c.callers.Close()
		for _, l := range connections {
			if l != nil {
				l.finish()
			}
		}
		c.running.Wait()
		c.strangers.tell(true) // nobody notes any more
	})
	return err
}
