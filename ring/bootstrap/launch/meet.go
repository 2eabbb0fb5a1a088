package launch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"ringcli/configs/codes"
	"ringcli/configs/usage"
	"ringcli/ring/bootstrap/calls"
	"ringcli/ring/bootstrap/hosts"
	"ringcli/ring/bootstrap/oob"
	"ringcli/ring/bootstrap/seal"
	"ringcli/trace"
)

// meeting is where ranks find each other: at rank 0, which speaks first, so that a caller
// knows whom it has reached before it says anything: torchrun's own store listens at
// MASTER_PORT, and then rank 0 does at the next. After the handshake of package oob each rank
// sends data, and rank 0 answers with everybody's; now and then it notes whom it waits for.
type meeting struct {
	rank, size int
	hosts      []string // of which rank 0 has one, most likely the first
	port       int
	job        string
	token      *seal.Token
	taken      bool // somebody else listens at port, so the next is the first to try
}

// candidates are the ports that rank 0 tries and others look for it at.
const candidates = 8

const (
	// patience is how long whoever answers a call may take to say who it is.
	patience = 3 * time.Second
	// pause is between two rounds of calls: short enough that the last to start is found
	// at once.
	pause = 100 * time.Millisecond
	// notice is between two words of rank 0 about whom it waits for.
	notice = 500 * time.Millisecond
)

// protocol is what the ranks speak. What a million ranks say of themselves does not get here.
var protocol = &oob.Protocol{
	Type: "launch", Version: 2, Greets: true, Server: "rank 0", Client: "this rank", Program: "rank 0",
	SameToken: "give all ranks the same --token-file or RINGCLI_TOKEN", MaxMessage: 64 << 20,
}

// The messages: a rank's data, and everybody's by rank.
const (
	kindData = "data"
	kindAll  = "all"
)

// greeting is what rank 0 says first.
type greeting struct {
	Job   string `json:"job"`
	Port  int    `json:"port"` // the one that is meant, whichever it is
	Size  int    `json:"size"`
	Token bool   `json:"token"`
}

func (m meeting) Rank() int { return m.rank }
func (m meeting) Size() int { return m.size }

func meet(ctx context.Context, m meeting) (Launcher, error) {
	if m.taken {
		m.port++
	}
	if m.rank == 0 {
		return m.listen(ctx)
	}
	return m.call(ctx)
}

// guest is a rank at rank 0.
type guest struct {
	meeting
	*oob.Conn
	at string // of rank 0
}

func (g *guest) Close() error {
	g.Conn.Close()
	return nil
}

// others is how many hosts besides the first are called in one round, at the same time.
const others = 16

// call looks for rank 0 until it is there: in each round at the first host, then at some of the
// others, by turns.
func (m meeting) call(ctx context.Context) (Launcher, error) {
	last := errors.New("it was not called yet") // of the first host and port, which are meant
	warned := false
	for at := 1; ; {
		c, address, err := m.callHost(ctx, m.hosts[0])
		if err == nil {
			return &guest{m, c, address}, nil
		}
		if usage.Is(err) {
			return nil, err
		}
		if ctx.Err() == nil { // else it is no news
			last = err
		}
		if _, unknown := errors.AsType[*net.DNSError](err); unknown && !warned {
			warned = true
			trace.Warn(trace.Bootstrap, fmt.Sprintf("waiting for the address of rank 0's host: %v", err))
		}
		found := make([]*guest, min(others, len(m.hosts)-1))
		refused := make([]error, len(found))
		var round sync.WaitGroup
		for i := range found {
			host := m.hosts[1+(at-1+i)%(len(m.hosts)-1)]
			round.Go(func() {
				if c, address, err := m.callHost(ctx, host); err == nil {
					found[i] = &guest{m, c, address}
				} else if usage.Is(err) {
					refused[i] = err
				}
			})
		}
		round.Wait()
		at += len(found)
		if i := slices.IndexFunc(found, func(g *guest) bool { return g != nil }); i >= 0 {
			return found[i], nil // there is one rank 0 of a job
		}
		if err := errors.Join(refused...); err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("rank %d of %d: awaited rank 0 at %s, or one of the %d ports after it: nobody there speaks for this job (%w): %w",
				m.rank, m.size, m.places(), candidates-1, last, context.Cause(ctx))
		case <-time.After(pause):
		}
	}
}

