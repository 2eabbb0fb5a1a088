package ring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"ringcli/configs/usage"
	"ringcli/ring/message"
	"ringcli/trace"
	"ringcli/verbs"
)

// pings are the pings that run on this rank: those that it makes, and those of its
// neighbours that it sends back. Together they have the polling token; one of them at a
// time polls, and handles what comes for all. So ranks that ping each other at once
// answer each other. What is for none of them is deferred to the next operation.
//
// A ping of one neighbour (PingSide) shares the token with others, and the neighbour was
// told of it over TCP. A ping of all ranks (Ping) has the token to itself: it is two
// pings, one at each edge, that end together, and whatever else comes fails them.
type pings struct {
	r       *Ring
	polling chan struct{} // of capacity 1: held by the ping that polls

	mu      sync.Mutex // guards the following, the fields of each ping, and sends on the edges
	running []*ping
	last    uint64 // number of the last ping
	ofAll   uint64 // pings of all ranks since Reset: the sequence of their messages
	buf     [MessageSize]byte
}

func newPings(r *Ring) *pings { return &pings{r: r, polling: make(chan struct{}, 1)} }

// seqOfAll marks the sequence of a ping of all ranks.
const seqOfAll = 1 << 63

// StalePing tells whether a message is of a ping of one neighbour: one that comes while
// no ping runs is over.
func StalePing(msg []byte) bool {
	var h message.Header
	return h.Decode(msg) && h.IsPing() && h.Seq&seqOfAll == 0
}

// ping is one ping at one of its ends.
type ping struct {
	edge     *Edge
	asks     bool   // this rank asks; else it answers
	seq      uint64 // of its messages; the end that asks chooses it
	number   uint64 // in the IDs of its sends
	total    uint32 // round trips, the unmeasured one included
	done     uint32 // round trips, or answers sent
	unsent   int    // messages posted, not completed
	posted   bool   // something was sent
	patience time.Duration
	moved    time.Time // the last message; patience is how long ago that may be
	at       time.Time // the last ping was sent
	trips    message.Trips
	with     *ping // the other one of a ping of all ranks; nil for one of a neighbour

	err   error
	ended chan struct{} // closed when all is done, or err is set
}

// enter adds pings: one of a neighbour, or the two of a ping of all ranks.
func (p *pings) enter(list ...*ping) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(list) == 2 {
		p.ofAll++
		list[0].with, list[1].with = list[1], list[0]
	}
	for _, x := range list {
		p.last++
		x.number, x.moved, x.ended = p.last, time.Now(), make(chan struct{})
		switch {
		case x.with != nil:
			x.seq = seqOfAll | p.ofAll
		case x.asks:
			x.seq = p.last
		}
		p.running = append(p.running, x)
	}
}

// leave takes a ping out. What comes for it later is dropped.
func (p *pings) leave(x *ping) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = slices.DeleteFunc(p.running, func(other *ping) bool { return other == x })
}

// reset begins the sequence of pings of all ranks anew.
func (p *pings) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ofAll = 0
}

// fail ends a ping, unless it has ended. It needs mu, as all below.
func (x *ping) fail(err error) {
	if x.over() {
		return
	}
	x.err = err
	close(x.ended)
	if x.with != nil {
		x.with.fail(err)
	}
}

func (x *ping) over() bool {
	select {
	case <-x.ended:
		return true
	default:
		return false
	}
}

// progress notes that something moved, and ends the ping if that was all.
func (x *ping) progress(now time.Time) {
	x.moved = now
	if x.done == x.total && x.unsent == 0 && !x.over() {
		close(x.ended)
	}
}

// find returns the ping of a neighbour that a message on an edge is for, or nil.
func (p *pings) find(e *Edge, asks bool, seq uint64) *ping {
	for _, x := range p.running {
		if x.edge == e && x.asks == asks && x.seq == seq && !x.over() {
			return x
		}
	}
	return nil
}

// expecting returns the ping of all ranks that expects a message on an edge, or nil.
func (p *pings) expecting(e *Edge) *ping {
	for _, x := range p.running {
		if x.edge == e && x.with != nil && x.done < x.total && !x.over() {
			return x
		}
	}
	return nil
}

