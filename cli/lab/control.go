package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"ringcli/ring/bootstrap/oob"
	"ringcli/verbs"
)

// protocol is what the two ends of a lab speak over TCP.
var protocol = &oob.Protocol{Type: "lab", Version: 2, Server: "rank 0", Client: "rank 1", Program: "`ringcli lab c --index 0`", Absent: "rank 0 has not answered"}

// kindReport is the one message, whose body is a report.
const kindReport = "report"

// report is what an end tells the other at each point where they meet.
type report struct {
	Phase  string `json:"phase"` // where they meet
	Values Values `json:"values,omitempty"`
	// Info is there once, in the exchange.
	Info *ConnInfo `json:"conn_info,omitempty"`
	// Error is why this end goes no further.
	Error string `json:"error,omitempty"`
	// Status is that of the completion that failed, if it was one.
	Status verbs.Status `json:"wc_status,omitempty"`
}

// control is the connection of two ends. Its methods belong to one goroutine.
type control struct {
	*oob.Conn
	waiting func(what string) (done func())
	last    string // phase that the peer has reported
}

// grace is how much longer an end waits for the other's report than either waits
// for anything else: the report of a wait in vain must still arrive.
const grace = 5 * time.Second

// meet makes the connection: rank 0 listens on own, rank 1 dials the peer until it
// answers, from the address that RDMA uses, too. Other programs are turned away, and named if it
// was in vain.
func meet(ctx context.Context, rank int, own, peer netip.AddrPort, o *Options) (*control, error) {
	where := [2]netip.AddrPort{own, peer}[rank]
	defer o.Waiting(fmt.Sprintf("rank %d to meet on %s", 1-rank, where))()
	var conn *oob.Conn
	var err error
	hello := oob.Hello{Name: fmt.Sprintf("rank %d", rank)}
	if rank == 0 {
		conn, err = listen(ctx, own, o.Timeout, oob.Server{Protocol: protocol, Hello: hello, Timeout: o.Timeout + grace})
	} else {
		c := oob.Caller{Protocol: protocol, Timeout: o.Timeout + grace, Within: o.Timeout, Hello: hello}
		conn, err = c.Call(ctx, own.Addr(), peer.String(), func() func() { return func() {} })
	}
	switch {
	case err == nil:
		return &control{Conn: conn, waiting: o.Waiting}, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, err
}

// listen accepts callers until one is a lab's other end.
func listen(ctx context.Context, own netip.AddrPort, within time.Duration, s oob.Server) (*oob.Conn, error) {
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", own.String())
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w; give another --tcp-port, on both ends", own, err)
	}
	came := ""
	s.Refused = func(from net.Addr, err error) { came = fmt.Sprintf("; the last caller, %s: %v", from, err) }
	conn, err := s.Accept(limited, ctx, listener)
	if err != nil {
		return nil, fmt.Errorf("rank 1 has not connected to %s%s within %s", own, came, within)
	}
	return conn, nil
}

// receive waits for the other end's report of a phase.
func (c *control) receive(ctx context.Context, phase string) (r report, err error) {
	progress := "nothing had come from it"
	if c.last != "" {
		progress = fmt.Sprintf("its last was %q", c.last)
	}
	defer c.waiting(fmt.Sprintf("%s to report %q", c.Name(), phase))()
	err = c.Receive(ctx, kindReport, &r)
	switch {
	case ctx.Err() != nil:
		return r, context.Cause(ctx)
	case err != nil:
		return r, fmt.Errorf("awaited the report of %q; %s: %w", phase, progress, err)
	case r.Phase != phase:
		return report{}, fmt.Errorf("%s reports %q, expected %q", c.Name(), r.Phase, phase)
	}
	c.last = phase
	return r, nil
}

// together does a part of a step that both ends do, and tells the other how it went.
// It fails where either fails. The failure of the other end ends what do waits for.
func (c *control) together(ctx context.Context, s *Step, phase string, do func() error) error {
	err := do()
	vain := err != nil && c.Context().Err() != nil && errors.Is(err, context.Cause(c.Context()))
	mine := report{Phase: phase, Values: s.Values}
	if err != nil {
		mine.Error = err.Error()
		mine.Status, _ = failedStatus(err)
	}
	if sent := c.Send(kindReport, mine); sent != nil {
		return errors.Join(err, sent)
	}
	if err != nil {
		c.Fail(err)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	theirs, received := c.receive(ctx, phase)
	s.Peer = theirs.Values
	switch {
	case err != nil && !vain:
		return err // what the other end says follows from it
	case received != nil:
		return received
	case theirs.Error != "":
		return &Diagnosis{Err: fmt.Errorf("at %s: %s", c.Peer.Name, theirs.Error), Meaning: meaning(theirs.Status)}
	}
	return err
}
