package bootstrap

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"ringcli/configs/usage"
	"ringcli/ring/bootstrap/calls"
	"ringcli/ring/bootstrap/hosts"
	"ringcli/ring/bootstrap/kernel"
	"ringcli/ring/bootstrap/oob"
	"ringcli/ring/bootstrap/verdict"
	"ringcli/trace"
)

// Control is a rank's end of the control ring. Its methods may be called from
// any goroutine; Gather and Broadcast must be called in the same order on all ranks.
// It owns its parts, each of which has its own state and lock.
type Control struct {
	own        *node
	life       *lifetime
	changes    *changes
	members    *members
	neighbours *neighbours
	outcome    *outcome
	liveness   *liveness
	epochs     *epochs
	prober     *prober
	tally      *tally
	foreign    *foreignPeers
	waiter     *waiter
	exchanger  *exchanger
	gathers    *gathers
	asks       *asks
	greeter    *greeter
	dialler    *dialler
	closeOnce  sync.Once
}

// Open binds the listener and answers probes and the left neighbour from now on.
func Open(ctx context.Context, cfg Config) (*Control, error) {
	if cfg.Rank < 0 || cfg.Rank >= len(cfg.List) || len(cfg.Addrs) != len(cfg.List) {
		return nil, usage.Errorf("index %d: expected 0 to %d, the entries of the list", cfg.Rank, len(cfg.List)-1)
	}
	c := newControl(cfg)
	var err error
	if c.greeter.listener, err = c.prober.bind(ctx); err != nil {
		return nil, err
	}
	if cfg.Follows && cfg.Rank != 0 {
		c.own.cfg.History.awaits(&Vigil{prober: c.prober})
	}
	c.life.start(c.greeter.accept)
	c.life.start(c.keepTime)
	if !isOwn(c.own.at(c.own.neighbour(left)).Addr()) { // else no network lies between
		c.life.start(func() { c.tally.lookForHalfOpen(c.outcome) })
	}
	trace.Debug(trace.Bootstrap, "listening", slog.String("address", c.greeter.listener.Addr().String()))
	return c, nil
}

// newControl makes a Control that neither listens nor dials.
func newControl(cfg Config) *Control {
	cfg = cfg.withDefaults()
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	opened := time.Now()
	own := &node{
		cfg: cfg, pace: paceOf(cfg.Death, cfg.Silence), rank: cfg.Rank, size: len(cfg.List), digest: hosts.Digest(cfg.List),
		self:  identity{Instance: rand.Text(), Host: host, PID: os.Getpid(), Process: kernel.This(), Diagnosing: cfg.Diagnosing},
		group: Group{Whole: hosts.Digest(cfg.Whole), Without: cfg.Without, Decision: cfg.Decision},
	}
	own.setAddrs(cfg.Addrs)
	c := &Control{own: own, life: newLifetime(context.Background()), changes: &changes{next: make(chan struct{})}, epochs: &epochs{own: own}, foreign: &foreignPeers{}}
	c.members = &members{own: own, byRank: map[int]identity{own.rank: own.self}}
	c.prober = &prober{own: own, life: c.life, members: c.members}
	c.outcome = &outcome{own: own, life: c.life, members: c.members, changes: c.changes}
	c.neighbours = &neighbours{
		own: own, life: c.life, members: c.members, changes: c.changes,
		phase: c.outcome.phase, epoch: c.Epoch, handle: c.handle, lost: c.lost,
	}
	c.outcome.neighbours = c.neighbours
	c.liveness = newLiveness(own, opened)
	c.liveness.life, c.liveness.members, c.liveness.neighbours = c.life, c.members, c.neighbours
	c.liveness.outcome, c.liveness.prober = c.outcome, c.prober
	c.outcome.slept = func() time.Duration { slept, _ := c.liveness.sleptLately(); return slept }
	c.tally = &tally{own: own, neighbours: c.neighbours, opened: opened}
	c.waiter = &waiter{
		own: own, life: c.life, neighbours: c.neighbours, outcome: c.outcome, changes: c.changes,
		prober: c.prober, tally: c.tally, foreign: c.foreign, state: "open",
	}
	c.exchanger = &exchanger{
		own: own, life: c.life, members: c.members, neighbours: c.neighbours, outcome: c.outcome,
		epochs: c.epochs, changes: c.changes, wait: c.waiter.wait,
	}
	c.gathers = &gathers{
		own: own, life: c.life, neighbours: c.neighbours, outcome: c.outcome, changes: c.changes,
		failing: c.failing, wait: c.waiter.wait, block: blockOf(own.rank, own.size), ops: make(map[uint64]*operation),
	}
	c.asks = &asks{
		own: own, life: c.life, neighbours: c.neighbours, outcome: c.outcome, failing: c.failing,
		asked: make(map[questionKey]chan reply), serving: make(map[questionKey]context.CancelFunc),
	}
	c.greeter = &greeter{
		own: own, life: c.life, neighbours: c.neighbours, outcome: c.outcome, changes: c.changes,
		epochs: c.epochs, prober: c.prober, tally: c.tally, foreign: c.foreign, status: c.waiter.status,
	}
	c.dialler = &dialler{
		own: own, life: c.life, neighbours: c.neighbours, outcome: c.outcome, changes: c.changes,
		prober: c.prober, tally: c.tally, fail: c.Fail,
	}
	return c
}

