// Package talk is what the two ends of a transport say to each other over TCP, while
// their data goes another way: who they are, that they share a token, what each wants of
// the other, and why it has ended.
//
//	client                              server
//	   │ ── knock (nonce) ──────────────▶ │  where the client has a token; see package seal
//	   │ ◀─ challenge (nonce) ─────────── │
//	   │ ── proof ──────────────────────▶ │
//	   │ ◀─ proof ─────────────────────── │
//	   │ ── hello (name, purpose) ──────▶ │
//	   │ ◀─ welcome, busy or failed ───── │
//	   │ ◀── what the purpose asks for ─▶ │  and alive, so that none waits for a peer that stands still
//	   │ ── bye ────────────────────────▶ │
//
// Messages are frames of package bootstrap, so that a ring's node, a lab and this tell each
// other apart.
package talk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"ringcli/configs/codes"
	"ringcli/configs/usage"
	"ringcli/ring/bootstrap"
)

const (
	// DefaultPort is the server's. Rings have those from 18600 on.
	DefaultPort = 18700
	// Version is that of the messages and of what they mean.
	Version = 1

	frameType = bootstrap.Type("transport")
	// client and server are the ends' numbers in frames.
	server, client = 0, 1
	// grace is how long a caller may take to say who it is.
	grace = 5 * time.Second
	// redial is the pause before a client calls again: people start the server by hand.
	redial = 100 * time.Millisecond
	// lives is how many signs of life there are within the timeout.
	lives = 4
	// inboxRoom is more messages than an honest peer sends before it has an answer: one.
	inboxRoom = 16
	// farewell is how long an end that closes lets the other read what was sent.
	farewell = 2 * time.Second
)

// The messages of every purpose.
const (
	kindHello   = "hello"
	kindWelcome = "welcome"
	kindBusy    = "busy"
	kindFailed  = "failed"
	kindAlive   = "alive"
	kindBye     = "bye"
)

// message is the payload of a frame.
type message struct {
	Version int             `json:"version"`
	Kind    string          `json:"kind"`
	Body    json.RawMessage `json:"body,omitempty"`
}

// Hello says who calls, and what for.
type Hello struct {
	Name    string `json:"name"`
	Purpose string `json:"purpose"`
}

// failure is why an end goes no further.
type failure struct {
	Text  string     `json:"text"`
	Code  codes.Code `json:"code"`
	Usage bool       `json:"usage,omitempty"` // a change of the command line would mend it
}

// PeerError is what the other end has said of its failure.
type PeerError struct {
	Peer string
	failure
}

func (e *PeerError) Error() string           { return e.Peer + ": " + e.Text }
func (e *PeerError) FailureCode() codes.Code { return e.Code }

// Is tells that the user can mend it, where it is so.
func (e *PeerError) Is(target error) bool { return target == usage.Err && e.Usage }

// ErrBye is that the other end has said goodbye.
var ErrBye = errors.New("it has said goodbye")

// Conn is the connection of two ends, once both know who the other is.
type Conn struct {
	Peer    Hello // what the other end has said
	conn    net.Conn
	timeout time.Duration
	sending sync.Mutex
	ctx     context.Context
	cancel  context.CancelCauseFunc
	inbox   chan message
	running sync.WaitGroup
}

// Context ends with the one that the connection was made under, and with the connection: its
// cause is why, a PeerError or ErrBye where the peer has said so.
func (c *Conn) Context() context.Context { return c.ctx }

// Name is the peer's, with its address.
func (c *Conn) Name() string { return fmt.Sprintf("%s (%s)", c.Peer.Name, c.conn.RemoteAddr()) }

// Local is the address at this end.
func (c *Conn) Local() netip.Addr {
	p, _ := netip.ParseAddrPort(c.conn.LocalAddr().String()) // of TCP it is one
	return p.Addr().Unmap()
}

// start has the connection read, and give signs of life.
func start(ctx context.Context, conn net.Conn, peer Hello, timeout time.Duration) *Conn {
	c := &Conn{Peer: peer, conn: conn, timeout: timeout, inbox: make(chan message, inboxRoom)}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	c.running.Go(c.read)
	c.running.Go(func() {
		tick := time.NewTicker(timeout / lives)
		defer tick.Stop()
		for {
			select {
			case <-c.ctx.Done():
				return
			case <-tick.C:
				_ = c.Send(kindAlive, nil) // whoever reads sees that it has ended
			}
		}
	})
	return c
}

// read takes what the peer says until the connection ends.
func (c *Conn) read() {
	for {
		_ = c.conn.SetReadDeadline(time.Now().Add(c.timeout)) // fails on a closed one alone
		m, err := receive(c.conn, bootstrap.ReadFrame)
		switch {
		case err != nil:
			c.cancel(fmt.Errorf("%s: %w", c.Name(), ended(err, c.timeout)))
			return
		case m.Kind == kindAlive:
		case m.Kind == kindBye:
			c.cancel(ErrBye)
		case m.Kind == kindFailed:
			c.cancel(c.failed(m))
		default:
			select {
			case c.inbox <- m:
			default: // to wait for room would be to miss the connection's end
				c.cancel(fmt.Errorf("%s: %d messages came before any was answered: run the same ringcli at both ends", c.Name(), cap(c.inbox)+1))
				return
			}
		}
	}
}

