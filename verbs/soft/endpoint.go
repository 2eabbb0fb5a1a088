package soft

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"ringcli/trace"
	"ringcli/verbs"
	"ringcli/verbs/memory"
	"ringcli/verbs/objects"
	"ringcli/verbs/soft/rc"
	"ringcli/verbs/soft/udp"
	"ringcli/verbs/soft/wire"
)

const (
	// maxWindow in packets: 1 MiB at a path MTU of 4096. More does not make
	// loopback faster and costs cache.
	maxWindow = 256
	// packetOverhead is what the kernel charges a receive buffer for a packet
	// beyond its payload, roughly (struct sk_buff and rounding).
	packetOverhead = 1024
)

// endpoints are the process's sockets by address and port.
var endpoints = struct {
	sync.Mutex
	byAddr map[netip.AddrPort]*endpoint // guarded by the mutex
}{byAddr: make(map[netip.AddrPort]*endpoint)}

// endpoint is a UDP socket and the queue pairs behind it.
type endpoint struct {
	conn  *udp.Conn
	local netip.AddrPort
	refs  int // guarded by endpoints

	background objects.Background

	mu       sync.Mutex
	qps      map[uint32]*qp // guarded by mu, as all below
	recent   *qp            // the last one that find returned
	batch    []udp.Received // received and not yet looked at; valid until the next Recv
	segment  uint16         // place of the next packet in the first train of batch
	dirty    []*qp          // may have something to send, or owe an ACK
	idle     int            // rounds of progress in a row that found nothing
	deadline int64          // no timer runs out before; 0: none runs
	polled   int64          // when somebody polled last
	waiting  int64          // the background goroutine sleeps until then; 0: it does not sleep
	out      rc.Output
	tx       transmitter
	packet   wire.Packet
	port     portCounters
	flood    flood
	probes   probes
}

// portCounters count packets, and what the queue pairs counted that were closed.
type portCounters struct {
	txPackets uint64 `counter:"port_xmit_packets"`
	rxPackets uint64 `counter:"port_rcv_packets"`
	txBytes   uint64 `counter:"port_xmit_data"`
	rxBytes   uint64 `counter:"port_rcv_data"`
	rc.Counters
	icrcErrors   uint64 `counter:"icrc_error"`
	malformed    uint64 `counter:"malformed_packets"`
	unknownQP    uint64 `counter:"unknown_qp"`
	wrongPeer    uint64 `counter:"wrong_peer"`
	txDropped    uint64 `counter:"send_dropped"` // the socket did not take them
	impairedLost uint64 `counter:"impaired_lost"`
}

// attach returns the endpoint of a local address, shared within the process: a peer that knows of
// port 4791 only must find all contexts. A port of 0 takes 4791 or, if that is taken, a free one;
// own takes a free one in any case.
func attach(addr netip.Addr, port uint16, own bool) (*endpoint, error) {
	endpoints.Lock()
	defer endpoints.Unlock()
	want := cmp.Or(port, wire.UDPPort)
	if own {
		want = 0
	}
	if ep := endpoints.byAddr[netip.AddrPortFrom(addr, want)]; ep != nil {
		ep.refs++
		return ep, nil
	}
	conn, err := udp.Listen(netip.AddrPortFrom(addr, want))
	if port == 0 && errors.Is(err, unix.EADDRINUSE) {
		conn, err = udp.Listen(netip.AddrPortFrom(addr, 0))
	}
	if err != nil {
		return nil, fmt.Errorf("open a RoCEv2 endpoint: %w", err)
	}
	ep := &endpoint{
		conn: conn, local: conn.LocalAddr(), refs: 1, qps: make(map[uint32]*qp),
	}
	ep.tx.init(conn)
	endpoints.byAddr[ep.local] = ep
	ep.background.Start(ep.progressInBackground, ep.sleepAndProgress)
	if trace.Enabled(trace.Verbs) {
		f := conn.Features()
		trace.Debug(trace.Verbs, "endpoint open", slog.String("local", ep.local.String()), slog.Bool("gso", f.GSO),
			slog.Bool("gro", f.GRO), slog.Int("receive_buffer", conn.RecvBuffer()), slog.Int("window", ep.window(4096)))
	}
	return ep, nil
}

