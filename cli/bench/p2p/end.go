package p2p

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ringcli/cli/session"
	"ringcli/cli/timing"
	"ringcli/ring"
	"ringcli/verbs"
	"ringcli/verbs/bringup"
	"ringcli/verbs/pair"
)

// align is that of the two halves of the buffer: a page of every machine there is.
const align = 64 << 10

// end is this rank's end of a queue pair from rank 0 to rank 1 that stands beside the ring's own:
// its queues and buffers are the bench's alone. Of the other ranks it is nil, which does nothing.
type end struct {
	pair.Pair
	edge   *ring.Edge     // whose path it takes
	device bringup.Device // the edge's, with a completion queue of its own
	block  verbs.Memory   // what is sent, and behind it what arrives
	reg    *ring.Registration
}

// open makes this rank's end, for messages of at most so many bytes. An end that comes with an
// error is to be closed, too.
func open(m *session.Member, bytes uint64, window int) (e *end, err error) {
	if m.Ring.Rank() > 1 {
		return nil, nil
	}
	e = &end{edge: m.Ring.Right()}
	if m.Ring.Rank() == 1 {
		e.Passive, e.edge = true, m.Ring.Left()
	}
	e.Peer, e.Window, e.Timeout, e.Failed = e.edge.Peer, window, m.Ring.Timeout(), m.Ring.Err
	e.device = e.edge.Device().Device
	e.device.CQ, e.device.Channel = nil, nil
	if err = e.device.CreateCQ(pair.Completions); err != nil {
		return e, err
	}
	e.Blocks = !e.device.Attr.Software // in software it is the poll that moves the data
	e.Waiter = verbs.Waiter{CQ: e.device.CQ, Channel: e.device.Channel, Policy: m.Ring.Options().Wait, MaxSpins: e.device.Attr.MaxSpins, Affinity: m.Ring.Host().Affinity()}
	half := (bytes + align - 1) / align * align
	if e.block, err = m.Ring.Memory().Alloc(half + max(bytes, 1)); err != nil {
		return e, err
	}
	const access = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead
	if e.reg, err = m.Ring.Memory().Register(e.block.Addr(), uint64(e.block.Len()), access); err != nil {
		return e, err
	}
	e.Source, e.Sink, e.Room, e.LKey = e.block.Addr(), e.block.Addr()+half, uint32(max(bytes, 1)), e.reg.LKey(e.edge.Device())
	// Touch every page: the first round must not measure the kernel's zeroing.
	for i := range e.block.Bytes() {
		e.block.Bytes()[i] = byte(i)
	}
	if e.QP, _, err = e.device.CreateQP(pair.Capacity, true); err != nil {
		return e, fmt.Errorf("create a queue pair: %w", err)
	}
	return e, nil
}

// address is what the two ends tell each other.
type address struct {
	QPN    uint32 `json:"qpn"`
	PSN    uint32 `json:"psn"`
	Source uint64 `json:"source"` // to read from
	Sink   uint64 `json:"sink"`   // to write to
	RKey   uint32 `json:"rkey"`
}

// connect exchanges both ends over the control ring and takes the queue pair to RTS, with the
// attributes of the edge beside it. All ranks call it.
func (e *end) connect(ctx context.Context, m *session.Member) error {
	mine := address{PSN: verbs.RandomPSN()}
	if e != nil {
		mine.QPN, mine.RKey, mine.Source, mine.Sink = e.QP.Num(), e.reg.RKey(e.edge.Device()), e.Source, e.Sink
	}
	all, err := session.Share(ctx, m, mine)
	if err != nil || e == nil {
		return err
	}
	peer := all[e.Peer]
	e.RemoteSource, e.RemoteSink, e.RKey = peer.Source, peer.Sink, peer.RKey
	a, _, err := e.edge.QP.Query()
	if err != nil {
		return err
	}
	a.Access = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead
	a.DestQPN, a.RQPSN, a.SQPSN = peer.QPN, peer.PSN, mine.PSN
	for _, a.State = range []verbs.QPState{verbs.StateInit, verbs.StateRTR, verbs.StateRTS} {
		if err := verbs.Advance(e.QP, a); err != nil {
			return err
		}
		if a.State == verbs.StateInit {
			if err := e.Refill(); err != nil {
				return err
			}
		}
	}
	return nil
}

// streams is a batch of a bandwidth test: warm messages that are not measured, and n that
// are, which took so long.
func (e *end) streams(ctx context.Context, op verbs.Opcode, bytes uint32, warm, n int) (took time.Duration, err error) {
	for _, count := range []int{warm, n} {
		if took = 0; e != nil && count > 0 && err == nil {
			took, err = e.Stream(ctx, op, bytes, count)
		}
	}
	return took, err
}

// bounces is a batch of a latency test, likewise. The first message is not measured: it takes as
// long as one end begins later than the other.
func (e *end) bounces(ctx context.Context, op verbs.Opcode, bytes uint32, warm, n int, w *timing.Stopwatch) error {
	if e == nil {
		return nil
	}
	if err := e.Bounce(ctx, op, bytes, warm+1, nil); err != nil || n == 0 {
		return err
	}
	return e.Bounce(ctx, op, bytes, n, w.Add)
}

// fill writes what this end sends and spoils what it receives.
func (e *end) fill(bytes uint32, seed uint64) {
	if e == nil {
		return
	}
	source, sink := e.halves(bytes)
	fillPattern(source, 1-e.Peer, seed)
	for i := range sink {
		sink[i] = ^byte(0)
	}
}

// halves are the bytes that are sent, and those that arrive.
func (e *end) halves(bytes uint32) (source, sink []byte) {
	all := e.block.Bytes()
	return all[:bytes], all[e.Sink-e.Source:][:bytes]
}

// verify compares what has arrived with what the other end sends: how many bytes are wrong, and the
// first of them. Both ends receive, but for a READ: of that the reader alone. What has received
// nothing has checked nothing.
func (e *end) verify(op verbs.Opcode, bytes uint32, seed uint64) (checked bool, wrong uint64, first int, got, want byte) {
	if e == nil || e.Passive && op == verbs.OpRead {
		return
	}
	_, sink := e.halves(bytes)
	wrong, first, got, want = verifyPattern(sink, e.Peer, seed)
	return true, wrong, first, got, want
}

// close releases everything that open made, in reverse order.
func (e *end) close() error {
	if e == nil {
		return nil
	}
	var errs []error
	if e.QP != nil {
		errs = append(errs, e.QP.Close())
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
