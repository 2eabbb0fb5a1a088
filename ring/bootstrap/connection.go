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
	"sync"
	"syscall"
	"time"

	"ringcli/ring/bootstrap/oob"
	"ringcli/ring/bootstrap/verdict"
	"ringcli/trace"
)

// connection is the TCP connection to one neighbour.
type connection struct {
	c    *Control
	side int
	peer int
	who  identity
	conn net.Conn

	live context.Context // ends with the connection, or with the Control's
	kill context.CancelCauseFunc

	// Guarded by the Control's lock.
	asked   map[uint64]chan reply         // own questions that wait for an answer
	serving map[uint64]context.CancelFunc // the neighbour's that are being answered
	out     []outgoing                    // frames to write
	unread  int                           // bytes of answers among them
	used    bool                          // infos have passed: it cannot be replaced any more
	ended   bool                          // the connection is gone
	unsent  error                         // why the writer gave up
	broke   string                        // how, if that was without a goodbye
	blocked bool                          // the reader waits for this rank
	goodbye time.Time                     // when the neighbour said goodbye
	heard   time.Time                     // when the last frame came, or this rank went on itself
	spoke   time.Time                     // when the last frame came
	counted *attempts                     // the neighbour's, while the ring comes up

	arrived int64 // by Config.Clock, when the reader last got bytes; the reader's own

	wake chan struct{} // one token: there is something to write, or finish
	over chan struct{} // closed when the reader has ended
	stop chan struct{} // closed by finish
	once sync.Once
}

// addConnection makes conn the connection to a side. It needs the lock.
func (c *Control) addConnection(side int, conn net.Conn, who identity) {
	_ = conn.SetDeadline(time.Time{}) // fails on a closed connection only, which the reader sees
	l := &connection{
		c: c, side: side, peer: c.neighbour(side), who: who, conn: conn, heard: time.Now(),
		asked: make(map[uint64]chan reply), serving: make(map[uint64]context.CancelFunc),
		wake: make(chan struct{}, 1), over: make(chan struct{}), stop: make(chan struct{}),
	}
	l.live, l.kill = context.WithCancelCause(c.live)
	c.connections[side] = l
	c.members[l.peer] = who
	if c.failure != nil {
		c.send(l, TypeVerdict, c.failure) // the verdict came while this end was dialling
	}
	c.running.Go(l.read)
	c.running.Go(l.write)
	c.notify()
	trace.Debug(trace.Bootstrap, fmt.Sprintf("connected to neighbour %d", l.peer),
		slog.Int("neighbour", l.peer), slog.String("address", conn.RemoteAddr().String()), slog.String("host", who.Host))
}

// outgoing is a frame to write.
type outgoing struct {
	frame []byte
	// stamped makes the frame right before it is written, if it holds the time.
	stamped func(now int64) ([]byte, error)
	// parts are encoded when they are written: until then more may come.
	parts *parts
}

// send queues a frame for a connection. It needs the lock.
func (c *Control) send(l *connection, t oob.Type, payload any) {
	b, err := c.encodeFor(l, t, payload)
	if err != nil {
		// Payloads are ours, and those of callers were measured before.
		trace.Error(trace.Bootstrap, "frame not sent", slog.String("error", err.Error()))
		return
	}
	c.queue(l, outgoing{frame: b})
}

// sendStamped queues a frame whose payload is made right before it is written. It
// needs the lock; payload is called without it.
func (c *Control) sendStamped(l *connection, t oob.Type, payload func(now int64) any) {
	c.queue(l, outgoing{stamped: func(now int64) ([]byte, error) {
		return c.encodeFor(l, t, payload(now))
	}})
}

// maxUnread bounds the answers to a neighbour that asks and does not read: as much as all
// questions that it may have in hand can be answered with.
const maxUnread = maxServing * oob.MaxFrame

// reply queues an answer. It needs the lock. Its error ends the connection, after a verdict.
func (c *Control) reply(l *connection, r reply, stamped bool) error {
	const least = 512 // of memory
	if l.unread += least + len(r.Payload) + len(r.Error); l.unread > maxUnread {
		v := c.verdict(KindFailed, l.peer, "%s asks and does not read: %d MiB of answers to it wait to be sent: see what %s runs there, and whether all nodes have the same ringcli",
			c.name(l.peer), maxUnread>>20, l.who.Host)
		c.running.Go(func() { c.failFrom(v, nil) })
		return v
	}
	if stamped {
		c.sendStamped(l, TypeAnswer, func(now int64) any { r.Clock.T3 = now; return r })
	} else {
		c.send(l, TypeAnswer, r)
	}
	return nil
}

// encodeFor makes a frame for a neighbour.
func (c *Control) encodeFor(l *connection, t oob.Type, payload any) ([]byte, error) {
	return oob.Encode(t, c.epoch.Load(), c.rank, l.peer, c.edge(l.side), payload)
}