// keepTime sends signs of life and looks at the neighbours.
func (c *Control) keepTime() {
	ticker := time.NewTicker(c.own.pace.tick)
	defer ticker.Stop()
	beat := time.Now()
	for {
		select {
		case <-c.life.ctx.Done():
			return
		case <-ticker.C:
		}
		now := time.Now()
		c.liveness.catchUp(now)
		if now.Sub(beat) >= c.own.pace.beat {
			beat = now
			c.giveSigns()
		}
		c.gathers.tick()
		if v := c.liveness.overdue(now); v != nil {
			c.outcome.fail(v, nil)
		}
		c.liveness.tick(now)
	}
}

// giveSigns sends a sign of life to the neighbours, with what is counted while the ring comes up.
func (c *Control) giveSigns() {
	var counted any
	if !c.outcome.phase().sealed {
		counted = c.tally.counted()
	}
	for _, l := range c.neighbours.all() {
		if l.idle() {
			l.send(TypeHeartbeat, counted)
		}
	}
}

// handle takes a frame from a neighbour. An error ends the connection.
func (c *Control) handle(l *connection, f *oob.Frame) error {
	if f.Version != oob.Version || f.Sender != l.peer || f.Edge != c.own.edge(l.side) {
		return fmt.Errorf("%s frame of version %d from rank %d on edge %d: expected version %d, rank %d, edge %d",
			f.Type, f.Version, f.Sender, f.Edge, oob.Version, l.peer, c.own.edge(l.side))
	}
	if ok, err := c.epochs.current(l, f); !ok {
		if e, stale := errors.AsType[*staleError](err); stale {
			c.epochs.stale.Add(1)
			c.greeter.stranger(l.conn, e.text)
			l.send(TypeReject, rejection{Retry: true, Verdict: *c.own.verdict(KindMismatch, f.Sender, "%s", e.text)})
		}
		return err
	}
	now := time.Now()
	l.set(func() { l.now.heard, l.now.spoke = now, now })
	told := func(v Verdict) error {
		v.Told = true
		c.outcome.fail(&v, l)
		return nil
	}
	switch f.Type {
	case TypeHeartbeat:
		if len(f.Payload) == 0 {
			return nil
		}
		return with(f, func(a attempts) error { l.set(func() { l.now.counted = &a }); return nil })
	case TypeInfo:
		return with(f, func(i information) error { return c.exchanger.takeInfo(l, i) })
	case TypeParts:
		return with(f, func(p parts) error { return c.gathers.takeParts(l, p) })
	case TypeAsk:
		return with(f, func(q question) error { return c.asks.serve(l, q) })
	case TypeAnswer:
		return with(f, func(r reply) error { c.asks.takeAnswer(l, r); return nil })
	case TypeCancel:
		return with(f, func(r reply) error { c.asks.takeCancel(l, r.ID); return nil })
	case TypeGoodbye:
		l.set(func() { l.now.goodbye = now })
		c.changes.notify()
	case TypeSighting:
		return with(f, func(s verdict.Sighting) error { return c.liveness.takeSighting(l, s) })
	case TypeVerdict:
		return with(f, told)
	case TypeReject:
		return with(f, func(r rejection) error { return told(r.Verdict) })
	default:
		return fmt.Errorf("%q frame from rank %d: not expected on a control connection", f.Type, f.Sender)
	}
	return nil
}

// with hands a frame's payload to what takes it.
func with[T any](f *oob.Frame, take func(T) error) error {
	payload, err := oob.Decode[T](f)
	if err != nil {
		return err
	}
	return take(payload)
}

