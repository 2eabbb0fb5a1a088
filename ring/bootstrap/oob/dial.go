package oob

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"ringcli/configs/codes"
	"ringcli/configs/usage"
	"ringcli/ring/bootstrap/seal"
)

// Dial calls an address, from one of this machine if that is valid, until somebody answers or ctx
// ends. The error is that of the last call which had the time to fail; that the host is not known
// is an error of usage. waiting is called after the first call in vain, what it returns at the end.
func Dial(ctx context.Context, from netip.Addr, address string, waiting func() (done func())) (net.Conn, error) {
	var d net.Dialer
	if from.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
	}
	var last error
	for {
		conn, err := d.DialContext(ctx, "tcp", address)
		if err == nil {
			return conn, nil
		}
		if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
			return nil, usage.Codedf(codes.HostUnknown, "%s", dns)
		}
		if last == nil {
			defer waiting()()
		}
		if last == nil || ctx.Err() == nil { // else it had no time left
			last = err
		}
		select {
		case <-ctx.Done():
			return nil, last
		case <-time.After(redial):
		}
	}
}

// Caller calls a server.
type Caller struct {
	*Protocol
	Token   *seal.Token
	Timeout time.Duration // of each wait; 0: nobody gives signs of life
	Within  time.Duration // of a Call; 0: Timeout
	Hello   Hello
	// Greeted reads the server's greeting, of a protocol that greets; its error ends the call.
	Greeted func(read func(into any) error) error
}

// Call calls a server until it answers, or Within has passed. A server that is busy answers
// at once. The connection lives under ctx.
func (c *Caller) Call(ctx context.Context, from netip.Addr, address string, waiting func() (done func())) (*Conn, error) {
	within := cmp.Or(c.Within, c.Timeout)
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	raw, err := Dial(limited, from, address, waiting)
	if err == nil {
		var conn *Conn
		if conn, err = c.Join(limited, ctx, raw, address); err == nil {
			return conn, nil
		}
	}
	said, told := errors.AsType[*PeerError](err)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case told && said.Code == codes.Busy:
		return nil, err
	case limited.Err() != nil:
		return nil, codes.With(codes.Absent, fmt.Errorf("%s on %s within %s (%w): start %s there", c.Absent, address, within, err, c.Program))
	}
	return nil, fmt.Errorf("%s: %w", address, err)
}

// Join says hello on a connection, until limited ends. The connection lives under ctx.
func (c *Caller) Join(limited, ctx context.Context, raw net.Conn, address string) (*Conn, error) {
	stop := context.AfterFunc(limited, func() { _ = raw.SetDeadline(time.Now()) })
	defer stop()
	_ = raw.SetDeadline(time.Now().Add(Patience)) // fails on a closed one alone
	conn, who, err := c.introduce(raw, address)
	if err == nil && !stop() {
		err = context.Cause(limited)
	}
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	return c.start(ctx, conn, who, c.Timeout), nil
}

// introduce says hello, and returns who the server is.
func (c *Caller) introduce(raw net.Conn, address string) (conn net.Conn, who Hello, err error) {
	var m message
	if c.Greets {
		m, err = c.receive(raw, maxGreeting)
		if failed := c.Greeted(func(into any) error { return errors.Join(json.Unmarshal(m.Body, into), err) }); failed != nil {
			return nil, who, failed
		}
	}
	conn, err = Unlock(raw, c.Token, Call{c.Type, client, server, client}, func(_ Type, f *Frame) error {
		if m, err = c.parse(f); err == nil {
			err = c.refusal(m, address)
		}
		return err
	})
	if wrong, ok := errors.AsType[TokenTrouble](err); ok {
		err = wrong.Told(c.Server, "this end", c.SameToken)
	}
	if err == nil {
		err = c.send(conn, kindHello, c.Hello, Patience)
	}
	if err == nil {
		m, err = c.receive(conn, maxGreeting)
	}
	if program, strange := Stranger(raw, err); strange {
		return nil, who, fmt.Errorf("%s is there, not %s", program, c.Program)
	}
	switch {
	case err != nil:
		return nil, who, ended(err, Patience)
	case m.Kind == kindWelcome:
		return conn, who, json.Unmarshal(m.Body, &who)
	}
	return nil, who, c.refusal(m, address)
}

// refusal is what a server says instead of a welcome.
func (c *Caller) refusal(m message, address string) error {
	if m.Kind != kindFailed {
		return fmt.Errorf("it sends %q, expected %q", m.Kind, kindWelcome)
	}
	e := failedAt(c.Server, m)
	if e.Code == codes.Busy {
		e.Peer = address
	}
	return e
}
