package oob

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
	"ringcli/ring/bootstrap/seal"
)

// Protocol is what the two ends of a command speak: messages in frames of a type of its own.
type Protocol struct {
	Type    Type
	Version int // of the messages and of what they mean
	// Greets has the server speak first, so that a client knows whom it has reached before it
	// says anything.
	Greets bool
	// Server and Client are what the two ends are called, Program is what runs at the server,
	// Absent is that no server has answered, and SameToken what to do where the tokens differ.
	Server, Client, Program, Absent, SameToken string
	MaxMessage                                 int // bytes; 0: MaxFrame
}

const (
	// server and client are the ends' numbers in frames.
	server, client = 0, 1
	// Patience is how long a caller may take to say who it is.
	Patience = 5 * time.Second
	// redial is the pause before a client calls again: people start the server by hand.
	redial = 100 * time.Millisecond
	// lives is how many signs of life there are within the timeout.
	lives = 4
	// inboxRoom is more messages than an honest peer sends before it has an answer: one.
	inboxRoom = 16
	// farewell is how long an end that closes lets the other read what was sent.
	farewell = 2 * time.Second
)

// The messages of every protocol.
const (
	kindGreeting = "greeting"
	kindHello    = "hello"
	kindWelcome  = "welcome"
	kindFailed   = "failed"
	kindAlive    = "alive"
	kindBye      = "bye"
)

// message is the payload of a frame.
type message struct {
	Version int             `json:"version"`
	Kind    string          `json:"kind"`
	Body    json.RawMessage `json:"body,omitempty"`
}

// Hello says who calls, and what for; the server's welcome says who answers.
type Hello struct {
	Name    string `json:"name"`
	Purpose string `json:"purpose,omitempty"`
	Rank    int    `json:"rank,omitempty"`
	// At, of a welcome, is the server's address at which the client has arrived.
	At netip.Addr `json:"at,omitzero"`
}

// failure is why an end goes no further.
type failure struct {
	Text  string     `json:"text"`
	Code  codes.Code `json:"code"`
	Usage bool       `json:"usage,omitempty"` // the command line must change
}

// PeerError is what the other end has said of its failure.
type PeerError struct {
	Peer string
	failure
}

func (e *PeerError) Error() string {
	if e.Code == codes.Busy {
		return e.Peer + " is " + e.Text
	}
	return e.Peer + ": " + e.Text
}
func (e *PeerError) FailureCode() codes.Code { return e.Code }

// Is reports whether the error is one of usage, for errors.Is.
func (e *PeerError) Is(target error) bool { return target == usage.Err && e.Usage }

// ErrBye means that the peer has closed the connection in order.
var ErrBye = errors.New("it has said goodbye")

// Conn is the connection of two ends, once both know who the other is.
type Conn struct {
	Peer    Hello // what the other end has said
	p       *Protocol
	conn    net.Conn
	timeout time.Duration
	sending sync.Mutex
	ctx     context.Context
	cancel  context.CancelCauseFunc
	inbox   chan message
	running sync.WaitGroup
	mu      sync.Mutex
	note    json.RawMessage // guarded by mu: what came with the last sign of life
}

// Context ends with the one that the connection was made under, and with the connection: its
// cause is why, a PeerError or ErrBye where the peer has said so.
func (c *Conn) Context() context.Context { return c.ctx }

// Name is the peer's, with its address.
func (c *Conn) Name() string { return fmt.Sprintf("%s (%s)", c.Peer.Name, c.conn.RemoteAddr()) }

// Local is the address at this end.
func (c *Conn) Local() netip.Addr { return AddrPort(c.conn.LocalAddr()).Addr() }

// Addrs are the addresses of TCP at this end and at the peer's.
func (c *Conn) Addrs() (local, remote net.Addr) { return c.conn.LocalAddr(), c.conn.RemoteAddr() }

// AddrPort is the address of a TCP connection's end; the zero value of another's.
func AddrPort(a net.Addr) netip.AddrPort {
	p, _ := netip.ParseAddrPort(a.String())
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
}

