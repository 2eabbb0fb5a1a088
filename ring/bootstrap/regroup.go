package bootstrap

import (
	"net"
	"slices"

	"ringcli/ring/bootstrap/hosts"
	"ringcli/ring/bootstrap/oob"
)

// regroup deals with a caller of the same whole list whose ring goes on without other
// nodes than this one's, and reports whether it was one.
func (c *Control) regroup(conn net.Conn, f *oob.Frame, h hello) bool {
	own := c.group
	if h.Group.Whole != own.Whole || slices.Equal(h.Group.Without, own.Without) {
		return false
	}
	c.mu.Lock()
	sealed, failed := c.sealed, c.failure != nil || c.leaving
	c.mu.Unlock()
	theirs, here := hosts.Names(c.cfg.Whole, h.Group.Without), hosts.Names(c.cfg.Whole, own.Without)
	told := func(retry bool, group *Group, format string, args ...any) {
		c.reject(conn, f, rejection{Retry: retry, Group: group, Verdict: *c.verdict(KindRegrouped, -1, format, args...)})
	}
	node := c.cfg.List[c.rank]
	switch {
	case h.Group.Decision > own.Decision && c.cfg.Follows && (c.cfg.Token != nil || isOfThisHost(conn)):
		told(true, nil, "%s joins the ring without %s now: call again", node, theirs)
		c.takeUp(&h.Group)
	case h.Group.Decision < own.Decision:
		// Who was in a ring before learns that this one goes on; who is new may be awaited
		// the next time.
		told(h.After == 0, &own, "%s is in a ring, or waits for one, without %s", node, here)
	case sealed || failed:
		told(true, nil, "%s is in a ring without %s", node, here)
	default:
		c.disagree(conn, f, h, c.verdict(KindMismatch, f.Sender, "%s (%s) reconnects without %s, and %s without %s: give all nodes the same --without",
			conn.RemoteAddr(), h.identity, theirs, node, here))
	}
	return true
}

// takeUp ends a bring-up that the leader has decided otherwise about.
func (c *Control) takeUp(g *Group) {
	v := c.verdict(KindRegrouped, -1, "the leader goes on without %s", hosts.Names(c.cfg.Whole, g.Without))
	v.Group = g
	c.mu.Lock()
	first := !c.sealed && c.fail(v, nil)
	c.mu.Unlock()
	c.report(v, first)
}

// askLeader asks rank 0, whose ring this rank was in and waits for again, whether it goes
// on without others. Who is left out is called by nobody, and the neighbour that it calls
// may be dead.
func (c *Control) askLeader() {
	if !c.cfg.Follows || c.cfg.History.Last() == 0 || c.neighbour(right) == 0 {
		return
	}
	ctx, cancel := awake(c.life, probeTimeout)
	defer cancel()
	s, err := c.probe(ctx, 0, c.at(0), probe{Group: &c.group})
	if err == nil && s.Rank == 0 && s.Group != nil && s.Group.Supersedes(&c.group) {
		c.takeUp(s.Group)
	}
}

// isOfThisHost tells whether a caller may decide who is in the ring without having proved
// that it has the token: a user of this host may.
func isOfThisHost(conn net.Conn) bool {
	return oob.AddrPort(conn.RemoteAddr()).Addr().IsLoopback()
}
