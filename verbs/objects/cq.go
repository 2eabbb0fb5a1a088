package objects

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ringcli/trace"
	"ringcli/verbs"
)

// How a queue is armed.
const (
	unarmed = iota
	armedSolicited
	armedAny
)

// CQ is a completion queue: a ring of completions with a lock.
type CQ struct {
	ctx     *Context
	channel *Channel
	queued  atomic.Int64 // completions in the ring: lets an empty poll pass without the lock
	users   atomic.Int64 // queue pairs; each counts once a side
	closed  atomic.Bool

	mu      sync.Mutex
	ring    []verbs.Completion // guarded by mu, as all below
	head    int
	armed   int
	overrun bool
}

// Push adds a completion and raises the event if it was asked for.
func (c *CQ) Push(wc verbs.Completion, solicited bool) {
	c.mu.Lock()
	n := int(c.queued.Load())
	if n == len(c.ring) {
		first := !c.overrun
		c.overrun = true
		c.mu.Unlock()
		if first {
			trace.Debug(trace.Verbs, "completion queue overrun", slog.Int("capacity", n), slog.String("qpn", verbs.Hex(wc.QPN)))
		}
		return
	}
	c.ring[(c.head+n)%len(c.ring)] = wc
	c.queued.Store(int64(n + 1))
	fire := c.armed == armedAny || c.armed == armedSolicited && (solicited || wc.Status != verbs.Success)
	if fire {
		c.armed = unarmed
	}
	c.mu.Unlock()
	if fire && c.channel != nil {
		c.channel.raise(c)
	}
}

// take moves completions to wc.
func (c *CQ) take(wc []verbs.Completion) int {
	if c.queued.Load() == 0 || len(wc) == 0 {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	queued := int(c.queued.Load())
	n := min(len(wc), queued)
	for i := range n {
		wc[i] = c.ring[c.head]
		if c.head++; c.head == len(c.ring) {
			c.head = 0
		}
	}
	c.queued.Store(int64(queued - n))
	return n
}

// Poll implements verbs.CQ: completions that are there, else one round of
// progress and what that brought.
func (c *CQ) Poll(wc []verbs.Completion) (int, error) {
	if c.closed.Load() {
		return 0, fmt.Errorf("poll completion queue: %w", verbs.ErrClosed)
	}
	if n := c.take(wc); n > 0 {
		return n, nil
	}
	c.ctx.owner.Progress(len(wc) == 0)
	if n := c.take(wc); n > 0 {
		return n, nil
	}
	return 0, c.lost()
}

// lost reports an overrun, once everything that did fit has been polled.
func (c *CQ) lost() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.overrun {
		return fmt.Errorf("completion queue of %d: %w; create it larger or poll more often", len(c.ring), verbs.ErrOverrun)
	}
	return nil
}

func (c *CQ) ReqNotify(solicitedOnly bool) error {
	if c.channel == nil {
		return fmt.Errorf("arm completion queue: %w: it was created without a completion channel", verbs.ErrInvalid)
	}
	if c.closed.Load() {
		return fmt.Errorf("arm completion queue: %w", verbs.ErrClosed)
	}
	c.mu.Lock()
	if !solicitedOnly {
		c.armed = armedAny
	} else if c.armed == unarmed {
		c.armed = armedSolicited
	}
	c.mu.Unlock()
	c.ctx.owner.TakeOver()
	return nil
}

func (c *CQ) Close() error {
	if n := c.users.Load(); n > 0 {
		return fmt.Errorf("close completion queue: %w: %d queue pairs use it", verbs.ErrBusy, n)
	}
	if !c.closed.Swap(true) {
		c.ctx.release()
		if c.channel != nil {
			c.channel.forget(c)
			c.channel.users.Add(-1)
		}
	}
	return nil
}

// Channel is a completion channel: a list of queues with an event.
type Channel struct {
	ctx    *Context
	users  atomic.Int64
	closed atomic.Bool
	done   chan struct{} // closed by Close
	signal chan struct{} // capacity 1: events is not empty

	mu     sync.Mutex
	events []*CQ // guarded by mu
}

func (h *Channel) raise(c *CQ) {
	h.mu.Lock()
	h.events = append(h.events, c)
	h.mu.Unlock()
	select {
	case h.signal <- struct{}{}:
	default:
	}
}

func (h *Channel) next() (*CQ, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.events) == 0 {
		return nil, false
	}
	c := h.events[0]
	h.events = h.events[:copy(h.events, h.events[1:])]
	return c, true
}

func (h *Channel) forget(c *CQ) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = slices.DeleteFunc(h.events, func(e *CQ) bool { return e == c })
}

var timers = sync.Pool{New: func() any { return time.NewTimer(time.Hour) }}

func (h *Channel) GetEvent(timeout time.Duration) (verbs.CQ, error) {
	if c, ok := h.next(); ok {
		return c, nil
	}
	closed := func() error { return fmt.Errorf("wait for a completion event: %w", verbs.ErrClosed) }
	if h.closed.Load() { // a short timeout may be over, too
		return nil, closed()
	}
	timer := timers.Get().(*time.Timer)
	timer.Reset(timeout)
	defer func() {
		timer.Stop()
		timers.Put(timer)
	}()
	for {
		select {
		case <-h.signal:
		case <-h.done:
			return nil, closed()
		case <-timer.C:
			return nil, verbs.ErrTimeout
		}
		if c, ok := h.next(); ok {
			return c, nil
		}
	}
}

func (h *Channel) Close() error {
	if n := h.users.Load(); n > 0 {
		return fmt.Errorf("close completion channel: %w: %d completion queues use it", verbs.ErrBusy, n)
	}
	if !h.closed.Swap(true) {
		close(h.done)
		h.ctx.release()
	}
	return nil
}
