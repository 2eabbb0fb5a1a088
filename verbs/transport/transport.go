package transport

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"ringcli/verbs"
	"ringcli/verbs/objects"
	_ "ringcli/verbs/providers" // a transport is on any
	"ringcli/verbs/route"
)

// Transport is one end of a connection to one peer. It is safe for concurrent use.
type Transport struct {
	options              Options
	loop                 *Loop
	ownLoop              bool
	adapter              *adapter
	sendDepth, recvDepth int

	// Set by Bind, before anybody polls for them.
	qp     verbs.QP
	queue  *queue
	number uint64
	inline int // bytes that a request carries itself at most

	mu      sync.Mutex
	stage   stage // guarded by mu, as all below
	own     address
	peer    address
	err     error // why it has failed; first one
	closed  chan struct{}
	ending  bool // Close was called
	life    uint16
	since   int64 // when Connect was called
	heard   bool  // the peer has said hello
	greeted bool  // the peer has had ours
	heardAt int64 // when the peer was last heard

	waiting  fifo[*transfer] // not posted yet
	flying   fifo[flight]    // posted, in order
	moved    int64           // when one of them completed, or the first was posted
	unposted int             // receives to be posted again
	posted   int             // receives that are posted
	requests []verbs.WorkRequest
	sges     []verbs.SGE
	receives []verbs.WorkRequest

	arrivals fifo[int]     // lengths of notifying writes that nobody has waited for
	waiters  fifo[*Future] // for notifying writes that have not come
	idle     *Future       // resolved once nothing is posted; nil while nobody waits for that
}

// stage is how far a transport has come.
type stage uint8

const (
	fresh stage = iota
	bound
	connected // own queue pair in RTS; heard and greeted say whether the peer's is
	parted    // the peer has said goodbye; the queue pair acknowledges that yet
	failedStage
)

// QP attributes as rdma-core's examples have them, where they say something.
const (
	ackTimeout = 14 // 67 ms
	// slowTimeout is that of a device in software, whose process may have to wait for a CPU.
	slowTimeout = 15
	retries     = 6 // rdma_rxe takes 7 for ever
	forever     = 7 // RNR retries
	rnrTimer    = 8 // 160 µs: a receive is posted again as soon as its completion is polled
	mostReads   = 16
	inlineMost  = 220
	pieceMost   = 64 << 20 // longer transfers are several requests
	lingering   = time.Second
	greeting    = 200 * time.Millisecond // the same where the peer may not have connected
	parting     = 10 * time.Millisecond  // until an acknowledgement has left
	flushWithin = 2 * time.Second
)

// New opens the device, or takes the loop's. The transport must be closed.
func New(o Options) (*Transport, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	t := &Transport{options: o, loop: o.Loop, closed: make(chan struct{})}
	if t.loop == nil {
		t.loop, t.ownLoop = NewLoop(), true
	}
	p := place{device: o.Device, local: o.Local, port: o.Port, gid: -1}
	if o.GIDIndex != nil {
		p.gid = *o.GIDIndex
	}
	if t.adapter, err = t.loop.adapter(p, &o); err != nil {
		return nil, err
	}
	// As many sends of the peer are under way as it likes; a few more than ours keep most from
	// waiting for a receive.
	t.sendDepth, t.recvDepth = o.Depth+controlDepth, 2*(o.Depth+controlDepth)
	if most := t.adapter.Attr.MaxQPWR; most > 0 {
		t.sendDepth, t.recvDepth = min(t.sendDepth, most), min(t.recvDepth, most)
	}
	t.requests, t.sges = make([]verbs.WorkRequest, t.sendDepth), make([]verbs.SGE, t.sendDepth)
	t.receives = make([]verbs.WorkRequest, t.recvDepth)
	return t, nil
}

// Device is the name of the device, and why it was taken among others.
func (t *Transport) Device() (name, why string) { return t.adapter.Name(), t.adapter.why }

// Bind makes the queue pair and returns the URL that the peer connects to. Calling it
// again returns the same.
func (t *Transport) Bind() (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.ending:
		return "", failed(ErrClosed, "bind: the transport is closed")
	case t.stage == fresh:
		if err := t.bind(); err != nil {
			return "", err
		}
	}
	return t.own.String(), nil
}