// detach drops one use; the last one closes the socket and ends the goroutine.
func (e *endpoint) detach() error {
	endpoints.Lock()
	defer endpoints.Unlock()
	if e.refs--; e.refs > 0 {
		return nil
	}
	delete(endpoints.byAddr, e.local)
	e.background.Stop(func() { e.conn.Wake() })
	return e.conn.Close()
}

// window is how many packets of a path MTU the peer's socket buffer takes, on
// the assumption that it is as large as ours. Half is left to others.
func (e *endpoint) window(mtu int) int {
	return max(1, min(maxWindow, e.conn.RecvBuffer()/2/(mtu+packetOverhead)))
}

// poll makes one round of progress, unless somebody else is at it. The last poll
// for a while sends what is owed, too, and so does one that comes late: the next may be too
// late for the peer's timer.
func (e *endpoint) poll(last bool) {
	e.background.Polled()
	if !e.mu.TryLock() {
		return
	}
	now := objects.Clock()
	late := now-e.polled > int64(objects.PollEvery)
	e.polled = now
	e.progress(now)
	for more := last || late; more && len(e.dirty) > 0; {
		more = e.send(now, true)
	}
	e.mu.Unlock()
}

// takenBeforeTick is how many times more the socket is read before a timer that ran out
// counts: until it is empty, but for a flood. Who had no CPU for longer than the timer finds
// the ACK that the timer waits for there, behind what others sent.
const takenBeforeTick = 64

// progress receives what is there, runs timers and sends what may be sent, and
// reports whether there was or is more to do. The lock is held.
func (e *endpoint) progress(now int64) (busy bool) {
	got := e.takeIn(now)
	if e.deadline != 0 && now >= e.deadline {
		for more, n := got, 0; more && n < takenBeforeTick; n++ {
			more = e.takeIn(now)
		}
		e.tick(now)
	}
	if e.idle++; got {
		e.idle = 0
	}
	return len(e.dirty) > 0 && e.send(now, false) || got
}

// takeIn receives what is there, and reports whether anything was.
func (e *endpoint) takeIn(now int64) bool {
	got := e.receive(now)
	if !got || len(e.out.Completions) == 0 {
		batch, err := e.conn.Recv()
		if err != nil && !errors.Is(err, udp.ErrClosed) {
			trace.Warn(trace.Wire, "receive failed", slog.String("error", err.Error()))
		}
		e.batch = batch
		got = e.receive(now) || got
	}
	e.publish()
	return got
}

// receive takes the packets of the batch and reports whether there were any. An
// ACK that rides behind the packet that completed something is left for the next
// time: the caller that polls is waiting for the completion, and answers it meanwhile.
func (e *endpoint) receive(now int64) (got bool) {
	const rider = wire.BTHLen + wire.AETHLen + wire.ICRCLen
	if len(e.batch) == 0 {
		return false
	}
	traced := trace.Enabled(trace.Wire)
	for len(e.batch) > 0 {
		r := &e.batch[0]
		if e.segment > 0 && len(e.batch) == 1 && len(r.Data) <= rider && len(e.out.Completions) > 0 {
			return true
		}
		n := min(r.SegmentSize, len(r.Data))
		if e.tx.impair == nil {
			e.receivePacket(r.Data[:n], r.Src, e.segment, now, traced)
		} else {
			e.tx.impair.arrived(e, r.Data[:n], r.Src, e.segment, now)
		}
		got = true
		e.segment++
		if r.Data = r.Data[n:]; len(r.Data) == 0 {
			e.batch, e.segment = e.batch[1:], 0
		}
	}
	return got
}

