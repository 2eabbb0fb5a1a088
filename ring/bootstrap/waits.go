package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"ringcli/ring/bootstrap/calls"
	"ringcli/ring/bootstrap/oob"
)

// Waits are what a process waits for from other ranks, for whoever tells people while
// they last. nil keeps none.
type Waits struct {
	mu    sync.Mutex // guards the following
	begun []*Wait    // the oldest first
	noted Wait       // goes on for as long as it is noted again
	until time.Time  // so
	left  Wait       // that was given up last
}

// Wait is one wait for other ranks.
type Wait struct {
	Since time.Time
	what  string // they are to do
	from  []int  // with two ranks both neighbours are one, and it is named twice
	by    *waiter
}

// Who is as in "rank 1 (b:18600)".
func (w Wait) Who() string {
	if len(slices.Compact(slices.Clone(w.from))) == 1 {
		return w.by.own.name(w.from[0])
	}
	return calls.Ranks(w.from)
}

// String is as in "rank 1 (b:18600) to run all-reduce".
func (w Wait) String() string { return w.Who() + " to " + w.what }

// Why asks how the awaited ranks are, and those that they wait for themselves: an answer
// names the ranks at which that ends. It takes at most two seconds.
func (w Wait) Why(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	e := &TimeoutError{Peers: w.by.prober.follow(ctx, w.from)}
	w.by.blame(e)
	if len(e.Cuts) == 0 && len(e.Peers) == 1 && w.Who() == w.by.own.name(e.Peers[0].Rank) {
		return e.Peers[0].State
	}
	return strings.Join(e.reasons(), "; ")
}

// Now returns the oldest of the waits.
func (w *Waits) Now() (Wait, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.begun) > 0 {
		return *w.begun[0], true
	}
	return w.noted, time.Now().Before(w.until)
}

// GivenUp returns the wait that a cancelled context has ended since it was last asked.
func (w *Waits) GivenUp() (left Wait, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	left, w.left = w.left, Wait{}
	if left.by == nil && time.Now().Before(w.until) {
		left = w.noted
	}
	return left, left.by != nil
}

// note is that a rank has waited for others since then. It is to be noted again while
// it lasts, at least every noteLasts.
func (w *Waits) note(wait Wait) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noted, w.until = wait, time.Now().Add(noteLasts)
}

// noteLasts is longer than those who note pause between two looks.
const noteLasts = 500 * time.Millisecond

// begin begins a wait, which the function that it returns ends. With another from it goes
// on.
func (w *Waits) begin(ctx context.Context, by *waiter, what string) (on func(from []int), end func()) {
	begun := (*Wait)(nil)
	if w == nil {
		return func([]int) {}, func() {}
	}
	since := time.Now()
	on = func(from []int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if begun == nil {
			begun = &Wait{}
			w.begun = append(w.begun, begun)
		}
		*begun = Wait{since, what, from, by}
	}
	return on, func() {
		if begun == nil {
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.begun = slices.DeleteFunc(w.begun, func(other *Wait) bool { return other == begun })
		if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			w.left = *begun
		}
	}
}

// For tells whether a rank is awaited.
func (w Wait) For(rank int) bool { return slices.Contains(w.from, rank) }

// waitFunc waits until missing returns no rank: see waiter.
type waitFunc func(ctx context.Context, what string, tell bool, missing func() []int) error

// waiter waits for other ranks, and says what this rank does meanwhile.
type waiter struct {
	own        *node
	life       *lifetime
	neighbours *neighbours
	outcome    *outcome
	changes    *changes
	prober     *prober
	tally      *tally
	foreign    *foreignPeers

	mu        sync.Mutex // guards the following
	state     string
	activity  string    // what it does, if anybody has said
	active    time.Time // since when
	waiting   []int
	waitingTo string    // what they are to do
	waitingAt time.Time // since when
}

