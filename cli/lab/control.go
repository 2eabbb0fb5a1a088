package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"ringcli/ring/bootstrap"
	"ringcli/ring/bootstrap/lobby"
	"ringcli/verbs"
)

// frameType marks a lab's frames, so that a ring's node and a lab tell each other
// apart; controlVersion is that of what the frames mean.
const (
	frameType      = bootstrap.Type("lab")
	controlVersion = 1
)

// report is what an end tells the other at each point where they meet.
type report struct {
	Version int    `json:"version"`
	Phase   string `json:"phase"` // where they meet
	Values  Values `json:"values,omitempty"`
	// Info is there once, in the exchange.
	Info *ConnInfo `json:"conn_info,omitempty"`
	// Error is why this end goes no further; Gone says that it is for no failure of
	// its own.
	Error string `json:"error,omitempty"`
	Gone  bool   `json:"gone,omitempty"`
	// Status is that of the completion that failed, if it was one.
	Status verbs.Status `json:"wc_status,omitempty"`
}

// control is the TCP connection of two ends. Its methods belong to one goroutine;
// another one reads, until the connection ends.
type control struct {
	peer    context.Context // ends with the lab, and where the other end gives up
	gone    context.CancelCauseFunc
	conn    *net.TCPConn
	rank    int
	timeout time.Duration
	waiting func(what string) (done func())
	inbox   chan report // closed when the connection has ended
	ended   error       // why, once the inbox is closed
	last    string      // phase that the peer has reported
}

const (
	// redial is the pause before rank 1 tries again: the other end's people start it
	// by hand.
	redial = 100 * time.Millisecond
	// grace is how much longer an end waits for the other's report than either waits
	// for anything else: the report of a wait in vain must still arrive.
	grace = 5 * time.Second
	// farewell is how long an end that closes lets the other read what was sent.
	farewell = 2 * time.Second
)

// meet makes the connection: rank 0 listens on own, rank 1 dials the peer until it
// answers. Strangers are turned away, and named if it was in vain.
func meet(ctx context.Context, rank int, own, peer netip.AddrPort, o *Options) (*control, error) {
	timeout := o.Timeout
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	where := own
	if rank == 1 {
		where = peer
	}
	defer o.Waiting(fmt.Sprintf("rank %d to meet on %s", 1-rank, where))()
	var conn net.Conn
	var first *report
	var err error
	if rank == 0 {
		conn, first, err = listen(limited, own)
	} else {
		conn, err = dial(limited, own.Addr(), peer)
	}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case limited.Err() != nil:
		return nil, fmt.Errorf("%w within %s", err, timeout)
	default:
		return nil, err
	}
	c := &control{conn: conn.(*net.TCPConn), rank: rank, timeout: timeout, waiting: o.Waiting, inbox: make(chan report, 16)}
	c.peer, c.gone = context.WithCancelCause(ctx)
	if first != nil {
		c.inbox <- *first
	}
	go c.read()
	return c, nil
}

// listen accepts callers until one is a lab's other end.
func listen(ctx context.Context, own netip.AddrPort) (net.Conn, *report, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", own.String())
	if err != nil {
		return nil, nil, fmt.Errorf("listen on %s: %w; give another --tcp-port, on both ends", own, err)
	}
	came := ""
	c, err := lobby.Await(ctx, listener, grace, greet, func(conn net.Conn, err error) {
		came = fmt.Sprintf("; the last caller, %s: %v", conn.RemoteAddr(), err)
	})
	switch {
	case err == nil:
		return c.conn, &c.first, nil
	case ctx.Err() == nil:
		return nil, nil, fmt.Errorf("accept rank 1 on %s: %w", own, err)
	}
	return nil, nil, fmt.Errorf("rank 1 has not connected to %s%s", own, came)
}

// caller has made its first report.
type caller struct {
	conn  net.Conn
	first report
}

// greet reads a caller's first report.
func greet(conn net.Conn) (caller, error) {
	f, err := bootstrap.ReadGreeting(conn)
	if program, strange := bootstrap.Stranger(conn, err); strange {
		return caller{}, fmt.Errorf("%s is there, not a lab", program)
	}
	if err != nil {
		return caller{}, err
	}
	r, err := reportOf(f)
	return caller{conn, r}, err
}

// dial calls from the address that RDMA uses, too.
func dial(ctx context.Context, own netip.Addr, peer netip.AddrPort) (net.Conn, error) {
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(own, 0))}
	for {
		conn, err := d.DialContext(ctx, "tcp", peer.String())
		if err == nil {
			return conn, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("rank 0 has not answered on %s (%w): start `ringcli lab c --index 0` there", peer, err)
		case <-time.After(redial):
		}
	}
}

