package pingpong

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"ringcli/configs/usage"
	"ringcli/ring/bootstrap"
	"ringcli/ring/bootstrap/lobby"
	"ringcli/ring/bootstrap/strangers"
)

const (
	// redial is the pause before a client tries again: the server's people start it
	// by hand.
	redial = 100 * time.Millisecond
	// grace is how long a caller may take for its first message: the stock client
	// sends it at once.
	grace = 5 * time.Second
	// strangerPause is how long the rest of a stranger's message may dribble in.
	strangerPause = 100 * time.Millisecond
)

// done is what a client says last.
const done = "done\x00"

type meeting struct {
	conn  net.Conn
	local netip.Addr
	peer  netip.AddrPort
	first Address // what the client has said, at the server
}

func newMeeting(conn net.Conn) *meeting {
	addr := func(a net.Addr) netip.AddrPort {
		p := a.(*net.TCPAddr).AddrPort()
		return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
	}
	return &meeting{conn: conn, local: addr(conn.LocalAddr()).Addr(), peer: addr(conn.RemoteAddr())}
}

// meet makes the connection: the server listens, the client dials until somebody
// answers.
func meet(ctx context.Context, o *Options) (*meeting, error) {
	limited, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	if o.IsServer() {
		return listen(limited, o)
	}
	return dial(limited, o)
}

// listen accepts callers until one is a client.
func listen(ctx context.Context, o *Options) (*meeting, error) {
	own := net.TCPAddr{IP: o.Bind.AsSlice(), Zone: o.Bind.Zone(), Port: o.TCPPort}
	where := own.String()
	if !o.Bind.IsValid() {
		where = fmt.Sprintf("TCP port %d", o.TCPPort)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", own.String())
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w: give another --port, at both ends", where, err)
	}
	defer o.Waiting("a client on "+where, time.Now())()
	came := ""
	m, err := lobby.Await(ctx, listener, grace, func(conn net.Conn) (m *meeting, err error) {
		m = newMeeting(conn)
		m.first, err = m.read(grace)
		return m, err
	}, func(conn net.Conn, err error) {
		came = fmt.Sprintf("; the last caller, %s: %v", conn.RemoteAddr(), err)
	})
	switch {
	case err == nil:
		return m, nil
	case ctx.Err() == nil:
		return nil, fmt.Errorf("accept a client on %s: %w", where, err)
	}
	return nil, fmt.Errorf("no client has come to %s within %s%s", where, o.Timeout, came)
}

// dial calls each address of the host, until one answers.
func dial(ctx context.Context, o *Options) (*meeting, error) {
	where := net.JoinHostPort(o.Host, strconv.Itoa(o.TCPPort))
	defer o.Waiting("a server on "+where, time.Now())()
	var d net.Dialer
	if o.Bind.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(o.Bind, 0))
	}
	for {
		conn, err := d.DialContext(ctx, "tcp", where)
		if err == nil {
			return newMeeting(conn), nil
		}
		var dns *net.DNSError
		if errors.As(err, &dns) && dns.IsNotFound {
			return nil, usage.Errorf("%s: %v", o.Host, err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("no server has answered on %s within %s (%w): start `ringcli pingpong` or ibv_rc_pingpong there", where, o.Timeout, err)
		case <-time.After(redial):
		}
	}
}

// ask tells the server of this end and returns what it says of its own.
func (m *meeting) ask(own Address, timeout time.Duration) (Address, error) {
	if err := m.write(own.wire(), timeout); err != nil {
		return Address{}, err
	}
	to, err := m.read(timeout)
	if err != nil {
		return to, fmt.Errorf("await the address of the server %s: %w", m.peer, err)
	}
	if err := m.write([]byte(done), timeout); err != nil {
		return to, err
	}
	return to, m.conn.Close()
}

// answer tells the client of this end, and waits until it has read that.
func (m *meeting) answer(own Address, timeout time.Duration) error {
	if err := m.write(own.wire(), timeout); err != nil {
		return err
	}
	if err := m.conn.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	var last [len(done)]byte
	n, err := io.ReadFull(m.conn, last[:])
	if err != nil {
		return fmt.Errorf("await the last word of the client %s, %q: %s", m.peer, done, came(last[:n], err, timeout))
	}
	if string(last[:]) != done {
		return fmt.Errorf("the client %s said %q last: expected %q", m.peer, last[:], done)
	}
	return m.conn.Close()
}

// write sends a message in one piece: the stock tool reads each with one read(2).
func (m *meeting) write(b []byte, timeout time.Duration) error {
	if err := m.conn.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	if _, err := m.conn.Write(b); err != nil {
		return fmt.Errorf("tell %s of this end: %w", m.peer, err)
	}
	return nil
}

// read reads the peer's address. The error names what is there instead.
func (m *meeting) read(timeout time.Duration) (Address, error) {
	if err := m.conn.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return Address{}, err
	}
	b := make([]byte, addressLen, 4*addressLen)
	n, err := io.ReadFull(m.conn, b)
	if err != nil {
		return Address{}, errors.New(came(b[:n], err, timeout))
	}
	a, ok := parse(b)
	if !ok {
		_ = m.conn.SetReadDeadline(time.Now().Add(strangerPause))
		n, _ = io.ReadFull(m.conn, b[addressLen:cap(b)])
		return a, errors.New(identify(b[:addressLen+n]) + " is there, not a pingpong")
	}
	return a, nil
}

// came says what has come in place of a whole message.
func came(b []byte, err error, timeout time.Duration) string {
	what := "nothing has come"
	if len(b) > 0 {
		what = fmt.Sprintf("%d bytes have come: %s is there, not a pingpong", len(b), identify(b))
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Sprintf("%s in %s", what, timeout)
	}
	what += ", and it has hung up"
	if len(b) == 0 {
		what += ": where it is ibv_rc_pingpong, its own output says why (on RoCE it needs -g INDEX)"
	}
	return what
}

// identify says what a program is that has sent something else.
func identify(head []byte) string {
	if f, err := bootstrap.ReadFrame(bytes.NewReader(head)); !errors.Is(err, bootstrap.ErrNotFrame) {
		if err == nil {
			return fmt.Sprintf("another command of ringcli (its %s frame)", f.Type)
		}
		return "another command of ringcli, such as connect or lab c,"
	}
	return strangers.Identify(head)
}