// ended says in words why a connection did.
func ended(err error, timeout time.Duration) error {
	var slow net.Error
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("it has closed the connection: it was interrupted, or has ended")
	case errors.As(err, &slow) && slow.Timeout():
		return codes.With(codes.Timeout, fmt.Errorf("nothing was heard of it for %s: it stands still, or the network is down", timeout))
	}
	return err
}

// failed is the peer's failure.
func (c *Conn) failed(m message) error { return failedAt(c.Name(), m) }

func failedAt(peer string, m message) error {
	e := &PeerError{Peer: peer}
	if err := json.Unmarshal(m.Body, &e.failure); err != nil {
		e.failure = failure{Text: "it has failed, and did not say why", Code: codes.Failed}
	}
	return e
}

// Send sends a message. It is safe for concurrent use.
func (c *Conn) Send(kind string, body any) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	if err := send(c.conn, kind, body, c.timeout); err != nil {
		return fmt.Errorf("%s: %w", c.Name(), err)
	}
	return nil
}

// Fail tells the peer why this end goes no further.
func (c *Conn) Fail(err error) {
	_ = c.Send(kindFailed, failureOf(err)) // who is gone needs no telling
}

func failureOf(err error) failure {
	f := failure{Text: err.Error(), Code: codes.Failed, Usage: usage.Is(err)}
	if f.Usage {
		f.Code = codes.Usage
	}
	if code, ok := codes.Of(err); ok {
		f.Code = code
	}
	return f
}

// Receive waits for a message of a kind and reads its body. Where the connection ends first
// the error is the cause of Context.
func (c *Conn) Receive(ctx context.Context, kind string, into any) error {
	timer := time.NewTimer(c.timeout)
	defer timer.Stop()
	var err error
	select {
	case m := <-c.inbox:
		return c.take(m, kind, into)
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-timer.C:
		err = codes.With(codes.Timeout, fmt.Errorf("%s: awaited its %q: nothing has come within %s", c.Name(), kind, c.timeout))
	case <-c.ctx.Done():
		err = context.Cause(c.ctx)
	}
	select {
	case m := <-c.inbox: // it came before the end
		return c.take(m, kind, into)
	default:
		return err
	}
}

func (c *Conn) take(m message, kind string, into any) error {
	if m.Kind != kind {
		return fmt.Errorf("%s sends %q, expected %q: run the same ringcli at both ends", c.Name(), m.Kind, kind)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(m.Body, into); err != nil {
		return fmt.Errorf("%s: its %q: %w", c.Name(), kind, err)
	}
	return nil
}

// Next waits for the next message, however long, and returns its kind and a function that
// reads its body.
func (c *Conn) Next() (kind string, read func(into any) error, err error) {
	select {
	case m := <-c.inbox:
		return m.Kind, func(into any) error { return c.take(m, m.Kind, into) }, nil
	case <-c.ctx.Done():
		return "", nil, context.Cause(c.ctx)
	}
}

// Close says goodbye, lets the peer read what was sent, and ends the connection.
func (c *Conn) Close() {
	_ = c.Send(kindBye, nil)
	c.cancel(net.ErrClosed)
	if tcp, ok := unsealed(c.conn).(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
	// What nobody has read would turn the end into a reset, which takes away from the peer
	// what it has not read yet.
	gone := time.AfterFunc(farewell, func() { _ = c.conn.Close() })
	c.running.Wait()
	gone.Stop()
	_ = c.conn.Close()
}

// send writes one message.
func send(conn net.Conn, kind string, body any, timeout time.Duration) error {
	m := message{Version: Version, Kind: kind}
	var err error
	if body != nil {
		if m.Body, err = json.Marshal(body); err != nil {
			return err
		}
	}
	b, err := bootstrap.Encode(frameType, 0, client, server, client, m)
	if err != nil {
		return err
	}
	if err := conn.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	_, err = conn.Write(b)
	return err
}

// receive reads one message.
func receive(conn net.Conn, read func(io.Reader) (*bootstrap.Frame, error)) (m message, err error) {
	f, err := read(conn)
	switch {
	case err != nil:
		return m, err
	case f.Type != frameType:
		return m, fmt.Errorf("another command of ringcli (its %s frame) is there, not `transport`: give the --tcp-port of `transport serve`", f.Type)
	}
	if err := json.Unmarshal(f.Payload, &m); err != nil {
		return m, fmt.Errorf("a message that cannot be read: %w", err)
	}
	if f.Version != bootstrap.Version || m.Version != Version {
		return m, usage.Codedf(codes.Version, "the other end's messages are of version %d.%d, this one's of %d.%d: run the same ringcli at both ends",
			f.Version, m.Version, bootstrap.Version, Version)
	}
	return m, nil
}
