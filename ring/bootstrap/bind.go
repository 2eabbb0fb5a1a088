package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"ringcli/configs/codes"
	"ringcli/configs/usage"
)

// bind listens. If the port is taken it asks who is there: a node that was given
// the same index is told, too.
func (c *Control) bind(ctx context.Context) (net.Listener, error) {
	address := c.cfg.Bind.String()
	ln, err := c.cfg.Listen(ctx, "tcp", address)
	if err == nil {
		return ln, nil
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, ctx.Err())
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		code := codes.Permission
		if errors.Is(err, syscall.EADDRNOTAVAIL) {
			code = codes.AddressForeign
		}
		return nil, usage.Codedf(code, "listen on %s for rank %d: %v: expected an address of this machine and a port that it may use", address, c.rank, err)
	}
	at := c.holder()
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	s, err := c.probe(ctx, c.rank, at, probe{})
	holder, code := "", codes.PortTaken
	switch {
	case err != nil:
		holder = fmt.Sprintf("another program holds it (%v): end it, or give the entry another port (host:port)", err)
	case s.Same && s.Rank == c.rank:
		holder = fmt.Sprintf("ringcli with index %d of the same list runs there (%s): end it, or give this node its own --index", s.Rank, s.who())
		_ = c.tellTwin(ctx) // the text above says it
		code = codes.List
	default:
		holder = fmt.Sprintf("rank %d of another ring listens there%s (%s): end it, or give the entry another port (host:port)", s.Rank, everywhere(s.All), s.who())
	}
	return nil, usage.Codedf(code, "listen on %s for rank %d: the port is in use: %s", address, c.rank, holder)
}

// tellTwin lets the holder of this rank's list entry know that a second node was
// given its index, and returns what the holder says to that, or nil.
func (c *Control) tellTwin(ctx context.Context) *Verdict {
	conn, err := c.cfg.Dial(ctx, "tcp", c.cfg.Addrs[c.rank].String())
	if err != nil {
		return nil // nobody is there, or not any more
	}
	defer func() { _ = conn.Close() }()
	_, f, err := c.ask(ctx, conn, TypeHello, c.rank, c.rank, c.hello())
	if err != nil || f.Type != TypeReject {
		return nil
	}
	r, err := decode[rejection](f)
	if err != nil || r.Retry || r.Itself {
		return nil
	}
	return &r.Verdict
}