// receivePacket gives a packet to its queue pair. traced is whether the events
// of the wire are.
func (e *endpoint) receivePacket(b []byte, src netip.AddrPort, segment uint16, now int64, traced bool) {
	e.port.rxPackets++
	e.port.rxBytes += uint64(len(b))
	p := &e.packet
	bad := wire.Parse(p, b)
	var q *qp
	var drop *uint64 // the counter of what is wrong with it
	why := ""
	if bad != nil && !errors.Is(bad, wire.ErrPad) {
		drop, why = &e.port.malformed, "malformed"
	} else if q = e.find(p.DestQPN); q == nil {
		if e.probes.take(b) {
			e.dropped(now) // anybody can send them
			return
		}
		drop, why = &e.port.unknownQP, "no such queue pair"
	} else if !q.from(src) || !pkeyMatches(p.BTH.PKey()) {
		drop, why = &e.port.wrongPeer, "not from the peer of its queue pair"
	} else if !q.verify(b, src, segment) {
		drop, why = &e.port.icrcErrors, "wrong ICRC"
	}
	if drop != nil {
		*drop++
		e.dropped(now)
		if traced {
			trace.Debug(trace.Wire, "packet dropped: "+why, slog.String("source", src.String()), slog.Int("bytes", len(b)))
		}
		return
	}
	if traced {
		tracePacket(packetReceived, "packet received", q, b, len(p.Payload))
	}
	early := q.rc.Step(p, bad, now, &e.out)
	e.place() // while the payload is in the cache
	if early || q.early.Any() {
		q.early.Stepped(q.rc, p, b, bad, early, now, &e.out, e.place)
	}
	q.heard(now)
	e.touch(q)
}

// find returns a queue pair by number: often the same as before.
func (e *endpoint) find(qpn uint32) *qp {
	if e.recent == nil || e.recent.QPN != qpn {
		e.recent = e.qps[qpn]
	}
	return e.recent
}

// pkeyMatches accepts full and limited members of the default partition.
func pkeyMatches(k uint16) bool { return k&0x7fff == wire.DefaultPKey&0x7fff }

// touch puts q on the list of those that may have something to send.
func (e *endpoint) touch(q *qp) {
	if !q.queued {
		q.queued = true
		e.dirty = append(e.dirty, q)
	}
}

// apply carries out the orders and publishes the completions, in this order.
func (e *endpoint) apply() {
	e.place()
	e.publish()
}

// place carries out the orders.
func (e *endpoint) place() {
	for i := range e.out.Orders {
		o := &e.out.Orders[i]
		switch o.Kind {
		case rc.Place:
			copy(memory.Bytes(o.Addr, len(o.Data)), o.Data)
		case rc.Store64:
			memory.Store64(o.Addr, o.Value)
		case rc.CompSwap:
			*o.Result = memory.CompareAndSwap64(o.Addr, o.Value, o.Swap)
		case rc.FetchAdd:
			*o.Result = memory.FetchAdd64(o.Addr, o.Value)
		}
	}
	e.out.Orders = e.out.Orders[:0]
}

// publish gives the completions to their queues. What they speak of has been
// placed.
func (e *endpoint) publish() {
	for i := range e.out.Completions {
		c := &e.out.Completions[i]
		q := e.find(c.QPN)
		if q == nil {
			continue
		}
		if c.Status != verbs.Success {
			objects.TraceFailed(q.QPN, q.rc.State(), &c.Completion, c.Recv)
		}
		if c.Recv {
			q.RecvCQ.Push(c.Completion, c.Solicited)
		} else {
			q.SendCQ.Push(c.Completion, c.Solicited)
		}
	}
	e.out.Completions = e.out.Completions[:0]
}

// tick runs the timers that are due and finds the next deadline.
func (e *endpoint) tick(now int64) {
	for _, q := range e.qps {
		if d := q.rc.Deadline(); d != 0 && d <= now {
			q.rc.Tick(now, &e.out)
			e.touch(q)
		}
	}
	if e.tx.impair != nil {
		e.tx.impair.release(e, now)
	}
	e.apply()
	e.deadline = 0
	for _, q := range e.qps {
		e.noteDeadline(q.rc.Deadline())
	}
	e.noteDeadline(e.tx.impair.deadline())
}