func (c *Control) queue(l *connection, o outgoing) {
	if l.ended {
		return // nobody writes it any more
	}
	l.out = append(l.out, o)
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// edge returns the number of the edge at a side: its dialler's rank.
func (c *Control) edge(side int) int {
	if side == left {
		return c.neighbour(left)
	}
	return c.rank
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
		l.c.mu.Lock()
		next, l.out, l.unread = append(next[:0], l.out...), nil, 0
		l.c.mu.Unlock()
		if len(next) > 0 {
			if err := l.flush(next); err != nil {
				// The reader says why: what has arrived, a verdict perhaps, counts before
				// what could not be sent.
				l.c.mu.Lock()
				l.unsent = err
				l.c.mu.Unlock()
				_ = l.conn.SetReadDeadline(time.Now().Add(l.c.pace.call)) // fails on a closed connection only
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
		l.c.mu.Lock()
		empty := len(l.out) == 0
		l.c.mu.Unlock()
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
			b, err := l.c.encodeFor(l, TypeParts, o.parts)
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
		b, err := o.stamped(l.c.cfg.Clock())
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
	l.arrived = l.c.cfg.Clock()
	return n, err
}

func (l *connection) read() {
	defer close(l.over)
	r := bufio.NewReader(l)
	for {
		f, err := oob.ReadFrame(r)
		if err == nil {
			err = l.c.handle(l, f)
		}
		if err != nil {
			l.c.lost(l, err)
			l.finish()
			return
		}
	}
}

// handle takes a frame from a neighbour. An error ends the connection.
func (c *Control) handle(l *connection, f *oob.Frame) error {
	if f.Version != oob.Version || f.Sender != l.peer || f.Edge != c.edge(l.side) {
		return fmt.Errorf("%s frame of version %d from rank %d on edge %d: expected version %d, rank %d, edge %d",
			f.Type, f.Version, f.Sender, f.Edge, oob.Version, l.peer, c.edge(l.side))
	}
	if ok, err := c.current(l, f); !ok {
		if e, stale := errors.AsType[*staleError](err); stale {
			c.refuseStale(l, f, e)
		}
		return err
	}
	c.mu.Lock()
	l.heard = time.Now()
	l.spoke = l.heard
	c.mu.Unlock()
	switch f.Type {
	case TypeHeartbeat:
		if len(f.Payload) == 0 {
			return nil
		}
		return with(f, func(a attempts) error {
			c.mu.Lock()
			l.counted = &a
			c.mu.Unlock()
			return nil
		})
	case TypeInfo:
		return with(f, func(i information) error { return c.takeInfo(l, i) })
	case TypeParts:
		return with(f, func(p parts) error { return c.takeParts(l, p) })
	case TypeAsk:
		return with(f, func(q question) error { return c.serve(l, q) })
	case TypeAnswer:
		return with(f, func(r reply) error { c.takeAnswer(l, r); return nil })
	case TypeCancel:
		return with(f, func(r reply) error { c.takeCancel(l, r.ID); return nil })
	case TypeGoodbye:
		c.mu.Lock()
		l.goodbye = l.heard
		c.notify()
		c.mu.Unlock()
	case TypeSighting:
		return with(f, func(s verdict.Sighting) error { return c.takeSighting(l, s) })
	case TypeVerdict:
		return with(f, func(v Verdict) error {
			v.Told = true
			c.failFrom(&v, l)
			return nil
		})
	case TypeReject:
		return with(f, func(r rejection) error {
			v := r.Verdict
			v.Told = true
			c.failFrom(&v, l)
			return nil
		})
	default:
		return fmt.Errorf("%q frame from rank %d: not expected on a control connection", f.Type, f.Sender)
	}
	return nil
}

// with hands a frame's payload to what takes it.
func with[T any](f *oob.Frame, take func(T) error) error {
	payload, err := oob.Decode[T](f)
	if err != nil {
		return err
	}
	return take(payload)
}

// lost is called when a connection has ended or makes no sense.
func (c *Control) lost(l *connection, err error) {
	var v *Verdict
	first := false
	now := time.Now()
	c.mu.Lock()
	c.notice(now)
	if !l.ended {
		l.ended = true
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = cmp.Or(l.unsent, err)
		}
		switch {
		case c.closed || c.leaving || c.failure != nil || c.proposal != nil || c.connections[l.side] != l:
			// Nobody waits for this neighbour any more, or the verdict is about to come.
			if c.proposal == nil {
				l.kill(c.gone(l)) // without effect if the verdict or Close has done it
			}
		case !l.used:
			// Nothing has passed yet: the neighbour may be restarted.
			c.connections[l.side] = nil
			trace.Debug(trace.Bootstrap, "neighbour went away before the exchange", slog.Int("neighbour", l.peer))
			l.kill(c.gone(l))
		case !l.goodbye.IsZero():
			l.kill(c.gone(l))
		case !c.sealed || c.size == 1:
			v = c.verdict(KindLost, l.peer, "%s was lost: its control connection ended without a goodbye (%s); see what its process (%s) last said",
				c.name(l.peer), ending(err), l.who)
			if !endedThere(err) {
				v.Confidence = Suspect
			}
			first = c.fail(v, l)
		default:
			// Where the network gave up, the neighbour is silent and did not end.
			if !errors.Is(err, syscall.ETIMEDOUT) && !errors.Is(err, syscall.EHOSTUNREACH) && !errors.Is(err, syscall.ENETUNREACH) {
				l.broke = ending(err)
				p := c.watch.of(l.peer)
				p.call, p.endedAt = "", now
			}
			c.look(now)
		}
		c.notify()
	}
	c.mu.Unlock()
	c.report(v, first)
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
