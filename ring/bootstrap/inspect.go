package bootstrap

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"ringcli/ring/bootstrap/oob"
	"ringcli/ring/bootstrap/verdict"
)

// inspect calls a neighbour anew, again and again, for as long as anybody misses it. It needs
// the lock.
func (c *Control) inspect(p *watched) {
	if p.calling || c.closed {
		return
	}
	p.calling = true
	c.running.Go(func() {
		for c.inspectOnce(p) {
			select {
			case <-time.After(c.pace.tick):
			case <-c.live.Done():
			}
		}
	})
}

// inspectOnce tells whether to go on.
func (c *Control) inspectOnce(p *watched) bool {
	begun, half := time.Now(), c.callsHere(p.rank)
	c.mu.Lock()
	p.half = half
	p.process = c.members[p.rank].look(&c.self, &p.cpu)
	c.look(begun)
	c.mu.Unlock()
	call := c.callAgain(p.rank)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.notice(now)
	if c.failure != nil || c.leaving || c.closed {
		p.calling = false
		return false
	}
	if begun.After(p.endedAt) {
		p.call, p.called = call, true
	}
	s := c.see(p, now)
	if !s.Amiss() && !c.asked(p.rank, now) {
		p.calling, p.called, p.half, p.call, p.process, p.cpu = false, false, false, "", "", 0
		return false
	}
	c.look(now)
	return true
}

// callAgain calls a neighbour anew; "" is that nothing can be said.
func (c *Control) callAgain(rank int) verdict.Outcome {
	ctx, cancel := awake(c.live, c.pace.call)
	defer cancel()
	conn, err := c.cfg.Dial(ctx, "tcp", c.at(rank).String())
	if err != nil {
		return unreached(ctx, err)
	}
	defer func() { _ = conn.Close() }()
	// A host answers at once, a process when it gets the CPU.
	ctx, cancel = awake(c.live, c.pace.suspect)
	defer cancel()
	c.mu.Lock()
	instance := c.members[rank].Instance
	c.mu.Unlock()
	_, f, err := c.ask(ctx, conn, TypeProbe, rank, c.rank, probe{Digest: c.digest, Instance: instance})
	if err != nil || f.Type != TypeState {
		return verdict.CallOpen
	}
	if s, err := oob.Decode[status](f); err != nil || !s.Itself {
		return verdict.CallOther
	}
	return verdict.CallAnswered
}

func unreached(ctx context.Context, err error) verdict.Outcome {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return verdict.CallRefused
	case errors.Is(err, os.ErrDeadlineExceeded) || ctx.Err() != nil,
		errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.ENETDOWN), errors.Is(err, syscall.ETIMEDOUT):
		return verdict.CallMute
	}
	return "" // out of descriptors, or the like: the own fault
}