// places says where rank 0 is looked for.
func (m meeting) places() string {
	first := net.JoinHostPort(m.hosts[0], strconv.Itoa(m.port))
	if len(m.hosts) == 1 {
		return first
	}
	return fmt.Sprintf("%s (and on the other %d hosts of the job)", first, len(m.hosts)-1)
}

// callHost calls the ports of a host, at each of its addresses. The error is that of the first
// port, but for one of usage.
func (m meeting) callHost(ctx context.Context, host string) (c *oob.Conn, address string, err error) {
	addrs, err := hosts.Lookup(ctx, host)
	if err != nil {
		return nil, "", fmt.Errorf("%q has no address: %w", host, err)
	}
	var first []error // of each address
	for _, a := range addrs {
		for i := range candidates {
			if m.port+i > 65535 {
				break
			}
			address = net.JoinHostPort(a.String(), strconv.Itoa(m.port+i))
			c, err := m.try(ctx, address)
			if err == nil || usage.Is(err) {
				return c, address, err
			}
			if i == 0 {
				first = append(first, err)
			}
			if _, call := errors.AsType[*net.OpError](err); call && !errors.Is(err, syscall.ECONNREFUSED) && len(addrs) > 1 {
				break // nobody answers there, nor at the other ports
			}
		}
	}
	return nil, "", hosts.Joined(first)
}

// try calls one port. Errors of usage are rank 0's answer; others are that nobody answers,
// or somebody else.
func (m *meeting) try(ctx context.Context, at string) (*oob.Conn, error) {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	raw, err := new(net.Dialer).DialContext(limited, "tcp", at)
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname()
	c := oob.Caller{
		Protocol: protocol, Token: m.token, Hello: oob.Hello{Name: fmt.Sprintf("rank %d (host %s, pid %d)", m.rank, host, os.Getpid()), Rank: m.rank},
		Greeted: func(read func(any) error) error { return m.compare(at, read) },
	}
	conn, err := c.Join(limited, context.WithoutCancel(ctx), raw, at)
	if said, ok := errors.AsType[*oob.PeerError](err); ok {
		return nil, usage.Codedf(said.Code, "rank 0 at %s: %s", at, said.Text)
	}
	return conn, err
}

// compare says why whoever greets is not this rank's rank 0.
func (m *meeting) compare(at string, read func(any) error) error {
	var g greeting
	err := read(&g)
	switch {
	case g.Port == 0:
		return fmt.Errorf("%s: another program listens there", at)
	case g.Job != m.job, g.Port != m.port:
		return fmt.Errorf("%s: rank 0 of another job listens there: %q of port %d, and this one is %q", at, g.Job, g.Port, m.job)
	case err != nil: // of another version
		return fmt.Errorf("rank 0 at %s: %w", at, err)
	case g.Size != m.size:
		return usage.Codedf(codes.List, "rank 0 at %s is one of %d ranks, and rank %d one of %d: give all the same --world-size", at, g.Size, m.rank, m.size)
	case g.Token != (m.token != nil):
		return usage.Codedf(codes.Token, "rank 0 at %s and rank %d: one has a token, the other has none: %s", at, m.rank, protocol.SameToken)
	}
	return nil
}

func (g *guest) AllGather(ctx context.Context, own []byte) (all [][]byte, err error) {
	_ = g.Send(kindData, own) // why it cannot be sent is why nothing comes
	_, read, err := g.Next(ctx)
	if err == nil {
		err = read(&all)
	}
	said, failed := errors.AsType[*oob.PeerError](err)
	var awaits []int
	g.Noted(&awaits)
	switch {
	case err == nil:
		return all, nil
	case failed && said.Usage:
		return nil, usage.Errorf("rank 0 at %s: %s", g.at, said.Text)
	case failed:
		return nil, fmt.Errorf("rank 0 at %s: %s", g.at, said.Text)
	case ctx.Err() != nil && len(awaits) > 0:
		return nil, fmt.Errorf("rank %d of %d: awaited %s, of which rank 0 at %s has not heard: %w", g.rank, g.size, calls.Ranks(awaits), g.at, err)
	case errors.Is(err, oob.ErrBye):
		err = errors.New("it has hung up: it has ended")
	}
	return nil, fmt.Errorf("rank %d of %d: awaited rank 0 at %s to say who the others are: %w", g.rank, g.size, g.at, err)
}

func (g *guest) Barrier(ctx context.Context) error {
	_, err := g.AllGather(ctx, nil)
	return err
}
