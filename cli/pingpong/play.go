package pingpong

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"ringcli/verbs"
)

// IDs of the requests, as the stock tool has them. They are bits of pending, too.
const (
	receiving = 1
	sending   = 2
)

// player is where an end is with its messages.
type player struct {
	posted         int // receives in the queue
	sent, received int // completions
	pending        int // what must complete before the next send
	recvs          []verbs.WorkRequest
	send           []verbs.WorkRequest
	waiter         verbs.Waiter
	since          time.Time // of the last completion
	lastMessage    time.Time // when it came; of the client at first when its own was sent
	wc             [16]verbs.Completion
	quiet          func() // ends the wait that Waiting was told of; nil: none
}

// memory is how many bytes an end needs. The server sends what it has received,
// from one place, like the stock tool's both ends. A client that is to check what
// comes back receives it in another.
func (e *end) memory() uint64 {
	if e.separate() {
		return 2 * uint64(e.o.Size)
	}
	return uint64(e.o.Size)
}

func (e *end) separate() bool { return e.o.Check && !e.o.IsServer() }

// fillByte is the stock tool's.
const fillByte = 0x7b

// start fills the memory and posts the receives.
func (e *end) start() error {
	b := e.pair.Block.Bytes()
	for i := range b {
		b[i] = fillByte
	}
	from := verbs.SGE{Addr: e.pair.MR.Addr(), Length: uint32(e.o.Size), LKey: e.pair.MR.LKey()}
	into := from
	if e.separate() {
		into.Addr += uint64(e.o.Size)
	}
	e.send = []verbs.WorkRequest{{ID: sending, SGL: []verbs.SGE{from}, Opcode: verbs.OpSend, Flags: verbs.FlagSignaled}}
	e.recvs = slices.Repeat([]verbs.WorkRequest{{ID: receiving, SGL: []verbs.SGE{into}}}, e.o.Depth)
	e.waiter = verbs.Waiter{CQ: e.CQ, Channel: e.Channel, Policy: verbs.WaitYield}
	if e.o.Events {
		e.waiter.Policy = verbs.WaitBlock
	}
	return e.refill()
}

func (e *end) refill() error {
	n, err := e.pair.QP.PostRecv(e.recvs[:e.o.Depth-e.posted])
	if err != nil {
		return fmt.Errorf("post receive %d of %d (--rx-depth): %w", e.posted+n+1, e.o.Depth, err)
	}
	e.posted = e.o.Depth
	return nil
}

func (e *end) play(ctx context.Context) (elapsed time.Duration, unacknowledged bool, err error) {
	defer e.heard()
	begun := time.Now()
	e.since, e.pending = begun, receiving
	if !e.o.IsServer() {
		if err := e.sendNext(); err != nil {
			return 0, false, err
		}
		e.lastMessage = begun
	}
	every := 64
	if e.o.Events { // an end that blocks has the time
		every = 1
	}
	for e.received < e.o.Iters || e.sent < e.o.Iters {
		n, err := e.waiter.Poll(e.wc[:], every, func() error { return e.overdue(ctx) })
		if err != nil {
			return 0, false, err
		}
		for i := range e.wc[:n] {
			c := &e.wc[i]
			if e.leftEarly(c) {
				return time.Since(begun), true, nil
			}
			if err := e.take(c); err != nil {
				return 0, false, err
			}
		}
		e.heard()
		if e.received%64 == 0 && ctx.Err() != nil { // messages that come at once leave no time to ask
			return 0, false, context.Cause(ctx)
		}
	}
	elapsed = time.Since(begun)
	return elapsed, false, e.linger(ctx)
}

func (e *end) take(c *verbs.Completion) error {
	if c.Status != verbs.Success {
		return e.failed(c)
	}
	now := time.Now()
	e.since = now
	if c.ID == sending {
		e.sent++
	} else {
		if err := e.arrived(c, now); err != nil {
			return err
		}
	}
	e.pending &^= int(c.ID)
	if e.pending == 0 && e.sent < e.o.Iters {
		return e.sendNext()
	}
	return nil
}

func (e *end) arrived(c *verbs.Completion, now time.Time) error {
	e.received++
	e.posted--
	if !e.lastMessage.IsZero() {
		e.o.RoundTrip(now.Sub(e.lastMessage))
	}
	e.lastMessage = now
	if int(c.ByteLen) != e.o.Size {
		return fmt.Errorf("message %d of %s has %d bytes, expected %d: give both ends the same --size", e.received, e.peer, c.ByteLen, e.o.Size)
	}
	if e.o.Check {
		if err := e.check(); err != nil {
			return err
		}
	}
	// As the stock tool does: not one by one, which would cost a call a message.
	if e.posted <= 1 {
		return e.refill()
	}
	return nil
}

func (e *end) sendNext() error {
	if e.separate() {
		e.mark()
	}
	e.pending = receiving | sending
	if _, err := e.pair.QP.PostSend(e.send); err != nil {
		return fmt.Errorf("post message %d to %s: %w", e.sent+1, e.peer, err)
	}
	return nil
}

