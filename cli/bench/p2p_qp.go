package bench

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

// role is what a rank does in a p2p bench.
type role uint8

const (
	bystander role = iota // waits
	active                // rank 0: sends and measures
	passive               // rank 1: receives and answers
)

// p2pAlign is that of the bench's buffers: a page of every machine there is.
const p2pAlign = 64 << 10

// p2pQP is one end of a queue pair beside the ring's own, to the same
// neighbour: its queues and buffers are the bench's alone.
type p2pQP struct {
	role    role
	edge    *ring.Edge // whose path it takes
	timeout time.Duration
	window  int

	device bringup.Device // the edge's, with a completion queue of its own
	qp     verbs.QP
	block  verbs.Memory
	reg    *ring.Registration
	waiter verbs.Waiter
	peer   p2pAddress
	failed func() error // why the ring failed, if it has

	sink     uint64 // where in the block messages arrive; what is sent stands before it
	inFlight int    // sends without completion
	arrived  int    // receive completions that nobody has asked for yet
	posted   int    // receives in the queue
	wc       [p2pQueue]verbs.Completion
	wr       [p2pQueue + 1]verbs.WorkRequest
	sge      [1]verbs.SGE // of every request: all have the same place here
	recv     []verbs.WorkRequest
	recvSGE  [1]verbs.SGE // all receives land in the same place
	spans    p2pSpans
}

// p2pAddress is what the two ends tell each other.
type p2pAddress struct {
	QPN    uint32 `json:"qpn"`
	PSN    uint32 `json:"psn"`
	Source uint64 `json:"source"` // to read from
	Sink   uint64 `json:"sink"`   // to write to
	RKey   uint32 `json:"rkey"`
}

// openP2P makes this rank's end, for messages of at most so many bytes: nothing
// for a bystander.
func openP2P(m *session.Member, bytes uint64, window int) (p *p2pQP, err error) {
	p = &p2pQP{timeout: m.Ring.Timeout(), window: window, failed: m.Ring.Err}
	switch m.Ring.Rank() {
	case 0:
		p.role, p.edge = active, m.Ring.Right()
	case 1:
		p.role, p.edge = passive, m.Ring.Left()
	default:
		return p, nil
	}
	p.device = p.edge.Device().Device
	p.device.CQ, p.device.Channel = nil, nil
	if err = p.device.CreateCQ(2 * (p2pQueue + 1)); err != nil {
		return p, err
	}
	p.waiter = verbs.Waiter{CQ: p.device.CQ, Channel: p.device.Channel, Policy: m.Ring.Options().Wait, MaxSpins: p.device.Attr.MaxSpins, Affinity: m.Ring.Affinity()}
	p.sink = (bytes + p2pAlign - 1) / p2pAlign * p2pAlign
	if p.block, err = m.Ring.AllocMemory(p.sink + max(bytes, 1)); err != nil {
		return p, err
	}
	p.reg, err = m.Ring.RegisterMemory(p.block.Addr(), uint64(p.block.Len()), verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead)
	if err != nil {
		return p, err
	}
	// Touch every page: the first round must not measure the kernel's zeroing.
	for i := range p.block.Bytes() {
		p.block.Bytes()[i] = byte(i)
	}
	p.qp, _, err = p.device.CreateQP(verbs.QPCap{MaxSendWR: p2pQueue + 1, MaxRecvWR: p2pQueue, MaxSendSGE: 1, MaxRecvSGE: 1}, true)
	if err != nil {
		return p, fmt.Errorf("create a queue pair: %w", err)
	}
	// Each receive has room for the longest message.
	p.recvSGE[0] = verbs.SGE{Addr: p.block.Addr() + p.sink, Length: uint32(max(bytes, 1)), LKey: p.reg.LKey(p.edge.Device())}
	p.recv = make([]verbs.WorkRequest, p2pQueue)
	for i := range p.recv {
		p.recv[i].SGL = p.recvSGE[:]
	}
	return p, nil
}

// connectP2P exchanges both ends over the control ring and takes the queue pair
// to RTS, with the attributes of the edge beside it.
func connectP2P(ctx context.Context, m *session.Member, p *p2pQP) error {
	mine := p2pAddress{PSN: verbs.RandomPSN()}
	if p.role != bystander {
		mine.QPN, mine.RKey = p.qp.Num(), p.reg.RKey(p.edge.Device())
		mine.Source, mine.Sink = p.block.Addr(), p.block.Addr()+p.sink
	}
	all, err := session.Share(ctx, m, mine)
	if err != nil || p.role == bystander {
		return err
	}
	p.peer = all[p.edge.Peer]
	a, _, err := p.edge.QP.Query()
	if err != nil {
		return err
	}
	a.Access = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead
	a.DestQPN, a.RQPSN, a.SQPSN = p.peer.QPN, p.peer.PSN, mine.PSN
	for _, a.State = range []verbs.QPState{verbs.StateInit, verbs.StateRTR, verbs.StateRTS} {
		if err := verbs.Advance(p.qp, a); err != nil {
			return err
		}
		if a.State == verbs.StateInit {
			if err := p.refill(); err != nil {
				return err
			}
		}
	}
	return nil
}

