package talk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"ringcli/configs/codes"
	"ringcli/configs/usage"
	"ringcli/ring/bootstrap"
	"ringcli/ring/bootstrap/seal"
)

// Dialler calls a server.
type Dialler struct {
	Address string // host:port
	Token   *seal.Token
	Timeout time.Duration // of each wait
	Hello   Hello
	// Waiting is told what is being waited for, and since when; what it returns is called once
	// that has come.
	Waiting func(what string, since time.Time) (done func())
}

// busyError is that the server serves another.
type busyError struct{ server, other string }

func (e *busyError) Error() string {
	return fmt.Sprintf("%s is busy: it serves %s: wait until that has ended, or serve on another --tcp-port", e.server, e.other)
}

func (e *busyError) FailureCode() codes.Code { return codes.Busy }

// Dial calls until a server answers, or the timeout has passed. A server that serves another
// client answers at once.
func (d *Dialler) Dial(ctx context.Context) (*Conn, error) {
	limited, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	var done func()
	since := time.Now()
	var told error
	for {
		c, err := d.try(limited, ctx)
		if late, ok := errors.AsType[net.Error](err); told != nil && err != nil && (limited.Err() != nil || ok && late.Timeout()) {
			err = told // the last try had no time left
		}
		told = err
		_, busy := errors.AsType[*busyError](err)
		switch {
		case err == nil:
			return c, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case busy:
			return nil, err
		case limited.Err() != nil:
			return nil, codes.With(codes.Absent, fmt.Errorf("no server has answered on %s within %s (%w): start `ringcli transport serve` there", d.Address, d.Timeout, err))
		case !isAbsent(err):
			return nil, fmt.Errorf("%s: %w", d.Address, err)
		}
		if done == nil {
			done = d.Waiting("a server on "+d.Address, since)
			defer done()
		}
		select {
		case <-limited.Done():
		case <-time.After(redial):
		}
	}
}

// isAbsent tells whether it may be worth another try: nobody has answered the call.
func isAbsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// try calls once. The connection lives under the second context.
func (d *Dialler) try(limited, ctx context.Context) (*Conn, error) {
	raw, err := new(net.Dialer).DialContext(limited, "tcp", d.Address)
	if err != nil {
		var dns *net.DNSError
		if errors.As(err, &dns) && dns.IsNotFound {
			return nil, usage.Codedf(codes.HostUnknown, "%s", dns)
		}
		return nil, err
	}
	stop := context.AfterFunc(limited, func() { _ = raw.SetDeadline(time.Now()) })
	defer stop()
	_ = raw.SetDeadline(time.Now().Add(grace)) // fails on a closed one alone
	conn, who, err := d.introduce(raw)
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	if !stop() {
		_ = raw.Close()
		return nil, context.Cause(limited)
	}
	_ = raw.SetDeadline(time.Time{})
	return start(ctx, conn, who, d.Timeout), nil
}

// introduce says hello, and returns who the server is.
func (d *Dialler) introduce(raw net.Conn) (conn net.Conn, who Hello, err error) {
	if conn, err = unlock(raw, d.Token); err == nil {
		err = send(conn, kindHello, d.Hello, grace)
	}
	var m message
	if err == nil {
		m, err = receive(conn, bootstrap.ReadGreeting)
	}
	if err != nil {
		if program, strange := bootstrap.Stranger(raw, err); strange {
			return nil, who, fmt.Errorf("%s is there, not `ringcli transport serve`", program)
		}
		return nil, who, ended(err, grace)
	}
	switch m.Kind {
	case kindWelcome:
		return conn, who, json.Unmarshal(m.Body, &who)
	case kindBusy:
		busy := &busyError{server: d.Address}
		if err := json.Unmarshal(m.Body, &busy.other); err != nil {
			return nil, who, err
		}
		return nil, who, busy
	case kindFailed:
		return nil, who, failedAt("the server", m)
	}
	return nil, who, fmt.Errorf("it sends %q, expected %q", m.Kind, kindWelcome)
}
