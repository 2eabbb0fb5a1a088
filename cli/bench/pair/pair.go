// Package pair is a queue pair from rank 0 to rank 1 that stands beside the ring's own, and
// batches of messages over it. The other ranks of the ring have an end that does nothing.
package pair

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ringcli/cli/session"
	"ringcli/ring"
	"ringcli/trace"
	"ringcli/verbs"
	"ringcli/verbs/bringup"
)

// role is what a rank does.
type role uint8

const (
	bystander role = iota // waits
	active                // rank 0: sends and measures
	passive               // rank 1: receives and answers
)

// Queue is the length of the send queue and of the receive queue.
const Queue = 128

// align is that of the bench's buffers: a page of every machine there is.
const align = 64 << 10

// End is one end of a queue pair beside the ring's own, to the same
// neighbour: its queues and buffers are the bench's alone.
type End struct {
	role    role
	edge    *ring.Edge // whose path it takes
	timeout time.Duration
	Window  int // messages in flight at most

	device bringup.Device // the edge's, with a completion queue of its own
	qp     verbs.QP
	block  verbs.Memory
	reg    *ring.Registration
	waiter verbs.Waiter
	peer   address
	failed func() error // why the ring failed, if it has

	sink     uint64 // where in the block messages arrive; what is sent stands before it
	inFlight int    // sends without completion
	arrived  int    // receive completions that nobody has asked for yet
	posted   int    // receives in the queue
	wc       [Queue]verbs.Completion
	wr       [Queue + 1]verbs.WorkRequest
	sge      [1]verbs.SGE // of every request: all have the same place here
	recv     []verbs.WorkRequest
	recvSGE  [1]verbs.SGE // all receives land in the same place
	spans    spans
}

// address is what the two ends tell each other.
type address struct {
	QPN    uint32 `json:"qpn"`
	PSN    uint32 `json:"psn"`
	Source uint64 `json:"source"` // to read from
	Sink   uint64 `json:"sink"`   // to write to
	RKey   uint32 `json:"rkey"`
}

// Open makes this rank's end, for messages of at most so many bytes: nothing
// for a bystander.
func Open(m *session.Member, bytes uint64, window int) (e *End, err error) {
	e = &End{timeout: m.Ring.Timeout(), Window: window, failed: m.Ring.Err}
	switch m.Ring.Rank() {
	case 0:
		e.role, e.edge = active, m.Ring.Right()
	case 1:
		e.role, e.edge = passive, m.Ring.Left()
	default:
		return e, nil
	}
	e.device = e.edge.Device().Device
	e.device.CQ, e.device.Channel = nil, nil
	if err = e.device.CreateCQ(2 * (Queue + 1)); err != nil {
		return e, err
	}
	e.waiter = verbs.Waiter{CQ: e.device.CQ, Channel: e.device.Channel, Policy: m.Ring.Options().Wait, MaxSpins: e.device.Attr.MaxSpins, Affinity: m.Ring.Affinity()}
	e.sink = (bytes + align - 1) / align * align
	if e.block, err = m.Ring.AllocMemory(e.sink + max(bytes, 1)); err != nil {
		return e, err
	}
	e.reg, err = m.Ring.RegisterMemory(e.block.Addr(), uint64(e.block.Len()), verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead)
	if err != nil {
		return e, err
	}
	// Touch every page: the first round must not measure the kernel's zeroing.
	for i := range e.block.Bytes() {
		e.block.Bytes()[i] = byte(i)
	}
	e.qp, _, err = e.device.CreateQP(verbs.QPCap{MaxSendWR: Queue + 1, MaxRecvWR: Queue, MaxSendSGE: 1, MaxRecvSGE: 1}, true)
	if err != nil {
		return e, fmt.Errorf("create a queue pair: %w", err)
	}
	// Each receive has room for the longest message.
	e.recvSGE[0] = verbs.SGE{Addr: e.block.Addr() + e.sink, Length: uint32(max(bytes, 1)), LKey: e.reg.LKey(e.edge.Device())}
	e.recv = make([]verbs.WorkRequest, Queue)
	for i := range e.recv {
		e.recv[i].SGL = e.recvSGE[:]
	}
	return e, nil
}

// Connect exchanges both ends over the control ring and takes the queue pair
// to RTS, with the attributes of the edge beside it.
func (e *End) Connect(ctx context.Context, m *session.Member) error {
	mine := address{PSN: verbs.RandomPSN()}
	if e.role != bystander {
		mine.QPN, mine.RKey = e.qp.Num(), e.reg.RKey(e.edge.Device())
		mine.Source, mine.Sink = e.block.Addr(), e.block.Addr()+e.sink
	}
	all, err := session.Share(ctx, m, mine)
	if err != nil || e.role == bystander {
		return err
	}
	e.peer = all[e.edge.Peer]
	a, _, err := e.edge.QP.Query()
	if err != nil {
		return err
	}
	a.Access = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead
	a.DestQPN, a.RQPSN, a.SQPSN = e.peer.QPN, e.peer.PSN, mine.PSN
	for _, a.State = range []verbs.QPState{verbs.StateInit, verbs.StateRTR, verbs.StateRTS} {
		if err := verbs.Advance(e.qp, a); err != nil {
			return err
		}
		if a.State == verbs.StateInit {
			if err := e.refill(); err != nil {
				return err
			}
		}
	}
	return nil
}