// bind makes the queue pair. It needs the lock.
func (t *Transport) bind() error {
	if err := t.adapter.add(t); err != nil {
		return err
	}
	t.own.psn = verbs.RandomPSN()
	err := t.toInit()
	if err == nil {
		err = t.describe()
	}
	if err == nil {
		t.stage = bound
		return nil
	}
	t.mu.Unlock() // the goroutine, whose end is awaited, may want it
	defer t.mu.Lock()
	return errors.Join(err, t.adapter.remove(t))
}

// describe fills in what the peer must know. A UDP port is known once there is a queue pair.
func (t *Transport) describe() error {
	a := t.adapter
	gid, err := a.GIDEntry()
	if err != nil {
		return failed(ErrSystem, "%w", err)
	}
	t.own = address{
		name: t.options.Name, device: a.Name(), gid: gid.GID, gidType: gid.Type, link: a.Port.Attr.LinkLayer, lid: a.Port.Attr.LID,
		udpPort: gid.UDPPort, can: a.Attr.Capabilities, qpn: t.qp.Num(), psn: t.own.psn, mtu: a.Port.Attr.ActiveMTU.Bytes(),
		reads: min(mostReads, a.Attr.MaxQPRDAtomic), domain: a.domain,
	}
	if t.own.can.HostLocal {
		t.own.host = route.ThisHost()
	}
	return nil
}

// toInit takes the queue pair from RESET to INIT and posts its receives.
func (t *Transport) toInit() error {
	err := verbs.Advance(t.qp, verbs.QPAttr{
		State: verbs.StateInit, PortNum: t.adapter.Port.Num, Access: verbs.AccessRemoteWrite | verbs.AccessRemoteRead,
	})
	if err != nil {
		return failed(ErrSystem, "%w", err)
	}
	t.unposted, t.posted = t.recvDepth, 0
	return t.postReceives()
}

// postReceives posts the receives that were used. They have no room for data: nothing but empty
// messages and notifications takes one.
func (t *Transport) postReceives() error {
	list := t.receives[:t.unposted]
	for i := range list {
		list[i] = verbs.WorkRequest{ID: requestID(t.number, t.life, idReceive)}
	}
	n, err := t.qp.PostRecv(list)
	t.posted += n
	t.unposted -= n
	if err != nil {
		return failed(ErrSystem, "post receives: %w", err)
	}
	return nil
}

// Connect takes the queue pair to RTS, towards the peer whose Bind has returned the URL. It waits
// for nobody: that the peer connects, too, is what transfers wait for.
func (t *Transport) Connect(ctx context.Context, url string) error {
	if ctx.Err() != nil {
		return ended(ctx, "connect")
	}
	peer, err := parseURL(url)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.ending:
		return failed(ErrClosed, "connect: the transport is closed")
	case t.stage == fresh:
		return failed(ErrInvalidUsage, "connect before Bind: the peer needs the URL that Bind returns")
	case t.stage != bound:
		return failed(ErrInvalidUsage, "connect to %s: this transport was connected to %s: one has one peer", peer.who(), t.peer.who())
	}
	if err := t.own.reaches(&peer); err != nil {
		return err
	}
	t.peer = peer
	if err := t.toRTS(); err != nil {
		return err
	}
	t.stage, t.since = connected, objects.Clock()
	t.hello()
	return t.err
}

// toRTS takes the queue pair from INIT to RTS.
func (t *Transport) toRTS() error {
	a := t.adapter
	mtu, err := verbs.MTUFromBytes(min(t.own.mtu, t.peer.mtu))
	if err != nil {
		return failed(ErrURL, "%w", err)
	}
	av, err := a.Port.AddressVector(a.GID.Entry.Index, route.Remote{
		GID: t.peer.gid, LID: t.peer.lid, LinkLayer: t.peer.link, UDPPort: t.peer.udpPort, UDPSocket: t.peer.can.UDPSocket,
	}, t.options.Service)
	if err != nil {
		return failed(ErrURL, "connect to %s: %w", t.peer.who(), err)
	}
	expected := t.peer.psn
	if t.heard {
		expected = (expected + 1) & 0xffffff // its hello, which is one packet
	}
	reads := min(mostReads, t.peer.reads)
	if most := a.Attr.MaxQPInitRDAtomic; most > 0 {
		reads = min(reads, most)
	}
	attr := verbs.QPAttr{
		State: verbs.StateRTR, PathMTU: mtu, AH: av, DestQPN: t.peer.qpn, RQPSN: expected,
		MaxDestRDAtomic: uint8(t.own.reads), MinRNRTimer: rnrTimer,
	}
	timeout := uint8(ackTimeout)
	if a.Attr.Software {
		timeout = slowTimeout
	}
	if err = verbs.Advance(t.qp, attr); err == nil {
		err = verbs.Advance(t.qp, verbs.QPAttr{
			State: verbs.StateRTS, SQPSN: t.own.psn, MaxRDAtomic: uint8(reads), Timeout: timeout, RetryCnt: retries, RNRRetry: forever,
		})
	}
	if err != nil {
		return failed(ErrSystem, "connect to %s: %w", t.peer.who(), err)
	}
	return nil
}