// set reads or changes what is guarded by the lock.
func (w *waiter) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// wait waits until missing returns no rank. A little before the context's deadline it stops
// and asks every rank how it is. Who has nothing to do meanwhile does not say that it waits.
func (w *waiter) wait(ctx context.Context, what string, tell bool, missing func() []int) error {
	start := time.Now()
	on, end := w.own.cfg.Waits.begin(ctx, w, what)
	defer end()
	enough := ctx
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		enough, cancel = context.WithDeadline(ctx, deadline.Add(-min(time.Second, deadline.Sub(start)/4)))
		defer cancel()
	}
	for late := false; ; {
		changed := w.changes.await()
		failure := w.outcome.phase().failure
		from := missing()
		if tell {
			w.mu.Lock()
			w.waiting, w.waitingTo, w.waitingAt = from, what, start
			w.mu.Unlock()
		}
		switch {
		case len(from) == 0:
			return nil
		case failure != nil:
			return failure
		case w.life.over():
			return ErrClosed
		case late:
			return w.timeout(ctx, what, from, start)
		}
		if tell {
			on(from)
		}
		select {
		case <-changed:
		case <-w.life.ctx.Done():
		case <-enough.Done():
			late = true // what came untold is looked at once more
		}
	}
}

// timeout is the error of a wait whose time is over.
func (w *waiter) timeout(ctx context.Context, what string, from []int, start time.Time) error {
	if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("waiting for %s to %s: %w", calls.Ranks(from), what, context.Cause(ctx))
	}
	// What it was given, of which the probes take the last: what the user has asked for.
	deadline, _ := ctx.Deadline() // which has passed, or is about to
	e := &TimeoutError{What: what, From: from, After: max(deadline.Sub(start), 0), Peers: w.lateProbe(ctx)}
	if failure := w.outcome.phase().failure; failure != nil {
		return failure
	}
	w.blame(e)
	e.Remarks = w.foreign.remarked()
	if w.neighbours.at(right) == nil {
		e.Remarks = append(e.Remarks, w.tally.remarks(e)...)
	}
	return e
}

// lateProbe probes in what is left of a deadline. On a machine too busy to keep
// it, a deadline overrun by a quarter of a second that says who is missing is
// worth more than one kept that does not.
func (w *waiter) lateProbe(ctx context.Context) []PeerReport {
	deadline, _ := ctx.Deadline()
	within, cancel := awake(w.life.ctx, max(time.Until(deadline), time.Second/4))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			cancel() // the caller has given up
		}
	})
	defer stop()
	return w.prober.probeAll(within)
}

// blame names the connections that do not arrive, where the ring has not come up: that
// the ranks at their ends wait for each other says less.
func (w *waiter) blame(e *TimeoutError) {
	if w.outcome.phase().sealed {
		return
	}
	counted := w.tally.known()
	for _, p := range e.Peers {
		counted = append(counted, p.counted...)
	}
	for _, cut := range w.own.cuts(counted) {
		e.Cuts, e.Lost = append(e.Cuts, cut.text), append(e.Lost, cut.lost)
		e.Peers = slices.DeleteFunc(e.Peers, func(p PeerReport) bool { return p.Rank == cut.from || p.Rank == cut.to })
	}
}

// status is what this rank says of itself to a probe.
func (w *waiter) status(asked probe, by net.Addr) status {
	n := w.own
	s := status{Rank: n.rank, Same: asked.Digest == n.digest, Itself: asked.Instance == n.self.Instance, State: "up", All: n.listensOnAll()}
	if s.Same || s.Itself || isOwn(oob.AddrPort(by).Addr()) {
		s.Host, s.PID, s.Size = n.self.Host, n.self.PID, n.size
	}
	if g := asked.Group; g != nil && n.group.Supersedes(g) {
		s.Group = &n.group
	}
	if !s.Same {
		return s
	}
	phase := w.outcome.phase()
	if !phase.sealed {
		s.Counted = w.tally.known()
	}
	if phase.failure != nil {
		s.Failure = brief(phase.failure.Text)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s.State, s.Waiting, s.Activity, s.For = w.state, w.waiting[:min(len(w.waiting), mostWaiting)], w.activity, time.Since(w.active)
	return s
}
