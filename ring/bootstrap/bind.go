package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"ringcli/configs/codes"
	"ringcli/configs/usage"
	"ringcli/ring/bootstrap/calls"
	"ringcli/ring/bootstrap/oob"
	"ringcli/trace"
)

// predecessor is how long the process that this one replaces may take to give the port back: a
// process that was killed is no zombie before its sockets are closed, but who starts the next
// need not have waited for that, and one that ends by itself says goodbye first.
const predecessor = time.Second

// bind listens. If the port is taken, the holder may be about to end: bind tries again. Then it
// asks who is there: a node that was given the same index is told, too. For a holder that does
// not answer it waits until the context's deadline, unless Config.ByHand.
func (p *prober) bind(ctx context.Context) (net.Listener, error) {
	ln, err := p.bindWithin(ctx, predecessor)
	if err == nil || !errors.Is(err, syscall.EADDRINUSE) {
		return ln, err
	}
	lives, held := p.heldBy(ctx)
	if lives || p.own.cfg.ByHand || ctx.Err() != nil {
		return nil, held
	}
	trace.Warn(trace.Bootstrap, "waiting for the port to be free: "+held.Error())
	begun := time.Now()
	if ln, err = p.bindWithin(ctx, 0); errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%w; waited for it to be free for %s", held, calls.Ago(time.Since(begun)))
	}
	return ln, err
}

// bindWithin tries to listen again and again while the port is taken, for so long, or until
// the context's deadline if that is 0.
func (p *prober) bindWithin(ctx context.Context, d time.Duration) (net.Listener, error) {
	address, within := p.own.cfg.Bind.String(), ctx
	if d > 0 {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	for pause := dialPauseMin; ; pause = min(2*pause, dialPauseMax) {
		ln, err := p.own.cfg.Listen(ctx, "tcp", address)
		switch {
		case err == nil:
			return ln, nil
		case errors.Is(err, syscall.EADDRINUSE):
		case ctx.Err() != nil:
			return nil, fmt.Errorf("listen on %s: %w", address, ctx.Err())
		default:
			code := codes.Permission
			if errors.Is(err, syscall.EADDRNOTAVAIL) {
				code = codes.AddressForeign
			}
			return nil, usage.Codedf(code, "listen on %s for rank %d: %w: expected an address of this machine and a port that it may use", address, p.own.rank, err)
		}
		select {
		case <-within.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return nil, fmt.Errorf("listen on %s: %w", address, ctx.Err())
			}
			return nil, err
		case <-time.After(pause):
		}
	}
}

// heldBy asks who keeps this rank from its port, and tells whether that is a program that
// answers, ringcli or another. It takes about a second, also after the context's deadline.
func (p *prober) heldBy(ctx context.Context) (lives bool, held error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
	defer cancel()
	s, err := p.probe(ctx, p.own.rank, p.own.holder(), probe{})
	holder, code := "", codes.PortTaken
	switch {
	case err != nil:
		holder = fmt.Sprintf("another program holds it (%v): end it, or give the entry another port (host:port)", err)
	case s.Same && s.Rank == p.own.rank:
		holder = fmt.Sprintf("ringcli with index %d of the same list runs there (%s): end it, or give this node its own --index", s.Rank, s.who())
		_ = p.tellTwin(ctx) // the text above says it
		code = codes.List
	default:
		holder = fmt.Sprintf("rank %d of another ring listens there%s (%s): end it, or give the entry another port (host:port)", s.Rank, everywhere(s.All), s.who())
	}
	told, ok := errors.AsType[*strangerError](err)
	lives = s != nil || ok && told.other || errors.Is(err, usage.Err)
	return lives, usage.Codedf(code, "listen on %s for rank %d: the port is in use: %s", p.own.cfg.Bind, p.own.rank, holder)
}

// tellTwin lets the holder of this rank's list entry know that a second node was
// given its index, and returns what the holder says to that, or nil.
func (p *prober) tellTwin(ctx context.Context) *Verdict {
	conn, err := p.own.cfg.Dial(ctx, "tcp", p.own.at(p.own.rank).String())
	if err != nil {
		return nil // nobody is there, or not any more
	}
	defer func() { _ = conn.Close() }()
	_, f, err := p.ask(ctx, conn, TypeHello, p.own.rank, p.own.rank, p.own.hello())
	if err != nil || f.Type != TypeReject {
		return nil
	}
	r, err := oob.Decode[rejection](f)
	if err != nil || r.Retry || r.Itself {
		return nil
	}
	return &r.Verdict
}