// start has the connection read. With a timeout both ends give signs of life, and one of which
// nothing is heard for that long is given up.
func (p *Protocol) start(ctx context.Context, conn net.Conn, peer Hello, timeout time.Duration) *Conn {
	_ = conn.SetDeadline(time.Time{}) // fails on a closed connection only, as the read will
	c := &Conn{Peer: peer, p: p, conn: conn, timeout: timeout, inbox: make(chan message, inboxRoom)}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	c.running.Go(c.read)
	if timeout == 0 {
		return c
	}
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
		if c.timeout > 0 {
			_ = c.conn.SetReadDeadline(time.Now().Add(c.timeout)) // fails on a closed one alone
		}
		m, err := c.p.receive(c.conn, max(c.p.MaxMessage, MaxFrame))
		switch {
		case err != nil:
			c.cancel(fmt.Errorf("%s: %w", c.Name(), ended(err, c.timeout)))
			return
		case m.Kind == kindAlive:
			c.mu.Lock()
			c.note = m.Body
			c.mu.Unlock()
		case m.Kind == kindBye:
			c.cancel(ErrBye)
		case m.Kind == kindFailed:
			c.cancel(failedAt(c.Name(), m))
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
	switch slow, ok := errors.AsType[net.Error](err); {
	case errors.Is(err, io.EOF):
		return errors.New("it has closed the connection: it was interrupted, or has ended")
	case ok && slow.Timeout():
		return codes.With(codes.Timeout, fmt.Errorf("nothing was heard of it for %s: it stands still, or the network is down", timeout))
	}
	return err
}

func failedAt(peer string, m message) *PeerError {
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
	within := c.timeout
	if within == 0 {
		within = Patience
	}
	if err := c.p.send(c.conn, kind, body, within); err != nil {
		return fmt.Errorf("%s: %w", c.Name(), err)
	}
	return nil
}

// Note sends a sign of life that says what this end does, of which only the last counts.
func (c *Conn) Note(body any) { _ = c.Send(kindAlive, body) } // who is gone needs no telling

// Noted reads what the peer's last sign of life has said, if it has said anything.
func (c *Conn) Noted(into any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = json.Unmarshal(c.note, into)
}

// Fail tells the peer why this end goes no further.
func (c *Conn) Fail(err error) { _ = c.Send(kindFailed, failureOf(err)) } // who is gone needs no telling

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

// Receive waits for a message of a kind, at most for the timeout, and reads its body. Where the
// connection ends first the error is the cause of Context.
func (c *Conn) Receive(ctx context.Context, kind string, into any) error {
	late := codes.With(codes.Timeout, fmt.Errorf("%s: awaited its %q: nothing has come within %s", c.Name(), kind, c.timeout))
	within, cancel := context.WithTimeoutCause(ctx, c.timeout, late)
	defer cancel()
	got, read, err := c.Next(within)
	if err != nil {
		return err
	}
	if got != kind {
		return fmt.Errorf("%s sends %q, expected %q: run the same ringcli at both ends", c.Name(), got, kind)
	}
	return read(into)
}

// Next waits for the next message until ctx ends, and returns its kind and a function that reads
// its body. Where the connection ends first the error is the cause of Context.
func (c *Conn) Next(ctx context.Context) (kind string, read func(into any) error, err error) {
	var m message
	select {
	case m = <-c.inbox:
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-c.ctx.Done():
		err = context.Cause(c.ctx)
	}
	if err != nil {
		select {
		case m = <-c.inbox: // it came before the end
		default:
			return "", nil, err
		}
	}
	return m.Kind, func(into any) error {
		if into == nil {
			return nil
		}
		if err := json.Unmarshal(m.Body, into); err != nil {
			return fmt.Errorf("%s: its %q: %w", c.Name(), m.Kind, err)
		}
		return nil
	}, nil
}

// Close announces the end, lets the peer read what was sent, and closes the connection.
func (c *Conn) Close() {
	_ = c.Send(kindBye, nil)
	c.cancel(net.ErrClosed)
	if tcp, ok := seal.Raw(c.conn).(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
	// What nobody has read would turn the end into a reset, which takes away from the peer
	// what it has not read yet.
	gone := time.AfterFunc(farewell, func() { _ = c.conn.Close() })
	c.running.Wait()
	gone.Stop()
	_ = c.conn.Close()
}

// encode makes a frame of a message.
func (p *Protocol) encode(kind string, body any) ([]byte, error) {
	m := message{Version: p.Version, Kind: kind}
	var err error
	if body != nil {
		if m.Body, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	f := Frame{Version: Version, Type: p.Type, Sender: client, Receiver: server, Edge: client}
	if f.Payload, err = json.Marshal(m); err != nil {
		return nil, err
	}
	return appendFrame(nil, &f, max(p.MaxMessage, MaxFrame))
}

// send writes one message.
func (p *Protocol) send(conn net.Conn, kind string, body any, timeout time.Duration) error {
	b, err := p.encode(kind, body)
	if err == nil {
		err = conn.SetWriteDeadline(time.Now().Add(timeout))
	}
	if err == nil {
		_, err = conn.Write(b)
	}
	return err
}

// receive reads one message of at most so many bytes. One of another version comes with an error.
func (p *Protocol) receive(conn net.Conn, most int) (message, error) {
	f, err := readFrame(conn, uint32(most))
	if err != nil {
		return message{}, err
	}
	return p.parse(f)
}

func (p *Protocol) parse(f *Frame) (m message, err error) {
	if f.Type != p.Type {
		return m, fmt.Errorf("another command of ringcli (its %s frame) is there, not `%s`", f.Type, p.Type)
	}
	if err := json.Unmarshal(f.Payload, &m); err != nil {
		return m, fmt.Errorf("a message that cannot be read: %w", err)
	}
	if f.Version != Version || m.Version != p.Version {
		return m, usage.Codedf(codes.Version, "the other end's messages are of version %d.%d, this one's of %d.%d: run the same ringcli at both ends",
			f.Version, m.Version, Version, p.Version)
	}
	return m, nil
}