// refill fills the receive queue.
func (p *p2pQP) refill() error {
	if p.posted == p2pQueue {
		return nil
	}
	if _, err := p.qp.PostRecv(p.recv[:p2pQueue-p.posted]); err != nil {
		return fmt.Errorf("post receives: %w", err)
	}
	p.posted = p2pQueue
	return nil
}

// send posts n messages to the peer, in one call.
func (p *p2pQP) send(op verbs.Opcode, bytes uint32, n int) error {
	here, there := p.block.Addr(), p.peer.Sink
	if op == verbs.OpRead {
		here, there = here+p.sink, p.peer.Source
	}
	p.sge[0] = verbs.SGE{Addr: here, Length: bytes, LKey: p.reg.LKey(p.edge.Device())}
	sgl := p.sge[:]
	if bytes == 0 {
		sgl = nil
	}
	for i := range p.wr[:n] {
		p.wr[i] = verbs.WorkRequest{SGL: sgl, Opcode: op, Flags: verbs.FlagSignaled, RemoteAddr: there, RKey: p.peer.RKey}
	}
	if _, err := p.qp.PostSend(p.wr[:n]); err != nil {
		return fmt.Errorf("post %s of %d bytes: %w", op, bytes, err)
	}
	p.spans.posted(op, bytes, n) // after it is on its way: the clock takes time, too
	p.inFlight += n
	return nil
}

// receive waits for n messages.
func (p *p2pQP) receive(ctx context.Context, n int) error {
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

// rest waits for one message while a device moves the data of others without us.
// It blocks, since polling would take the CPU from the device where that is the
// kernel's, rdma_rxe. In software it is the poll that moves the data.
func (p *p2pQP) rest(ctx context.Context) error {
	if !p.edge.Device().Attr.Software {
		policy := p.waiter.Policy
		p.waiter.Policy = verbs.WaitBlock
		defer func() { p.waiter.Policy = policy }()
	}
	return p.receive(ctx, 1)
}

// drain waits until nothing is in flight.
func (p *p2pQP) drain(ctx context.Context) error {
	for p.inFlight > 0 {
		if err := p.progress(ctx); err != nil {
			return err
		}
	}
	return nil
}

// progress waits for at least one completion, at most for the timeout.
func (p *p2pQP) progress(ctx context.Context) error {
	var since time.Time // the first empty poll that was long ago enough to ask
	for polls := 1; ; polls++ {
		n, err := p.device.CQ.Poll(p.wc[:])
		if err != nil {
			return err
		}
		if n > 0 {
			p.waiter.Reset()
			return p.take(n)
		}
		if polls%256 == 0 { // the clock and the context cost more than a poll
			if err := p.overdue(ctx, &since); err != nil {
				return err
			}
		}
		if err := p.waiter.Wait(); err != nil {
			return err
		}
	}
}

func (p *p2pQP) overdue(ctx context.Context, since *time.Time) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := p.failed(); err != nil {
		return err
	}
	now := time.Now()
	if since.IsZero() {
		*since = now
	}
	if now.Sub(*since) > p.timeout {
		return fmt.Errorf("p2p: no completion from rank %d for %s, with %d sends in flight: is it gone, or is RoCE traffic lost?", p.edge.Peer, p.timeout, p.inFlight)
	}
	return nil
}

// take handles completions.
func (p *p2pQP) take(n int) error {
	var now trace.Stamp // read once, and not while a message waits for its answer
	for i := range p.wc[:n] {
		wc := &p.wc[i]
		if err := wc.Status.Err(); err != nil {
			return fmt.Errorf("p2p: queue pair 0x%06x to rank %d: %w", wc.QPN, p.edge.Peer, err)
		}
		if wc.Opcode >= verbs.WCRecv {
			p.arrived++
			p.posted--
		} else {
			p.inFlight--
			if now == 0 {
				now = trace.Now()
			}
			p.spans.completed(now, p.edge.Peer)
		}
	}
	// Half a queue at a time: posting each by itself would cost a call a message.
	if p.posted <= p2pQueue/2 {
		return p.refill()
	}
	return nil
}

// Close releases everything that openP2P made, in reverse order.
func (p *p2pQP) Close() error {
	var errs []error
	if p.qp != nil {
		errs = append(errs, p.qp.Close())
	}
	if p.reg != nil {
		errs = append(errs, p.reg.Close())
	}
	if p.block != nil {
		errs = append(errs, p.block.Free())
	}
	errs = append(errs, p.device.CloseCQ())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close the p2p path: %w", err)
	}
	return nil
}
