package bootstrap

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"ringcli/ring/bootstrap/oob"
	"ringcli/trace"
)

// connection is the TCP connection to one neighbour.
type connection struct {
	own  *node
	side int
	peer int
	who  identity
	conn net.Conn
	// epoch is the ring's, handle takes a frame of the neighbour, whose error ends the
	// connection, and lost is called when it has ended or makes no sense.
	epoch  func() uint32
	handle func(*connection, *oob.Frame) error
	lost   func(*connection, error)

	live context.Context // ends with the connection, or with the ring
	kill context.CancelCauseFunc

	mu     sync.Mutex // guards the following
	out    []outgoing // frames to write
	unread int        // bytes of answers among them
	unsent error      // why the writer gave up
	now    state

	arrived int64 // by Config.Clock, when the reader last got bytes; the reader's own

	wake chan struct{} // one token: there is something to write, or finish
	over chan struct{} // closed when the reader has ended
	stop chan struct{} // closed by finish
	once sync.Once
}

// state is what has become of a connection.
type state struct {
	used    bool      // infos have passed: it cannot be replaced any more
	ended   bool      // the connection is gone
	broke   string    // how it ended, if that was without a goodbye
	blocked bool      // the reader waits for this rank
	goodbye time.Time // when the neighbour said goodbye
	heard   time.Time // when the last frame came, or this rank went on itself
	spoke   time.Time // when the last frame came
	counted *attempts // the neighbour's, while the ring comes up
}

// neighbours are the connections to the left and to the right.
type neighbours struct {
	own     *node
	life    *lifetime
	members *members
	changes *changes
	phase   func() phase // how far the ring has come
	epoch   func() uint32
	handle  func(*connection, *oob.Frame) error
	lost    func(*connection, error)

	mu    sync.Mutex // orders replacing a connection, its first use, and the end of all
	sides [2]atomic.Pointer[connection]
}

// at returns the connection to a side, nil if there is none.
func (n *neighbours) at(side int) *connection { return n.sides[side].Load() }

// all returns those that there are, the left one first.
func (n *neighbours) all() (all []*connection) {
	for side := range n.sides {
		if l := n.at(side); l != nil {
			all = append(all, l)
		}
	}
	return all
}

// to returns the connections to a rank: with two ranks both are to one.
func (n *neighbours) to(rank int) []*connection {
	return slices.DeleteFunc(n.all(), func(l *connection) bool { return l.peer != rank })
}

// tell sends a frame to all neighbours but the one that it came from.
func (n *neighbours) tell(t oob.Type, payload any, from *connection) {
	for _, l := range n.all() {
		if l != from {
			l.send(t, payload)
		}
	}
}

// add makes conn the connection to a side, and reports whether the Control was still open. It
// needs the lock.
func (n *neighbours) add(side int, conn net.Conn, who identity) bool {
	if n.life.over() {
		_ = conn.Close()
		return false
	}
	_ = conn.SetDeadline(time.Time{}) // fails on a closed connection only, which the reader sees
	l := &connection{
		own: n.own, side: side, peer: n.own.neighbour(side), who: who, conn: conn, now: state{heard: time.Now()},
		epoch: n.epoch, handle: n.handle, lost: n.lost,
		wake: make(chan struct{}, 1), over: make(chan struct{}), stop: make(chan struct{}),
	}
	l.live, l.kill = context.WithCancelCause(n.life.ring)
	n.sides[side].Store(l)
	n.members.set(l.peer, who)
	switch p := n.phase(); { // verdict and goodbye may have come while this end was dialling
	case p.failure != nil:
		l.send(TypeVerdict, p.failure)
	case p.leaving && !p.proposed:
		l.send(TypeGoodbye, nil)
	}
	n.life.start(l.read)
	n.life.start(l.write)
	n.changes.notify()
	trace.Debug(trace.Bootstrap, fmt.Sprintf("connected to neighbour %d", l.peer),
		slog.Int("neighbour", l.peer), slog.String("address", conn.RemoteAddr().String()), slog.String("host", who.Host))
	return true
}

// drop leaves a side without a connection, unless it has another one by now.
func (n *neighbours) drop(l *connection) { n.sides[l.side].CompareAndSwap(l, nil) }

// close ends all connections, and whatever has the lifetime. None is added any more.
func (n *neighbours) close() {
	n.mu.Lock()
	n.life.end()
	all := n.all()
	n.mu.Unlock()
	n.changes.notify()
	for _, l := range all {
		l.finish()
	}
}

// outgoing is a frame to write.
type outgoing struct {
	frame []byte
	// stamped makes the frame right before it is written, if it holds the time.
	stamped func(now int64) ([]byte, error)
	// parts are encoded when they are written: until then more may come.
	parts *parts
}

