package ring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"ringcli/trace"
	"ringcli/verbs"
)

// crowd is the pings of one neighbour that run on this rank: its own, which
// PingSide makes, and its neighbours', which it answers on a goroutine of the
// control ring. Together they have the polling token; within the crowd one of them
// at a time polls, and handles what comes for all. So ranks that ping each other
// at once answer each other. What is for none of them is deferred to the next
// operation.
type crowd struct {
	poll chan struct{} // capacity 1: had by who polls

	mu   sync.Mutex
	here []*round // guarded by mu, and so are their fields and sends on the edges
	last uint64   // guarded by mu: the number of the last one
	buf  [MessageSize]byte
}

func newCrowd() *crowd { return &crowd{poll: make(chan struct{}, 1)} }

// round is one ping of one neighbour, at either end.
type round struct {
	edge   *Edge
	own    bool   // this rank asks; else it answers
	seq    uint64 // of its messages; who asks chooses it
	number uint64 // in the IDs of its sends
	total  uint32 // round trips, the unmeasured one included
	done   uint32 // round trips, or answers sent
	unsent int    // messages posted, not completed
	posted bool   // something was sent
	// patience is how long nothing may move.
	patience time.Duration
	moved    time.Time
	at       time.Time // the last ping was sent
	trips    trips

	err   error
	ended chan struct{} // closed when all is done, or err is set
}

// enter adds a round.
func (c *crowd) enter(x *round) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	x.number = c.last
	if x.own {
		x.seq = c.last
	}
	x.moved = time.Now()
	x.ended = make(chan struct{})
	c.here = append(c.here, x)
}

// leave takes a round out. What comes for it later is dropped.
func (c *crowd) leave(x *round) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, other := range c.here {
		if other == x {
			c.here = append(c.here[:i], c.here[i+1:]...)
			return
		}
	}
}

// fail ends a round, unless it has ended. It needs mu, as all below.
func (x *round) fail(err error) {
	if x.over() {
		return
	}
	x.err = err
	close(x.ended)
}

func (x *round) over() bool {
	select {
	case <-x.ended:
		return true
	default:
		return false
	}
}

// progress notes that something moved, and ends the round if that was all.
func (x *round) progress(now time.Time) {
	x.moved = now
	if x.done == x.total && x.unsent == 0 && !x.over() {
		close(x.ended)
	}
}

// find returns the round that a message on an edge is for, or nil.
func (c *crowd) find(e *Edge, own bool, seq uint64) *round {
	for _, x := range c.here {
		if x.edge == e && x.own == own && x.seq == seq && !x.over() {
			return x
		}
	}
	return nil
}

// send sends the next ping of an own round.
func (c *crowd) send(r *Ring, x *round) {
	h := Header{
		Kind: KindEcho, Epoch: r.Epoch(), Seq: x.seq, Segment: x.done, Sender: uint32(r.rank),
		Length: MessageSize - HeaderSize, Arg: uint64(x.total),
	}
	h.Digest = uint64(fillPattern(c.buf[HeaderSize:], r.rank, x.done))
	x.at = time.Now()
	c.transmit(x, &h)
}

func (c *crowd) transmit(x *round, h *Header) {
	h.Encode(c.buf[:])
	x.posted = true
	if err := x.edge.sendMessage(c.buf[:], x.number); err != nil {
		x.fail(err)
		return
	}
	x.unsent++
}

// take handles one completion.
func (c *crowd) take(t Token, wc *verbs.Completion) {
	r := t.r
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	side, kind, value := ParseWRID(wc.ID)
	if side != Left && side != Right || kind >= WRUser {
		t.Defer(*wc)
		return
	}
	e := r.edges[side]
	switch {
	case wc.Status != verbs.Success:
		err := r.CompletionError(wc)
		for _, x := range c.here {
			if x.edge == e {
				x.fail(err)
			}
		}
	case kind == WRMessage:
		for _, x := range c.here {
			if x.edge == e && x.number == value {
				x.unsent--
				x.progress(now)
			}
		}
	case wc.Opcode == verbs.WCRecvWriteImm:
		t.Defer(*wc)
	default:
		c.receive(t, e, value, wc, now)
	}
}

