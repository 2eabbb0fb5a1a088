package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"ringcli/ring/bootstrap/calls"
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
	c     *Control
}

// Who is as in "rank 1 (b:18600)".
func (w Wait) Who() string {
	if len(slices.Compact(slices.Clone(w.from))) == 1 {
		return w.c.name(w.from[0])
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
	e := &TimeoutError{Peers: w.c.follow(ctx, w.from)}
	w.c.mu.Lock()
	e.blame(w.c)
	w.c.mu.Unlock()
	if len(e.Cuts) == 0 && len(e.Peers) == 1 && w.Who() == w.c.name(e.Peers[0].Rank) {
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
	if left.c == nil && time.Now().Before(w.until) {
		left = w.noted
	}
	return left, left.c != nil
}

// Note is that this rank has waited for others since then. It is to be noted again while
// it lasts, at least every noteLasts.
func (c *Control) Note(what string, from []int, since time.Time) {
	w := c.cfg.Waits
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noted, w.until = Wait{since, what, from, c}, time.Now().Add(noteLasts)
}

// noteLasts is longer than those who note pause between two looks.
const noteLasts = 500 * time.Millisecond

// begin begins a wait, which the function that it returns ends. With another from it goes
// on.
func (c *Control) begin(ctx context.Context, what string) (on func(from []int), end func()) {
	w, begun := c.cfg.Waits, (*Wait)(nil)
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
		*begun = Wait{since, what, from, c}
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

// Begin begins a wait for one rank, which the function that it returns ends.
func (c *Control) Begin(ctx context.Context, what string, from int) (end func()) {
	on, end := c.begin(ctx, what)
	on([]int{from})
	return end
}

// follow asks ranks how they are, and then those that they wait for, and returns the
// reports of those that wait for no other: at most four.
func (c *Control) follow(ctx context.Context, from []int) (ends []PeerReport) {
	const most = 4
	asked := map[int]bool{c.rank: true}
	for queue := slices.Clone(from); len(queue) > 0 && len(ends) < most; {
		rank := queue[0]
		queue = queue[1:]
		if asked[rank] {
			continue
		}
		asked[rank] = true
		p := c.ProbeRank(ctx, rank)
		more := slices.DeleteFunc(slices.Clone(p.waiting), func(r int) bool { return asked[r] || r < 0 || r >= c.size })
		if queue = append(queue, more...); len(more) == 0 {
			ends = append(ends, p)
		}
	}
	return ends
}

// SetActivity sets what this rank does, as probes are told it: "idle at its prompt".
func (c *Control) SetActivity(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.activity, c.active = text, time.Now()
}

// Activity is what this rank does and for how long, or "".
func (c *Control) Activity() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.activity == "" {
		return ""
	}
	return fmt.Sprintf("%s for %s", c.activity, calls.Ago(time.Since(c.active)))
}

// Standing says which ranks this one awaits on the control ring, since when and to do what.
func (c *Control) Standing() (from []int, since time.Time, what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.waiting), c.waitingAt, c.waitingTo
}

// Slept is how long this process was stopped, and how long ago that ended, if that is worth
// telling.
func (c *Control) Slept() (slept, ago time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := &c.watch; w.slept.Slept > 0 && time.Since(w.sleptAt) < c.pace.silence {
		return w.slept.Slept, time.Since(w.sleptAt)
	}
	return 0, 0
}

// doing says what a rank does, and for how long.
func (s *status) doing() string {
	if s.Activity == "" {
		return "up (" + s.State + ")"
	}
	return fmt.Sprintf("up, %s for %s", s.Activity, calls.Ago(s.For))
}

// For tells whether a rank is awaited.
func (w Wait) For(rank int) bool { return slices.Contains(w.from, rank) }