// Connected tells whether Connect has succeeded and the connection has not ended since.
func (t *Transport) Connected() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stage == connected && !t.ending
}

// Peer names the peer; "" before Connect.
func (t *Transport) Peer() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.peer.name
}

// Err is why the connection has ended; nil before.
func (t *Transport) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil && t.ending {
		return failed(ErrClosed, "the transport is closed")
	}
	return t.err
}

// Close says goodbye, waits for what is under way while something of it completes each second,
// ends the rest, and resolves all futures. With a loop of its own it closes that, too. Closing
// twice is harmless.
func (t *Transport) Close() error {
	t.mu.Lock()
	if t.ending {
		t.mu.Unlock()
		<-t.closed
		return nil
	}
	t.ending = true
	defer close(t.closed)
	wasBound := t.stage != fresh
	why := failed(ErrClosed, "the transport to %s was closed here", t.peer.name)
	t.drop(why)
	switch t.stage {
	case connected:
		t.say(goodbye)
		if t.heard {
			t.waitIdle(lingering)
		} else {
			t.waitIdle(greeting)
		}
	case parted:
		t.mu.Unlock()
		time.Sleep(parting - time.Duration(objects.Clock()-t.heardAt))
		t.mu.Lock()
	}
	t.failLocked(why)
	if wasBound {
		t.waitIdle(flushWithin)
	}
	t.mu.Unlock()
	var err error
	if wasBound {
		err = t.adapter.remove(t)
	}
	// The queue pair is gone: nothing touches memory any more, whatever has not been told.
	t.mu.Lock()
	for _, f := range t.flying.all() {
		t.land(f, why)
	}
	t.mu.Unlock()
	if t.ownLoop {
		err = errors.Join(err, t.loop.Close())
	}
	if err != nil {
		return failed(ErrSystem, "close the transport to %s: %w", t.peer.name, err)
	}
	return nil
}

// waitIdle waits until nothing that was posted is left, or until nothing has completed for
// some time. It needs the lock, which it gives back meanwhile.
func (t *Transport) waitIdle(most time.Duration) {
	if t.isIdle() {
		return
	}
	t.idle = &Future{t: t}
	idle := t.idle
	for before := int64(-1); before != t.moved && !idle.isResolved(); {
		before = t.moved
		t.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), most)
		_ = idle.Wait(ctx) // what is left at last ends with the queue pair
		cancel()
		t.mu.Lock()
	}
	t.idle = nil
}

// isIdle tells whether what was posted has completed: sends, and the receives of a queue pair
// that is in ERR.
func (t *Transport) isIdle() bool {
	return t.flying.len() == 0 && (t.stage != failedStage || t.posted == 0)
}

// established tells whether both ends have heard each other.
func (t *Transport) established() bool { return t.stage == connected && t.heard && t.greeted }

// fail ends the connection.
func (t *Transport) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failLocked(err)
}

func (t *Transport) failLocked(err error) {
	if t.stage == failedStage || t.stage == fresh {
		return
	}
	t.stage = failedStage
	if t.err == nil {
		t.err = err
	}
	_ = t.qp.Modify(verbs.QPAttr{State: verbs.StateErr}, verbs.AttrState) // what is posted is flushed
	t.drop(t.err)
}

// drop resolves what is not posted.
func (t *Transport) drop(err error) {
	for _, x := range t.waiting.all() {
		x.Local.memory.release()
		x.resolve(0, err)
	}
	for _, f := range t.waiters.all() {
		f.resolve(0, err)
	}
}

// named is an error with the peer's name.
func (t *Transport) named(code error, format string, args ...any) error {
	return failed(code, "%s: %s", t.peer.who(), fmt.Sprintf(format, args...))
}