func (p *pings) send(x *ping) {
	h := message.Header{
		Kind: message.Ping, Epoch: p.r.Epoch(), Seq: x.seq, Segment: x.done, Sender: uint32(p.r.rank),
		Length: MessageSize - message.HeaderSize, Arg: uint64(x.total),
	}
	h.Digest = uint64(message.FillPattern(p.buf[message.HeaderSize:], p.r.rank, x.done))
	x.at = time.Now()
	p.transmit(x, &h)
}

func (p *pings) transmit(x *ping, h *message.Header) {
	h.Encode(p.buf[:])
	x.posted = true
	if err := x.edge.sendMessage(p.buf[:], x.number); err != nil {
		x.fail(err)
		return
	}
	x.unsent++
}

func (p *pings) take(t Token, wc *verbs.Completion) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	id, kind, value := ParseWRID(wc.ID)
	e := p.r.Edge(id)
	switch {
	case id.IsMesh() && wc.Status == verbs.Success: // its peer is done with the ping, and ahead
		t.Defer(*wc)
	case wc.Status != verbs.Success:
		p.failed(t, e, wc)
	case kind == WRMessage:
		for _, x := range p.running {
			if x.edge == e && x.number == value {
				x.unsent--
				x.progress(now)
			}
		}
	case kind != WRRecv:
		for _, x := range p.running {
			if x.with != nil && !x.over() {
				x.fail(fmt.Errorf("ping met the completion of another operation (work request %#x): run one operation at a time", wc.ID))
				return
			}
		}
		t.Defer(*wc)
	case wc.Opcode == verbs.WCRecvWriteImm:
		if x := p.expecting(e); x != nil {
			x.fail(fmt.Errorf("ping met data written by %s: expected a ping; all ranks must run the same operations in the same order", p.r.NodeName(e.Peer)))
			return
		}
		t.Defer(*wc)
	default:
		p.receive(t, e, value, wc, now)
	}
}

// failed handles a failed completion: those of the pings' edges fail them, and any
// fails a ping of all ranks.
func (p *pings) failed(t Token, e *Edge, wc *verbs.Completion) {
	id, kind, _ := ParseWRID(wc.ID)
	others := id.IsMesh() || kind >= WRUser
	for _, x := range p.running {
		if x.with != nil && !x.over() || x.edge == e && !others {
			x.fail(p.r.failure.Completion(wc))
			others = false
		}
	}
	if others {
		t.Defer(*wc)
	}
}

func (p *pings) receive(t Token, e *Edge, index uint64, wc *verbs.Completion, now time.Time) {
	msg := e.Message(index, wc.ByteLen)
	var h message.Header
	decoded := h.Decode(msg)
	if decoded && h.Epoch != p.r.Epoch() {
		p.r.control.DropStale(&h, e.Peer)
		if err := e.Repost(index); err != nil {
			trace.Debug(trace.Ring, "repost", slog.String("error", err.Error())) // which the next operation on the edge reports
		}
		return
	}
	x := p.expecting(e)
	var err error
	switch {
	case x != nil && !decoded:
		err = fmt.Errorf("%d bytes from %s are no message", len(msg), p.r.NodeName(e.Peer))
	case x != nil:
		err = p.check(x, &h, msg)
	case !decoded || !h.IsPing() || h.Seq&seqOfAll != 0:
		t.Defer(*wc)
		return
	default:
		if x = p.find(e, h.Kind == message.Pong, h.Seq); x != nil {
			err = p.check(x, &h, msg)
		}
	}
	copy(p.buf[:], msg)
	err = errors.Join(err, e.Repost(index))
	switch {
	case x == nil:
		trace.Debug(trace.Ring, "message of a ping that is over dropped", slog.Int("neighbour", e.Peer), slog.String("kind", h.Kind.String()))
	case err != nil:
		x.fail(err)
	case x.asks:
		x.trips.Add(x.done, now.Sub(x.at))
		x.done++
		if x.done < x.total {
			p.send(x)
		}
		x.progress(now)
	default:
		x.done++
		h.Kind, h.Sender = message.Pong, uint32(p.r.rank)
		p.transmit(x, &h) // the payload as it came
		x.progress(now)
	}
}