// lost is called when a connection has ended or makes no sense.
func (c *Control) lost(l *connection, err error) {
	c.liveness.catchUp(time.Now())
	err, used := l.end(err)
	switch phase := c.outcome.phase(); {
	case phase.over() || phase.proposed || c.neighbours.at(l.side) != l:
		// Nobody waits for this neighbour any more, or the verdict is about to come.
		if !phase.proposed {
			l.kill(c.own.gone(l.peer)) // without effect if the verdict or Close has done it
		}
	case !used:
		// Nothing has passed yet: the neighbour may be restarted.
		c.neighbours.drop(l)
		trace.Debug(trace.Bootstrap, "neighbour went away before the exchange", slog.Int("neighbour", l.peer))
		l.kill(c.own.gone(l.peer))
	case !l.here():
		l.kill(c.own.gone(l.peer))
	case !phase.sealed || c.own.size == 1:
		v := c.own.suspected(KindLost, l.peer, "%s was lost: its control connection ended without a goodbye (%s); see what its process (%s) last said",
			c.own.name(l.peer), ending(err), l.who)
		if endedThere(err) {
			v.Confidence = Certain
		}
		c.outcome.fail(v, l)
	default:
		c.liveness.broke(l, err)
	}
	c.changes.notify()
}

// failing tells whether the ring has failed, or is about to.
func (c *Control) failing() bool {
	p := c.outcome.phase()
	return p.failure != nil || p.proposed || c.liveness.faulty()
}

// Exchange connects to both neighbours, in whatever order the nodes start, and
// swaps a JSON value with each. The order is that of the source document: index 0
// sends to the right and then listens to the left, the others listen first and
// then send; then the same in the opposite direction. At the context's deadline
// the error is a *TimeoutError that says who is up; it ends the ring, unless
// Config.ByHand.
//
// Called again it publishes new values and returns at once what the neighbours
// have published last. They need not call it again to hear of it: what was
// published is there before any later question over the same connection.
func (c *Control) Exchange(ctx context.Context, toLeft, toRight any) (fromLeft, fromRight json.RawMessage, err error) {
	var payloads [2]json.RawMessage
	for side, v := range [2]any{left: toLeft, right: toRight} {
		if payloads[side], err = measure(v); err != nil {
			return nil, nil, fmt.Errorf("exchange: %w", err)
		}
	}
	c.dialler.start()
	if err = c.exchanger.swap(ctx, payloads); err != nil {
		if late, ok := errors.AsType[*TimeoutError](err); ok && !c.own.cfg.ByHand {
			v := late.verdict(c.own)
			if c.own.cfg.Review != nil {
				v = c.own.cfg.Review(ctx, v)
			}
			c.Fail(v)
		}
		return nil, nil, err
	}
	if c.outcome.seal() {
		c.own.cfg.History.met(&Vigil{prober: c.prober, who: c.members.of(0)}, c.neighbours.at(left).who.Instance, c.neighbours.at(right).who.Instance)
		c.life.start(c.asks.compareClocks)
		c.changes.notify()
	}
	return c.exchanger.came(left), c.exchanger.came(right), nil
}

// Fail fails the ring: the verdict goes round, and every wait on any rank ends with it. Of
// verdicts that are found at once the one that explains most counts, on all ranks; later
// ones are dropped. A verdict that suspects a neighbour waits for what the others see
// of that: Settled returns what came of it.
func (c *Control) Fail(v *Verdict) {
	p := c.outcome.phase()
	if suspect := c.liveness.suspectedBy(v); p.sealed && suspect >= 0 && !p.proposed {
		c.liveness.blame(suspect, v)
		return
	}
	c.outcome.fail(v, nil)
}

// Failure returns the verdict that counts, nil if the ring has not failed.
func (c *Control) Failure() *Verdict { return c.outcome.phase().failure }

// Settled returns the verdict, and waits for it if one is about to come; nil if none is.
func (c *Control) Settled(ctx context.Context) *Verdict { return c.outcome.settled(ctx, c.failing) }

// LeaderDiagnoses tells whether rank 0 asks for the control ring alone; after Exchange.
func (c *Control) LeaderDiagnoses() bool { return c.members.of(0).Diagnosing }

// SetAddrs sets the addresses of the list.
func (c *Control) SetAddrs(addrs []netip.AddrPort) { c.own.setAddrs(addrs) }

// Addrs returns the addresses of the list: a neighbour's may have changed while the ring came up.
func (c *Control) Addrs() []netip.AddrPort { return slices.Clone(*c.own.addrs.Load()) }

// Epoch is the ring's number, which rank 0 chooses in Exchange and every frame and header
// carries; 0 before.
func (c *Control) Epoch() uint32 { return c.epochs.ring.Load() }

// Stale counts the frames of another epoch, which were dropped.
func (c *Control) Stale() uint64 { return c.epochs.stale.Load() }

// SetState sets what probes are told that this rank does.
func (c *Control) SetState(s string) { c.waiter.set(func() { c.waiter.state = s }) }

// SetActivity sets what this rank does, as probes are told it: "idle at its prompt".
func (c *Control) SetActivity(text string) {
	c.waiter.set(func() { c.waiter.activity, c.waiter.active = text, time.Now() })
}