// refill fills the receive queue.
func (e *End) refill() error {
	if e.posted == Queue {
		return nil
	}
	if _, err := e.qp.PostRecv(e.recv[:Queue-e.posted]); err != nil {
		return fmt.Errorf("post receives: %w", err)
	}
	e.posted = Queue
	return nil
}

// send posts n messages to the peer, in one call.
func (e *End) send(op verbs.Opcode, bytes uint32, n int) error {
	here, there := e.block.Addr(), e.peer.Sink
	if op == verbs.OpRead {
		here, there = here+e.sink, e.peer.Source
	}
	e.sge[0] = verbs.SGE{Addr: here, Length: bytes, LKey: e.reg.LKey(e.edge.Device())}
	sgl := e.sge[:]
	if bytes == 0 {
		sgl = nil
	}
	for i := range e.wr[:n] {
		e.wr[i] = verbs.WorkRequest{SGL: sgl, Opcode: op, Flags: verbs.FlagSignaled, RemoteAddr: there, RKey: e.peer.RKey}
	}
	if _, err := e.qp.PostSend(e.wr[:n]); err != nil {
		return fmt.Errorf("post %s of %d bytes: %w", op, bytes, err)
	}
	e.spans.posted(op, bytes, n) // after it is on its way: the clock takes time, too
	e.inFlight += n
	return nil
}

// receive waits for n messages.
func (e *End) receive(ctx context.Context, n int) error {
	for e.arrived < n {
		// A long test must not take all at once: count down as they come.
		n -= e.arrived
		e.arrived = 0
		if err := e.progress(ctx); err != nil {
			return err
		}
	}
	e.arrived -= n
	return nil
}

// rest waits for one message while a device moves the data of others without us.
// It blocks, since polling would take the CPU from the device where that is the
// kernel's, rdma_rxe. In software it is the poll that moves the data.
func (e *End) rest(ctx context.Context) error {
	if !e.edge.Device().Attr.Software {
		policy := e.waiter.Policy
		e.waiter.Policy = verbs.WaitBlock
		defer func() { e.waiter.Policy = policy }()
	}
	return e.receive(ctx, 1)
}

// drain waits until nothing is in flight.
func (e *End) drain(ctx context.Context) error {
	for e.inFlight > 0 {
		if err := e.progress(ctx); err != nil {
			return err
		}
	}
	return nil
}

// progress waits for at least one completion, at most for the timeout.
func (e *End) progress(ctx context.Context) error {
	var since time.Time // the first empty poll that was long ago enough to ask
	for polls := 1; ; polls++ {
		n, err := e.device.CQ.Poll(e.wc[:])
		if err != nil {
			return err
		}
		if n > 0 {
			e.waiter.Reset()
			return e.take(n)
		}
		if polls%256 == 0 { // the clock and the context cost more than a poll
			if err := e.overdue(ctx, &since); err != nil {
				return err
			}
		}
		if err := e.waiter.Wait(); err != nil {
			return err
		}
	}
}

func (e *End) overdue(ctx context.Context, since *time.Time) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := e.failed(); err != nil {
		return err
	}
	now := time.Now()
	if since.IsZero() {
		*since = now
	}
	if now.Sub(*since) > e.timeout {
		return fmt.Errorf("p2p: no completion from rank %d for %s, with %d sends in flight", e.edge.Peer, e.timeout, e.inFlight)
	}
	return nil
}

// take handles completions.
func (e *End) take(n int) error {
	var now trace.Stamp // read once, and not while a message waits for its answer
	for i := range e.wc[:n] {
		wc := &e.wc[i]
		if err := wc.Status.Err(); err != nil {
			return fmt.Errorf("p2p: queue pair 0x%06x to rank %d: %w", wc.QPN, e.edge.Peer, err)
		}
		if wc.Opcode >= verbs.WCRecv {
			e.arrived++
			e.posted--
		} else {
			e.inFlight--
			if now == 0 {
				now = trace.Now()
			}
			e.spans.completed(now, e.edge.Peer)
		}
	}
	// Half a queue at a time: posting each by itself would cost a call a message.
	if e.posted <= Queue/2 {
		return e.refill()
	}
	return nil
}

// Close releases everything that Open made, in reverse order.
func (e *End) Close() error {
	var errs []error
	if e.qp != nil {
		errs = append(errs, e.qp.Close())
	}
	if e.reg != nil {
		errs = append(errs, e.reg.Close())
	}
	if e.block != nil {
		errs = append(errs, e.block.Free())
	}
	errs = append(errs, e.device.CloseCQ())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close the p2p path: %w", err)
	}
	return nil
}