func (p *pings) check(x *ping, h *message.Header, msg []byte) error {
	r, peer := p.r, x.edge.Peer
	want, origin := message.Ping, peer
	if x.asks {
		want, origin = message.Pong, r.rank // our own bytes come back
	}
	switch {
	case h.Kind != want:
		return fmt.Errorf("ping met a %s from %s: expected a %s; all ranks must run the same operations in the same order", h.Kind, r.NodeName(peer), want)
	case h.Epoch != r.Epoch() || h.Seq != x.seq || int(h.Sender) != peer:
		return fmt.Errorf("%s from %s is number %d of epoch %d, sent by rank %d: expected number %d of epoch %d",
			h.Kind, r.NodeName(peer), h.Seq&^seqOfAll, h.Epoch, h.Sender, x.seq&^seqOfAll, r.Epoch())
	case h.Arg != uint64(x.total):
		return usage.Errorf("%s pings %d times and this rank, %d, pings %d times: give all ranks the same count",
			r.NodeName(peer), h.Arg-1, r.rank, x.total-1)
	case h.Segment != x.done:
		return fmt.Errorf("%s from %s is of round trip %d: expected round trip %d", h.Kind, r.NodeName(peer), h.Segment, x.done)
	}
	if err := h.Verify(msg, MessageSize, origin); err != nil {
		return fmt.Errorf("%s of round trip %d from %s: %w", h.Kind, h.Segment, r.NodeName(peer), err)
	}
	return nil
}

// drive sees a ping to its end: while no other polls, it polls.
func (p *pings) drive(ctx context.Context, t Token, x *ping) error {
	quiet := time.NewTicker(quietTick)
	defer quiet.Stop()
	for {
		select {
		case <-x.ended:
			return x.err
		case p.polling <- struct{}{}:
			p.pollFor(ctx, t, x)
			<-p.polling
		case <-ctx.Done():
		case <-quiet.C:
		}
		p.overdue(ctx, x)
	}
}

// busyPolls is how many polls that found something may pass before the clock is
// looked at: some hundred microseconds.
const busyPolls = 64

// quietTick is the pause between two looks at the clock.
const quietTick = 50 * time.Millisecond

// idleError ends a ping that was given up, or on which nothing moved for too long.
type idleError struct {
	edge    *Edge
	quiet   time.Duration
	givenUp bool
	cause   error
}

func (e *idleError) Error() string {
	if e.givenUp {
		return e.cause.Error()
	}
	return fmt.Sprintf("nothing moved for %s: %v", e.quiet.Round(time.Millisecond), e.cause)
}
func (e *idleError) Unwrap() error { return e.cause }

// overdue fails a ping that was given up, or on which nothing has moved for too long, and
// the other one of a ping of all ranks: each waits for another neighbour.
func (p *pings) overdue(ctx context.Context, x *ping) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var quietest *ping
	for _, x := range []*ping{x, x.with} {
		if x == nil || x.over() {
			continue
		}
		switch quiet := time.Since(x.moved); {
		case p.r.Failed():
			x.fail(p.r.Err())
		case ctx.Err() != nil:
			x.fail(&idleError{x.edge, quiet, true, context.Cause(ctx)})
		case quiet > x.patience:
			x.fail(&idleError{x.edge, quiet, false, context.DeadlineExceeded})
		case quiet > quietTick && (quietest == nil || x.moved.Before(quietest.moved)):
			quietest = x
		}
	}
	if quietest != nil {
		p.r.stalls.Waiting("ping", []int{quietest.edge.Peer}, quietest.moved)
	}
}

// pollFor polls for all until one ping has ended.
func (p *pings) pollFor(ctx context.Context, t Token, x *ping) {
	waiter := p.r.host.NewWaiter()
	var wc [16]verbs.Completion
	for busy := 0; !x.over(); {
		n, err := t.Poll(wc[:])
		for i := range wc[:n] {
			p.take(t, &wc[i])
		}
		if n > 0 {
			waiter.Reset()
			if busy++; busy%busyPolls != 0 {
				continue
			}
		}
		p.overdue(ctx, x)
		if err == nil {
			err = waiter.Wait()
		}
		if err != nil {
			p.mu.Lock()
			x.fail(err)
			p.mu.Unlock()
		}
	}
	// Nobody may poll for a while: the neighbours get their ACKs now.
	_, _ = t.poll(nil)
}

// markUnclean keeps operations from running: a ping failed, and its messages may
// still come in.
func (p *pings) markUnclean(err error) {
	r := p.r
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	if r.table.unclean == nil {
		r.table.unclean = fmt.Errorf("messages of a ping that failed may still be on their way: reset on all ranks first; the ping: %w", err)
	}
}
