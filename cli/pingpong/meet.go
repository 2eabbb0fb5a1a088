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
	"ringcli/ring/bootstrap/oob"
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
	return &meeting{conn: conn, local: oob.AddrPort(conn.LocalAddr()).Addr(), peer: oob.AddrPort(conn.RemoteAddr())}
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
	m, err := oob.Await(ctx, listener, oob.Patience, func(conn net.Conn) (m *meeting, err error) {
		m = newMeeting(conn)
		m.first, err = m.read(oob.Patience)
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
	where, since := net.JoinHostPort(o.Host, strconv.Itoa(o.TCPPort)), time.Now()
	conn, err := oob.Dial(ctx, o.Bind, where, func() func() { return o.Waiting("a server on "+where, since) })
	switch {
	case usage.Is(err):
		return nil, usage.Errorf("%s: %w", o.Host, err)
	case err != nil:
		return nil, fmt.Errorf("no server has answered on %s within %s (%w): start `ringcli pingpong` or ibv_rc_pingpong there", where, o.Timeout, err)
	}
	return newMeeting(conn), nil
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
	b := make([]byte, addressLen)
	n, err := io.ReadFull(m.conn, b)
	if err != nil {
		return Address{}, errors.New(came(b[:n], err, timeout))
	}
	a, ok := parse(b)
	if !ok {
		return a, errors.New(identify(append(b, oob.Rest(m.conn)...)) + " is there, not a pingpong")
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
	if f, err := oob.ReadFrame(bytes.NewReader(head)); !errors.Is(err, oob.ErrNotFrame) {
		if err == nil {
			return fmt.Sprintf("another command of ringcli (its %s frame)", f.Type)
		}
		return "another command of ringcli, such as connect or lab c,"
	}
	return oob.Identify(head)
}
