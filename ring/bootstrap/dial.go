package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"ringcli/ring/bootstrap/hosts"
	"ringcli/ring/bootstrap/oob"
	"ringcli/trace"
)

// dial keeps the right connection up until it is used: the neighbour may start late,
// and may be restarted.
func (c *Control) dial() {
	pause, resolved := dialPauseMin, time.Now()
	for {
		c.mu.Lock()
		l, changed, over := c.connections[right], c.changed, c.sealed || c.leaving || c.failure != nil
		c.mu.Unlock()
		if over {
			return
		}
		if l != nil {
			pause = dialPauseMin
			select {
			case <-changed:
			case <-c.life.Done():
				return
			}
			continue
		}
		if err := c.call(); err != nil {
			c.mu.Lock()
			c.noteProblem(err)
			c.mu.Unlock()
			if now := time.Now(); now.Sub(resolved) > resolvePause {
				c.resolveAgain(c.neighbour(right))
				resolved = now
			}
			c.askLeader()
			select {
			case <-time.After(pause):
			case <-c.life.Done():
				return
			}
			pause = min(2*pause, dialPauseMax)
		}
	}
}

const (
	// resolvePause is how often the name of a neighbour that is not reached is looked up: name
	// servers give the records of pods for 5 s or longer.
	resolvePause = 2 * time.Second
	// resolveTimeout is how long that may take from the calls.
	resolveTimeout = time.Second
)

// resolveAgain looks for another address of a rank that is not reached: a pod that was started
// anew has one.
func (c *Control) resolveAgain(rank int) {
	host, before := c.cfg.List[rank].Host, c.at(rank)
	if _, err := netip.ParseAddr(host); err == nil {
		return
	}
	ctx, cancel := context.WithTimeout(c.life, resolveTimeout)
	defer cancel()
	found, err := hosts.Lookup(ctx, host)
	if err != nil || slices.Contains(found, before.Addr()) {
		return // no news; the next try asks again
	}
	trace.Warn(trace.Bootstrap, fmt.Sprintf("%s has the address %s now; at %s, its address before, it was not reached", c.name(rank), found[0], before.Addr()))
	addrs := c.Addrs()
	for i, n := range c.cfg.List {
		if n.Host == host {
			addrs[i] = netip.AddrPortFrom(found[0], uint16(n.Port))
		}
	}
	c.SetAddrs(addrs)
}

// call dials the right neighbour once and says hello.
func (c *Control) call() error {
	peer := c.neighbour(right)
	conn, err := c.cfg.Dial(c.life, "tcp", c.at(peer).String())
	if err != nil {
		return err
	}
	raw := conn
	conn, f, err := c.ask(c.life, conn, TypeHello, peer, c.rank, c.hello())
	if err != nil {
		_ = raw.Close()
		// Where this rank has a token, that is said by who has not shown one: anybody.
		if trouble, ok := errors.AsType[*oob.TokenError](err); ok && c.cfg.Token == nil {
			v := c.verdict(KindMismatch, peer, "%v", err).Coded(trouble.FailureCode())
			c.Fail(v)
			return v
		}
		return err
	}
	switch f.Type {
	case TypeWelcome:
		who, err := oob.Decode[identity](f)
		c.mu.Lock()
		defer c.mu.Unlock()
		if err != nil || c.closed {
			_ = conn.Close()
			return err
		}
		c.addConnection(right, conn, who)
		return nil
	case TypeReject:
		_ = conn.Close()
		r, err := oob.Decode[rejection](f)
		if err != nil {
			return err
		}
		if r.Retry {
			return errors.New(r.Text)
		}
		v := r.Verdict
		v.Group = r.Group
		if r.Itself {
			// This node was given the index of another, or nearly so: if the
			// other is there, both are to know.
			if twin := c.tellTwin(c.life); twin != nil {
				v = *twin
			}
		}
		v.Told = v.By != c.rank
		c.Fail(&v)
		return &v
	default:
		_ = conn.Close()
		return fmt.Errorf("%s answered hello with a %q frame", c.name(peer), f.Type)
	}
}