// noteDeadline makes sure that a timer is looked at in time; 0 is none.
func (e *endpoint) noteDeadline(d int64) {
	if d != 0 && (e.deadline == 0 || d < e.deadline) {
		e.deadline = d
		if e.waiting != 0 && d < e.waiting {
			e.waiting = 0 // once is enough
			e.conn.Wake()
		}
	}
}

// mostBudget bounds a queue pair's budget.
const mostBudget = 120

// budget is how many packets a queue pair sends before they go to the socket, what
// has come meanwhile is received, and the next has its turn: two trains. Peers that
// send to each other find in their caches what came since.
func budget(mtu int) int {
	return min(mostBudget, 2*(udp.MaxBytes/(mtu+wire.BTHLen+wire.ICRCLen)))
}

// send lets every queue pair on the list send, and with acks set also what is
// merely owed, and reports whether one could go on. Those that could and those that
// still owe stay on the list.
func (e *endpoint) send(now int64, acks bool) (more bool) {
	keep := e.dirty[:0]
	for _, q := range e.dirty {
		switch {
		case e.sendFor(q, now, acks):
			more = true
			keep = append(keep, q)
		case q.rc.OwesAck():
			keep = append(keep, q)
		default:
			q.queued = false
		}
	}
	e.dirty = keep
	return more
}

// sendFor lets one queue pair send, and reports whether it could go on.
func (e *endpoint) sendFor(q *qp, now int64, acks bool) (more bool) {
	more = q.rc.Emit(now, false, q.budget, &e.out)
	if len(e.out.Completions) > 0 {
		e.apply()
	}
	if n := len(e.out.Packets); !more && q.rc.OwesAck() && (acks || q.ackDue(n, e.idle, now)) {
		q.rc.Emit(now, true, 0, &e.out)
	}
	q.said(len(e.out.Packets), e.idle, now)
	e.tx.send(q, &e.out, &e.port)
	e.out.ResetPackets()
	e.noteDeadline(q.rc.Deadline())
	e.noteDeadline(e.tx.impair.deadline())
	return more
}

// kickSend sends what the window allows for one queue pair, and once over at most:
// the rest is for polls. An ACK that it owes goes along; what others owe waits for
// their own answers.
func (e *endpoint) kickSend(q *qp) {
	e.apply()
	now := objects.Clock()
	for sent := 0; e.sendFor(q, now, false); sent += q.budget {
		if sent > maxWindow {
			e.touch(q)
			return
		}
		e.takeIn(now)
	}
}

// progressInBackground makes progress until there is nothing to do.
func (e *endpoint) progressInBackground() {
	for busy := true; busy && !e.background.Stopping(); {
		e.mu.Lock()
		busy = e.progressAll(objects.Clock())
		e.mu.Unlock()
	}
}

// progressAll is progress that sends owed ACKs, too: nobody may come for the completions
// that they wait for. The lock is held.
func (e *endpoint) progressAll(now int64) (busy bool) {
	busy = e.progress(now)
	if len(e.dirty) > 0 {
		e.send(now, true)
	}
	return busy
}

// emptyBeforeSleep is how many times in a row the socket is found empty before the
// goroutine sleeps on it: some 20 us, about what a wake-up costs.
const emptyBeforeSleep = 50

// sleepAndProgress makes progress until there is nothing to do, sleeps until a
// packet comes or a timer runs out, and reports whether to go on.
func (e *endpoint) sleepAndProgress() bool {
	var now int64
	var sleep time.Duration
	for empty := 0; empty < emptyBeforeSleep; empty++ {
		e.mu.Lock()
		now = objects.Clock()
		if e.progressAll(now) {
			empty = 0
		}
		sleep = objects.LongestSleep
		if e.deadline != 0 {
			sleep = min(sleep, time.Duration(max(0, e.deadline-now)))
		}
		e.waiting = now + int64(sleep)
		e.mu.Unlock()
	}
	before := e.background.Polls()
	_, err := e.conn.Wait(sleep)
	slept := time.Duration(objects.Clock() - now)

	e.mu.Lock()
	e.waiting = 0
	e.mu.Unlock()
	return err == nil && !e.background.PolledSince(before, slept)
}
