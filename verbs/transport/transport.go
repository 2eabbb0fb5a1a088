package transport

import (
	"context"
	"errors"
	"sync"
	"time"

	"ringcli/verbs"
	"ringcli/verbs/objects"
	_ "ringcli/verbs/providers" // a transport is on any
)

// Transport is one end of a connection to one peer. It is safe for concurrent use.
type Transport struct {
	options Options
	loop    *Loop
	ownLoop bool
	adapter *adapter

	mu      sync.Mutex
	stage   stage // guarded by mu, as all below
	pair    queuePair
	err     error // why it has failed; first one
	closed  chan struct{}
	ending  bool  // Close was called
	since   int64 // when Connect was called
	heard   bool  // the peer has said hello
	greeted bool  // the peer has had ours
	heardAt int64 // when the peer was last heard

	waiting  fifo[*transfer] // not posted yet
	flying   fifo[flight]    // posted, in order
	moved    int64           // when one of them completed, or the first was posted
	requests []verbs.WorkRequest
	sges     []verbs.SGE

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

const (
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
	t.pair = newQueuePair(t.adapter, o.Depth)
	t.requests, t.sges = make([]verbs.WorkRequest, t.pair.sendDepth), make([]verbs.SGE, t.pair.sendDepth)
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
	return t.pair.own.String(), nil
}

// bind makes the queue pair. It needs the lock.
func (t *Transport) bind() error {
	if err := t.adapter.add(t); err != nil {
		return err
	}
	t.pair.own.psn = verbs.RandomPSN()
	err := t.pair.toInit()
	if err == nil {
		err = t.pair.describe(t.options.Name)
	}
	if err == nil {
		t.stage = bound
		return nil
	}
	t.mu.Unlock() // the goroutine, whose end is awaited, may want it
	defer t.mu.Lock()
	return errors.Join(err, t.adapter.remove(t))
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
		return failed(ErrInvalidUsage, "connect to %s: this transport was connected to %s: one has one peer", peer.who(), t.pair.peer.who())
	}
	if err := t.pair.own.reaches(&peer); err != nil {
		return err
	}
	t.pair.peer = peer
	if err := t.pair.toRTS(t.options.Service, t.heard); err != nil {
		return err
	}
	t.stage, t.since = connected, objects.Clock()
	t.say(hello)
	return t.err
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
	return t.pair.peer.name
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
	why := failed(ErrClosed, "the transport to %s was closed here", t.pair.peer.name)
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
		f.land(why)
	}
	t.mu.Unlock()
	if t.ownLoop {
		err = errors.Join(err, t.loop.Close())
	}
	if err != nil {
		return failed(ErrSystem, "close the transport to %s: %w", t.pair.peer.name, err)
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
	return t.flying.len() == 0 && (t.stage != failedStage || t.pair.posted == 0)
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
	_ = t.pair.qp.Modify(verbs.QPAttr{State: verbs.StateErr}, verbs.AttrState) // what is posted is flushed
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
