package bootstrap

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"ringcli/ring/bootstrap/kernel"
	"ringcli/ring/bootstrap/oob"
)

// attempts are what a rank has counted of the connections to its neighbours. The caller's
// beside the called one's tell which way connections are lost; neither does alone.
type attempts struct {
	Rank    int           `json:"rank"`
	Up      time.Duration `json:"up_ns"`             // it has listened for
	Reached bool          `json:"reached,omitempty"` // the right neighbour, by now
	Tried   int           `json:"tried,omitempty"`   // calls of the right neighbour
	At      string        `json:"at,omitempty"`      // the address to which its name leads at this rank
	Problem string        `json:"problem,omitempty"` // of the last call, "" if nothing came back
	Came    int           `json:"came,omitempty"`    // connections from the left neighbour's host
	Half    bool          `json:"half,omitempty"`    // some of those were never completed: answers do not get back
}

// sureAfter is how long a rank must have listened before calls without an answer say
// anything: the call that was under way when it began, a pause and the next.
const sureAfter = dialTimeout + dialPauseMax + 500*time.Millisecond

// attempts needs the lock.
func (c *Control) attempts() attempts {
	a := attempts{Rank: c.rank, Up: time.Since(c.opened), Reached: c.connections[right] != nil, Tried: c.tried, Came: c.came, Half: c.half}
	if !c.unanswered {
		a.Problem = c.problem
	}
	if at, host := c.at(c.neighbour(right)).Addr(), c.cfg.List[c.neighbour(right)].Host; at.IsValid() && at.String() != host {
		a.At = at.String()
	}
	return a
}

// known is what this rank knows of attempts: its own, and the neighbours' as their signs
// of life have said last. It needs the lock.
func (c *Control) known() []attempts {
	all := []attempts{c.attempts()}
	for _, l := range c.connections {
		if l != nil && l.counted != nil {
			all = append(all, *l.counted)
		}
	}
	return all
}

// noteProblem keeps why the right neighbour was not reached. It needs the lock.
func (c *Control) noteProblem(err error) {
	timeout, ok := errors.AsType[net.Error](err)
	c.tried++
	c.problem, c.unanswered = brief(err.Error()), ok && timeout.Timeout()
	if e, ok := errors.AsType[*strangerError](err); ok {
		c.intruder, c.untrusted = e.text, false
	}
	if e, ok := errors.AsType[*oob.TokenError](err); ok {
		c.intruder, c.untrusted = brief(e.Text), true
	}
}

// cut is a pair of neighbours of which one does not get through to the other.
type cut struct {
	from, to int       // who calls whom
	lost     Direction // what does not arrive
	text     string
}

// cuts finds, from what the ranks have counted, whose connections do not arrive, and why.
func (c *Control) cuts(counted []attempts) (found []cut) {
	of := make(map[int]attempts)
	for _, a := range counted {
		if old, ok := of[a.Rank]; !ok || a.Up > old.Up {
			of[a.Rank] = a
		}
	}
	for from := range c.size {
		to := (from + 1) % c.size
		a, calls := of[from]
		b, hears := of[to]
		silent := calls && !a.Reached && a.Tried > 0 && a.Problem == ""
		back := c.size == 2 && calls && a.Half // calls from there arrive, answers to them are lost as the own calls are
		calling, answering := Direction{From: from, To: to}, Direction{From: to, To: from}
		told := func(lost Direction, format string, args ...any) {
			found = append(found, cut{from, to, lost, fmt.Sprintf(format, args...)})
		}
		port, other := c.cfg.List[to].Port, ""
		if a.At != "" {
			other = fmt.Sprintf("; or %s, to which its name leads at rank %d, is another host's", a.At, from)
		}
		switch {
		case hears && b.Half && !a.Reached:
			told(answering, "the connections of %s arrive at %s, whose answers do not get back: the route or a firewall from rank %d to rank %d", c.name(from), c.name(to), to, from)
		case calls && hears && !a.Reached && a.Problem != "" && b.Up > sureAfter:
			told(calling, "%s does not reach %s, which listens: %s", c.name(from), c.name(to), a.Problem)
		case silent && hears && b.Came == 0 && b.Up > sureAfter && c.size == 2 && b.Reached:
			told(calling, "the connections of %s to %s do not arrive: %s, none came, while those the other way do: a firewall at rank %d, at rank %d or between drops TCP port %d%s",
				c.name(from), c.name(to), tries(a.Tried), to, from, port, other)
		case silent && hears && b.Came == 0 && b.Up > sureAfter:
			told(calling, "the connections of %s to %s do not arrive: %s, none came: a firewall at rank %d, at rank %d or between drops TCP port %d, or the route from rank %d leads elsewhere%s",
				c.name(from), c.name(to), tries(a.Tried), to, from, port, from, other)
		case silent && !hears && !back && a.Up > sureAfter:
			told(Direction{From: from, To: to, Both: true}, "%s does not answer %s: %s: host down, the network, or a firewall for TCP port %d; which way it is cut cannot be told from here%s", c.name(to), c.name(from), tries(a.Tried), port, other)
		}
	}
	return found
}

func tries(n int) string {
	if n == 1 {
		return "1 attempt"
	}
	return fmt.Sprintf("%d attempts", n)
}

// lookForHalfOpen finds out, while the ring comes up, whether the left neighbour's host has
// begun connections that it did not complete, as none does that gets the answers. It takes
// as long as the host has sockets: nobody waits for it, and it leaves the CPU to others.
func (c *Control) lookForHalfOpen() {
	for {
		c.mu.Lock()
		over, awaited := c.sealed, c.connections[left] == nil
		c.mu.Unlock()
		begun := time.Now()
		switch {
		case over:
			return
		case awaited:
			half := c.callsHere(c.neighbour(left))
			c.mu.Lock()
			c.half = half
			c.mu.Unlock()
		}
		select {
		case <-time.After(max(c.pace.beat, 20*time.Since(begun))):
		case <-c.life.Done():
			return
		}
	}
}

// callsHere tells whether a rank's host has begun connections to this one that it did not
// complete: they arrive, and the answers do not.
func (c *Control) callsHere(rank int) bool {
	from := c.at(rank).Addr().Unmap()
	return slices.ContainsFunc(kernel.Sockets(kernel.SynRecv, c.cfg.Bind.Port()), func(s kernel.Socket) bool { return s.Remote.Addr() == from })
}

// holder finds where whoever keeps this rank from its port can be asked who it is: at
// this rank's address, unless that is none of this node's or the holder has another.
func (c *Control) holder() netip.AddrPort {
	at := c.at(c.rank)
	for _, s := range kernel.Sockets(kernel.Listen, at.Port()) {
		switch {
		case s.Local.Addr().IsUnspecified() && at.Addr().Is4():
			return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), at.Port())
		case s.Local.Addr().IsUnspecified():
			return netip.AddrPortFrom(netip.IPv6Loopback(), at.Port())
		case c.cfg.Bind.Addr().IsUnspecified():
			at = s.Local
		}
	}
	return at
}

// listensOnAll tells whether this rank listens on all addresses of its node.
func (c *Control) listensOnAll() bool { return c.cfg.Bind.Addr().IsUnspecified() }

// everywhere says so, for messages.
func everywhere(all bool) string {
	if all {
		return ", on all addresses of its node"
	}
	return ""
}