// read gives what arrives to the inbox until the connection ends.
func (c *control) read() {
	defer close(c.inbox)
	r := bufio.NewReader(c.conn)
	for {
		report, err := readReport(r)
		if err != nil || report.Error != "" {
			c.gone(errPeerGone)
		}
		if err != nil {
			c.ended = err
			return
		}
		c.inbox <- report
	}
}

func readReport(r io.Reader) (report, error) {
	f, err := bootstrap.ReadFrame(r)
	if err != nil {
		return report{}, err
	}
	return reportOf(f)
}

func reportOf(f *bootstrap.Frame) (report, error) {
	if f.Type != frameType {
		return report{}, fmt.Errorf("a ringcli that sends a %s frame is there: expected one that runs `lab c`, not `connect`", f.Type)
	}
	var rep report
	if err := json.Unmarshal(f.Payload, &rep); err != nil {
		return rep, fmt.Errorf("a report that cannot be read: %w", err)
	}
	if f.Version != bootstrap.Version || rep.Version != controlVersion {
		return rep, fmt.Errorf("the other end's lab is of version %d.%d, this one of %d.%d: run the same ringcli on both hosts",
			f.Version, rep.Version, bootstrap.Version, controlVersion)
	}
	return rep, nil
}

func (c *control) send(r report) error {
	r.Version = controlVersion
	b, err := bootstrap.Encode(frameType, 0, c.rank, 1-c.rank, 1, r)
	if err != nil {
		return err
	}
	if err := c.conn.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return err
	}
	if _, err := c.conn.Write(b); err != nil {
		return fmt.Errorf("tell rank %d: %w", 1-c.rank, err)
	}
	return nil
}

// receive waits for the other end's report of a phase.
func (c *control) receive(ctx context.Context, phase string) (report, error) {
	who, progress := fmt.Sprintf("rank %d (%s)", 1-c.rank, c.conn.RemoteAddr()), "nothing had come from it"
	if c.last != "" {
		progress = fmt.Sprintf("its last was %q", c.last)
	}
	defer c.waiting(fmt.Sprintf("%s to report %q", who, phase))()
	select {
	case <-ctx.Done():
		return report{}, context.Cause(ctx)
	case <-time.After(c.timeout + grace):
		return report{}, fmt.Errorf("%s has not reported %q within %s; %s", who, phase, c.timeout+grace, progress)
	case r, open := <-c.inbox:
		if !open {
			err := c.ended
			if errors.Is(err, io.EOF) {
				err = errors.New("it has closed the connection: it was interrupted, or has ended")
			}
			return r, fmt.Errorf("%s: awaited its report of %q; %s: %w", who, phase, progress, err)
		}
		if r.Phase != phase {
			return report{}, fmt.Errorf("%s reports %q, expected %q", who, r.Phase, phase)
		}
		c.last = phase
		return r, nil
	}
}

// errPeerGone ends a wait that the other end has made vain; its report says why.
var errPeerGone = errors.New("the other end has given up")

// Close lets the other end read what was sent, and ends the connection.
func (c *control) Close() error {
	// Data that nobody has read would turn the end into a reset, which takes away from
	// the peer what it has not read yet.
	_ = c.conn.CloseWrite()
	_ = c.conn.SetReadDeadline(time.Now().Add(farewell))
	for range c.inbox {
	}
	c.gone(nil)
	return c.conn.Close()
}

// together does a part of a step that both ends do, and tells the other how it went.
// It fails where either fails.
func (c *control) together(ctx context.Context, s *Step, phase string, do func() error) error {
	err := do()
	mine := report{Phase: phase, Values: s.Values}
	if err != nil {
		mine.Error, mine.Gone = err.Error(), errors.Is(err, errPeerGone) || ctx.Err() != nil
		mine.Status, _ = failedStatus(err)
	}
	if sent := c.send(mine); sent != nil {
		return errors.Join(err, sent)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	theirs, received := c.receive(ctx, phase)
	s.Peer = theirs.Values
	switch {
	case err != nil && !mine.Gone:
		return err // what the other end says follows from it
	case received != nil:
		return received
	case theirs.Error != "":
		return &Diagnosis{Err: fmt.Errorf("at rank %d: %s", 1-c.rank, theirs.Error), Meaning: meaning(theirs.Status)}
	}
	return err
}