// receive handles a message.
func (c *crowd) receive(t Token, e *Edge, index uint64, wc *verbs.Completion, now time.Time) {
	r := t.r
	msg := e.Message(index, wc.ByteLen)
	var h Header
	if !h.Decode(msg) || h.Kind != KindEcho && h.Kind != KindBack {
		t.Defer(*wc)
		return
	}
	x := c.find(e, h.Kind == KindBack, h.Seq)
	var err error
	if x != nil {
		err = r.checkRound(x, &h, msg)
		copy(c.buf[:], msg)
	}
	err = errors.Join(err, e.Repost(index))
	switch {
	case x == nil:
		trace.Debug(trace.Ring, "message of a ping that is over dropped", slog.Int("neighbour", e.Peer), slog.String("kind", h.Kind.String()))
	case err != nil:
		x.fail(err)
	case x.own:
		x.trips.add(x.done, now.Sub(x.at))
		x.done++
		if x.done < x.total {
			c.send(r, x)
		}
		x.progress(now)
	default:
		x.done++
		h.Kind, h.Sender = KindBack, uint32(r.rank)
		c.transmit(x, &h) // the payload as it came
		x.progress(now)
	}
}

// checkRound verifies a message of a round.
func (r *Ring) checkRound(x *round, h *Header, msg []byte) error {
	origin := x.edge.Peer
	if x.own {
		origin = r.rank
	}
	if h.Epoch != r.Epoch() || int(h.Sender) != x.edge.Peer || h.Arg != uint64(x.total) || h.Segment != x.done {
		return fmt.Errorf("%s from %s is round %d of %d, of epoch %d, sent by rank %d: expected round %d of %d, of epoch %d",
			h.Kind, r.nodeName(x.edge.Peer), h.Segment, h.Arg, h.Epoch, h.Sender, x.done, x.total, r.Epoch())
	}
	return r.checkPayload(h, msg, x.edge.Peer, origin)
}

// drive sees a round to its end: while nobody else of the crowd polls, it polls.
func (t Token) drive(ctx context.Context, x *round) error {
	r := t.r
	c := r.crowd
	quiet := time.NewTicker(quietTick)
	defer quiet.Stop()
	for {
		select {
		case <-x.ended:
			return x.err
		case c.poll <- struct{}{}:
			t.pollFor(ctx, x)
			<-c.poll
		case <-ctx.Done():
		case <-quiet.C:
		}
		r.overdue(ctx, x)
	}
}

// busyPolls is how many polls that found something may pass before the clock is
// looked at: some hundred microseconds.
const busyPolls = 64

// quietTick is the pause between two looks at the clock.
const quietTick = 50 * time.Millisecond

// overdue fails a round that was given up, or on which nothing has moved for too
// long.
func (r *Ring) overdue(ctx context.Context, x *round) {
	c := r.crowd
	c.mu.Lock()
	defer c.mu.Unlock()
	switch quiet := time.Since(x.moved); {
	case r.Failed():
		x.fail(r.Err())
	case ctx.Err() != nil:
		x.fail(context.Cause(ctx))
	case quiet > x.patience:
		x.fail(fmt.Errorf("nothing moved for %s: %w", quiet.Round(time.Millisecond), context.DeadlineExceeded))
	}
}

// pollFor polls for all until one round has ended.
func (t Token) pollFor(ctx context.Context, x *round) {
	r := t.r
	c := r.crowd
	waiter := r.NewWaiter()
	var wc [16]verbs.Completion
	for busy := 0; !x.over(); {
		n, err := t.Poll(wc[:])
		for i := range wc[:n] {
			c.take(t, &wc[i])
		}
		if n > 0 {
			waiter.Reset()
			if busy++; busy%busyPolls != 0 {
				continue
			}
		}
		r.overdue(ctx, x)
		if err == nil {
			err = waiter.Wait()
		}
		if err != nil {
			c.mu.Lock()
			x.fail(err)
			c.mu.Unlock()
		}
	}
	// Nobody may poll for a while: the neighbours get their ACKs now.
	_, _ = t.poll(nil)
}