// mark writes the next message. The stock tool's mark is on the first byte of each
// page, the page's number modulo sizeof(char): 0. The bytes between are free, and
// differ from one message to the next.
func (e *end) mark() {
	b := e.pair.Block.Bytes()[:e.o.Size]
	for i := range b {
		b[i] = byte(i%251 + e.sent)
	}
	for i := 0; i < len(b); i += os.Getpagesize() {
		b[i] = 0
	}
}

// check verifies the message that has come: at the server the marks, at the client
// all of what it had sent, which a server sends back as it came.
func (e *end) check() error {
	b := e.pair.Block.Bytes()
	if e.separate() {
		sent, got := b[:e.o.Size], b[e.o.Size:]
		for i := range got {
			if got[i] != sent[i] {
				return fmt.Errorf("wrong data: byte %d of message %d of %s is %#02x, expected %#02x, as it was sent", i, e.received, e.peer, got[i], sent[i])
			}
		}
		return nil
	}
	for i := 0; i < len(b); i += os.Getpagesize() {
		if b[i] != 0 {
			return fmt.Errorf("wrong data: page %d of message %d of %s begins with %#02x, expected 0x00: does the client run with --chk, too?",
				i/os.Getpagesize(), e.received, e.peer, b[i])
		}
	}
	return nil
}

// quietAfter is when it is no longer the wire that is waited for.
const quietAfter = 500 * time.Millisecond

// heard ends a wait that Waiting was told of.
func (e *end) heard() {
	if e.quiet != nil {
		e.quiet()
		e.quiet = nil
	}
}

// overdue ends a wait that was cancelled, or has taken too long.
func (e *end) overdue(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	switch quiet := time.Since(e.since); {
	case quiet > quietAfter && e.quiet == nil:
		e.quiet = e.o.Waiting("messages of "+e.peer.String()+", of which "+e.progress(), e.since)
		return nil
	case quiet < e.o.Timeout:
		return nil
	}
	return fmt.Errorf("%w: no completion for %s from %s; %s; %s", verbs.ErrTimeout, e.o.Timeout, e.where(), e.progress(), e.suspicion())
}

func (e *end) failed(c *verbs.Completion) error {
	what := "a receive"
	if c.ID == sending {
		what = fmt.Sprintf("message %d", e.sent+1)
	}
	hint := ""
	switch c.Status {
	case verbs.RetryExceeded:
		hint = "; no answer comes: has the peer ended, or does something on the way drop UDP port 4791? If it runs, " + e.suspicion()
	case verbs.RNRRetryExceeded, verbs.LocalLengthError, verbs.RemoteInvalidRequest, verbs.RemoteOpError:
		hint = "; " + e.suspicion()
	}
	return fmt.Errorf("%s of queue pair 0x%06x, to %s, failed: %w; %s%s", what, e.address.QPN, e.where(), c.Status.Err(), e.progress(), hint)
}

func (e *end) where() string { return fmt.Sprintf("%s (%s)", e.peer.Addr(), e.remote) }

func (e *end) progress() string {
	return fmt.Sprintf("%d of %d messages have come, %d were acknowledged", e.received, e.o.Iters, e.sent)
}

// suspicion is what the protocol does not tell.
func (e *end) suspicion() string {
	return fmt.Sprintf("it may have been given other options than --size %d --iters %d --mtu %d: the protocol does not tell, and both ends need the same",
		e.o.Size, e.o.Iters, e.o.MTU)
}

// leftEarly tells that all messages have come, and that the peer went away before
// the last one of this end was acknowledged. It need not have missed it: where only
// the ACK was lost, the stock tool has ended, and answers no more.
func (e *end) leftEarly(c *verbs.Completion) bool {
	return c.ID == sending && c.Status == verbs.RetryExceeded && e.received == e.o.Iters && e.sent == e.o.Iters-1
}

// linger answers what the peer sends again where the last ACK was lost, for as long
// as it takes to be sent again twice. Without, it would find nobody.
func (e *end) linger(ctx context.Context) error {
	deadline := time.Now().Add(min(2*verbs.AckTimeout(e.o.QPTimeout)+lingerSlack, maxLinger))
	for ctx.Err() == nil && time.Now().Before(deadline) {
		if _, err := e.CQ.Poll(nil); err != nil {
			return fmt.Errorf("poll the completion queue: %w", err)
		}
		time.Sleep(lingerPause)
	}
	return nil
}

const (
	// lingerSlack covers that timers are late, the peer's too: rdma_rxe's tick in
	// jiffies, of 4 ms at most by default.
	lingerSlack = 50 * time.Millisecond
	// maxLinger bounds it where --qp-timeout is long.
	maxLinger = time.Second
	// lingerPause is short beside any ACK timeout that is in use.
	lingerPause = time.Millisecond
)