// Activity is what this rank does and for how long, or "".
func (c *Control) Activity() (text string) {
	c.waiter.set(func() {
		if c.waiter.activity != "" {
			text = fmt.Sprintf("%s for %s", c.waiter.activity, calls.Ago(time.Since(c.waiter.active)))
		}
	})
	return text
}

// Standing says which ranks this one awaits on the control ring, since when and to do what.
func (c *Control) Standing() (from []int, since time.Time, what string) {
	w := c.waiter
	w.set(func() { from, since, what = slices.Clone(w.waiting), w.waitingAt, w.waitingTo })
	return from, since, what
}

// Note is that this rank has waited for others since then. It is to be noted again while
// it lasts, at least twice a second.
func (c *Control) Note(what string, from []int, since time.Time) {
	if w := c.own.cfg.Waits; w != nil {
		w.note(Wait{since, what, from, c.waiter})
	}
}

// Begin begins a wait for one rank, which the function that it returns ends.
func (c *Control) Begin(ctx context.Context, what string, from int) (end func()) {
	on, end := c.own.cfg.Waits.begin(ctx, c.waiter, what)
	on([]int{from})
	return end
}

// Slept is how long this process was stopped, and how long ago that ended, if that is worth
// telling.
func (c *Control) Slept() (slept, ago time.Duration) { return c.liveness.sleptLately() }

// SetDoing sets what says which operation runs, for the verdicts that this rank finds. It is
// called under a lock: it must return at once and call nothing of the Control.
func (c *Control) SetDoing(doing func() Doing) { c.outcome.setDoing(doing) }

// Process tells whether the process of a rank is stopped, gone, or lives, as the host that
// both are on shows it.
func (c *Control) Process(rank int) (stopped, gone, lives bool, pid int) {
	return c.members.process(rank)
}

// Beside tells whether a rank is a process of this host and no network lies between.
func (c *Control) Beside(rank int) bool { return c.members.beside(rank) }

// ProbeRank asks one rank how it is. It takes at most a second.
func (c *Control) ProbeRank(ctx context.Context, rank int) PeerReport {
	return c.prober.probeRank(ctx, rank)
}

// Gather collects one slice of bytes from every rank on every rank, by rank. All ranks
// must name the purpose alike: the error of ranks that differ, one of usage, names both
// purposes, that of a wait in vain the own one.
func (c *Control) Gather(ctx context.Context, purpose Purpose, data []byte) ([][]byte, error) {
	return c.gathers.collect(ctx, purpose, data, true, true)
}

// Ahead returns the operation that this rank has to begin next if another has begun
// it: what it is for, and the rank that it was first heard from.
func (c *Control) Ahead() (purpose Purpose, by int, ok bool) { return c.gathers.ahead() }

// Broadcast returns rank 0's data on every rank; the others' is not looked at.
func (c *Control) Broadcast(ctx context.Context, data []byte) ([]byte, error) {
	parts, err := c.gathers.collect(ctx, Purpose{What: "broadcast", Do: "say what comes next"}, data, c.own.rank == 0, false)
	if err != nil {
		return nil, err
	}
	return parts[0], nil
}

// Ask puts a question to the neighbour at a side, 0 for left and 1 for right,
// which its Config.Answer answers, and returns the answer. It needs the exchange.
// The error is an *AnswerError if the neighbour answered with one, the verdict if
// the ring fails or the neighbour is gone, and wraps the context's. Any number of
// goroutines may ask at once; the neighbour refuses what comes while it has 16
// questions of this connection in hand.
func (c *Control) Ask(ctx context.Context, side int, kind string, payload any) (json.RawMessage, error) {
	return c.asks.ask(ctx, side, kind, payload)
}

// Goodbye tells the neighbours that this rank leaves on purpose, and gives them
// a moment to say so too, so that nobody's queue pair goes while a peer still
// waits for its last acknowledgement. After a failure it returns at once.
func (c *Control) Goodbye() {
	friendly := !c.failing()
	before := c.outcome.leave()
	friendly = friendly && !before.over() && !before.proposed
	if friendly {
		c.neighbours.tell(TypeGoodbye, nil, nil)
	}
	c.changes.notify()
	if friendly && before.sealed {
		ctx, cancel := context.WithTimeout(context.Background(), linger)
		defer cancel()
		c.changes.until(ctx, func() bool {
			return !slices.ContainsFunc(c.neighbours.all(), func(l *connection) bool { return !l.state().ended && l.here() })
		})
	}
}

// Close says goodbye if that was not done, ends all connections and goroutines
// and frees the port. Closing twice is harmless.
func (c *Control) Close() error {
	var err error
	c.closeOnce.Do(func() {
		c.Goodbye()
		c.neighbours.close()
		err = c.greeter.listener.Close()
		c.greeter.callers.Close()
		c.life.running.Wait()
		c.foreign.tell(true) // nobody notes any more
	})
	return err
}
