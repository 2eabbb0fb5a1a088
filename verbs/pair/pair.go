// Package pair sends messages over a connected queue pair and measures them: a stream with several
// in flight, or one there and back at a time. Both ends make the same calls; one is passive, and
// receives and answers.
package pair

import (
	"context"
	"fmt"
	"time"

	"ringcli/trace"
	"ringcli/verbs"
)

// Queue is the length of the send queue and of the receive queue. A send queue has one more, for
// the message that ends a stream.
const Queue = 128

// Capacity is what a queue pair for a Pair is made with.
var Capacity = verbs.QPCap{MaxSendWR: Queue + 1, MaxRecvWR: Queue, MaxSendSGE: 1, MaxRecvSGE: 1}

// Completions is how many completions the queue must have room for.
const Completions = 2 * (Queue + 1)

// Pair is one end. Its fields are set before the first call. It belongs to one goroutine.
type Pair struct {
	QP     verbs.QP
	Waiter verbs.Waiter // of the completion queue, which is the pair's alone
	Peer   int          // the rank of the other end
	// Passive: this end receives and answers.
	Passive bool
	// Blocks: the device moves data by itself. An end that only waits for the last message
	// blocks, since polling would take the CPU from a device that is the kernel's, rdma_rxe.
	Blocks bool
	Window int // messages in flight at most, up to Queue
	// Timeout is how long a completion may take.
	Timeout time.Duration
	// Failed is why nobody waits for completions any more; nil while they may come.
	Failed func() error

	Source, Sink uint64 // addresses: what is sent, and where messages arrive
	Room         uint32 // bytes at Sink
	LKey         uint32
	// Remote addresses: to read from, and to write to.
	RemoteSource, RemoteSink uint64
	RKey                     uint32

	inFlight int // sends without completion
	arrived  int // receive completions that nobody has asked for yet
	posted   int // receives in the queue
	wc       [Queue]verbs.Completion
	wr       [Queue + 1]verbs.WorkRequest
	sge      [1]verbs.SGE // of every send: all have the same place here
	recv     []verbs.WorkRequest
	recvSGE  [1]verbs.SGE // all receives land in the same place
	spans    spans
}

// Refill fills the receive queue. It is called once before the peer sends.
func (p *Pair) Refill() error {
	if p.posted == Queue {
		return nil
	}
	if p.recv == nil { // each receive has room for the longest message
		p.recvSGE[0] = verbs.SGE{Addr: p.Sink, Length: p.Room, LKey: p.LKey}
		p.recv = make([]verbs.WorkRequest, Queue)
		for i := range p.recv {
			p.recv[i].SGL = p.recvSGE[:]
		}
	}
	if _, err := p.QP.PostRecv(p.recv[:Queue-p.posted]); err != nil {
		return fmt.Errorf("post receives: %w", err)
	}
	p.posted = Queue
	return nil
}

// send posts n messages to the peer, in one call.
func (p *Pair) send(op verbs.Opcode, bytes uint32, n int) error {
	here, there := p.Source, p.RemoteSink
	if op == verbs.OpRead {
		here, there = p.Sink, p.RemoteSource
	}
	p.sge[0] = verbs.SGE{Addr: here, Length: bytes, LKey: p.LKey}
	sgl := p.sge[:]
	if bytes == 0 {
		sgl = nil
	}
	for i := range p.wr[:n] {
		p.wr[i] = verbs.WorkRequest{SGL: sgl, Opcode: op, Flags: verbs.FlagSignaled, RemoteAddr: there, RKey: p.RKey}
	}
	if _, err := p.QP.PostSend(p.wr[:n]); err != nil {
		return fmt.Errorf("post %s of %d bytes: %w", op, bytes, err)
	}
	p.spans.posted(op, bytes, n) // after it is on its way: the clock takes time, too
	p.inFlight += n
	return nil
}

// receive waits for n messages.
func (p *Pair) receive(ctx context.Context, n int) error {
	for p.arrived < n {
		// A long test must not take all at once: count down as they come.
		n -= p.arrived
		p.arrived = 0
		if err := p.progress(ctx); err != nil {
			return err
		}
	}
	p.arrived -= n
	return nil
}

// rest waits for one message while the device moves the data of others without us.
func (p *Pair) rest(ctx context.Context) error {
	if p.Blocks {
		policy := p.Waiter.Policy
		p.Waiter.Policy = verbs.WaitBlock
		defer func() { p.Waiter.Policy = policy }()
	}
	return p.receive(ctx, 1)
}

// drain waits until nothing is in flight.
func (p *Pair) drain(ctx context.Context) error {
	for p.inFlight > 0 {
		if err := p.progress(ctx); err != nil {
			return err
		}
	}
	return nil
}

// progress waits for at least one completion, at most for the timeout.
func (p *Pair) progress(ctx context.Context) error {
	var since time.Time // the first empty poll that was long ago enough to ask
	n, err := p.Waiter.Poll(p.wc[:], 256, func() error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := p.Failed(); err != nil {
			return err
		}
		now := time.Now()
		if since.IsZero() {
			since = now
		}
		if now.Sub(since) > p.Timeout {
			return fmt.Errorf("p2p: no completion from rank %d for %s, with %d sends in flight", p.Peer, p.Timeout, p.inFlight)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return p.complete(n)
}

// complete handles n completions.
func (p *Pair) complete(n int) error {
	var now trace.Stamp // read once, and not while a message waits for its answer
	for i := range p.wc[:n] {
		wc := &p.wc[i]
		if err := wc.Status.Err(); err != nil {
			return fmt.Errorf("p2p: queue pair 0x%06x to rank %d: %w", wc.QPN, p.Peer, err)
		}
		if wc.Opcode >= verbs.WCRecv {
			p.arrived++
			p.posted--
		} else {
			p.inFlight--
			if now == 0 {
				now = trace.Now()
			}
			p.spans.completed(now, p.Peer)
		}
	}
	// Half a queue at a time: posting each by itself would cost a call a message.
	if p.posted <= Queue/2 {
		return p.Refill()
	}
	return nil
}