// send queues a frame.
func (l *connection) send(t oob.Type, payload any) {
	b, err := l.encode(t, payload)
	if err != nil {
		// Payloads are ours, and those of callers were measured before.
		trace.Error(trace.Bootstrap, "frame not sent", slog.String("error", err.Error()))
		return
	}
	l.queue(outgoing{frame: b})
}

// sendStamped queues a frame whose payload is made right before it is written.
func (l *connection) sendStamped(t oob.Type, payload func(now int64) any) {
	l.queue(outgoing{stamped: func(now int64) ([]byte, error) { return l.encode(t, payload(now)) }})
}

// pass queues one of some parts, in a frame with those that wait to be written.
func (l *connection) pass(of *parts, origin int, data string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var p *parts
	if n := len(l.out); n > 0 {
		p = l.out[n-1].parts
	}
	if p == nil || p.Op != of.Op || p.Kind != of.Kind || p.bytes+len(data) > maxTogether {
		p = of.empty()
		l.queueLocked(outgoing{parts: p})
	}
	p.add(origin, data)
}

func (l *connection) encode(t oob.Type, payload any) ([]byte, error) {
	return oob.Encode(t, l.epoch(), l.own.rank, l.peer, l.own.edge(l.side), payload)
}

func (l *connection) queue(o outgoing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queueLocked(o)
}

func (l *connection) queueLocked(o outgoing) {
	if l.now.ended {
		return // nobody writes it any more
	}
	l.out = append(l.out, o)
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// idle tells whether nothing waits to be written, which the neighbour would take for a sign of life.
func (l *connection) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.now.ended && len(l.out) == 0
}

func (l *connection) state() state {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

// here tells whether the neighbour has not said goodbye.
func (l *connection) here() bool { return l != nil && l.state().goodbye.IsZero() }

// use notes that infos pass, unless the connection has ended.
func (l *connection) use() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now.used = l.now.used || !l.now.ended
	return !l.now.ended
}

// set changes what is guarded by the lock.
func (l *connection) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

// finish lets the writer write what is queued, if the peer takes it soon, and
// then hang up.
func (l *connection) finish() {
	l.once.Do(func() {
		_ = l.conn.SetWriteDeadline(time.Now().Add(flush)) // fails on a closed connection only
		close(l.stop)
	})
}

func (l *connection) write() {
	var next []outgoing
	for {
		l.mu.Lock()
		next, l.out, l.unread = append(next[:0], l.out...), nil, 0
		l.mu.Unlock()
		if len(next) > 0 {
			if err := l.flush(next); err != nil {
				// The reader says why: what has arrived, a verdict perhaps, counts before
				// what could not be sent.
				l.set(func() { l.unsent = err })
				_ = l.conn.SetReadDeadline(time.Now().Add(l.own.pace.call)) // fails on a closed connection only
				<-l.over
				break
			}
			continue
		}
		select {
		case <-l.wake:
			continue
		case <-l.stop:
		}
		l.mu.Lock()
		empty := len(l.out) == 0
		l.mu.Unlock()
		if empty {
			break
		}
	}
	_ = l.conn.Close() // ends the reader
}

// flush writes frames, as many at once as there are between two stamped ones.
func (l *connection) flush(frames []outgoing) error {
	var batch net.Buffers
	for _, o := range frames {
		if o.parts != nil {
			b, err := l.encode(TypeParts, o.parts)
			if err != nil {
				return err
			}
			o.frame = b
		}
		if o.stamped == nil {
			batch = append(batch, o.frame)
			continue
		}
		if _, err := batch.WriteTo(l.conn); err != nil {
			return err
		}
		b, err := o.stamped(l.own.cfg.Clock())
		if err != nil {
			return err
		}
		if _, err := l.conn.Write(b); err != nil {
			return err
		}
	}
	_, err := batch.WriteTo(l.conn)
	return err
}

// Read reads from the connection and notes when.
func (l *connection) Read(b []byte) (int, error) {
	n, err := l.conn.Read(b)
	l.arrived = l.own.cfg.Clock()
	return n, err
}

func (l *connection) read() {
	defer close(l.over)
	r := bufio.NewReader(l)
	for {
		f, err := oob.ReadFrame(r)
		if err == nil {
			err = l.handle(l, f)
		}
		if err != nil {
			l.lost(l, err)
			l.finish()
			return
		}
	}
}

// end notes the end of a connection, and returns the reason and whether infos had passed.
func (l *connection) end(err error) (why error, used bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now.ended = true
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = cmp.Or(l.unsent, err)
	}
	return err, l.now.used
}

// endedThere tells whether the peer's host has ended a connection, as it does when the
// process dies. What this rank cannot send, or cannot make sense of, has other causes.
func endedThere(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func ending(err error) string {
	if errors.Is(err, io.EOF) {
		return "end of stream"
	}
	return err.Error()
}
