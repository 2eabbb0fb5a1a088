package bootstrap

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
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

// tally counts the attempts to connect, while the ring comes up.
type tally struct {
	own        *node
	neighbours *neighbours
	opened     time.Time

	mu          sync.Mutex // guards the following
	tried, came int        // calls of the right neighbour; connections from the left one's host
	problem     string     // why the right neighbour was not reached last time
	unanswered  bool       // so: nothing came back
	half        bool       // calls of the left neighbour are not completed
	intruder    string     // what a foreign program at the right neighbour's address said or did
	untrusted   bool       // so, of a token
}

// counted is what this rank has counted.
func (t *tally) counted() attempts {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := attempts{Rank: t.own.rank, Up: time.Since(t.opened), Reached: t.neighbours.at(right) != nil, Tried: t.tried, Came: t.came, Half: t.half}
	if !t.unanswered {
		a.Problem = t.problem
	}
	if at, host := t.own.at(t.own.neighbour(right)).Addr(), t.own.cfg.List[t.own.neighbour(right)].Host; at.IsValid() && at.String() != host {
		a.At = at.String()
	}
	return a
}

// known is what this rank knows of attempts: its own, and the neighbours' as their signs
// of life have said last.
func (t *tally) known() []attempts {
	all := []attempts{t.counted()}
	for _, l := range t.neighbours.all() {
		if counted := l.state().counted; counted != nil {
			all = append(all, *counted)
		}
	}
	return all
}

// noteCaller counts a connection from the left neighbour's host.
func (t *tally) noteCaller() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.came++
}

// noteProblem keeps why the right neighbour was not reached.
func (t *tally) noteProblem(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	timeout, ok := errors.AsType[net.Error](err)
	t.tried++
	t.problem, t.unanswered = brief(err.Error()), ok && timeout.Timeout()
	if e, ok := errors.AsType[*strangerError](err); ok {
		t.intruder, t.untrusted = e.text, false
	}
	if e, ok := errors.AsType[*oob.TokenError](err); ok {
		t.intruder, t.untrusted = brief(e.Text), true
	}
}

// remarks are about the right neighbour, to which there is no connection.
func (t *tally) remarks(e *TimeoutError) (remarks []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(e.Peers, func(p PeerReport) bool { return p.Rank == t.own.neighbour(right) })
	if i < 0 {
		return nil
	}
	p := e.Peers[i]
	e.untrusted = t.untrusted
	switch {
	case p.Up && t.problem != "":
		return []string{"last attempt to reach " + t.own.name(p.Rank) + ": " + t.problem}
	case !p.Up && t.intruder != "" && t.intruder != p.State:
		// A stranger that serves one caller, and went.
		return []string{"who answered there before: " + t.intruder}
	}
	return nil
}

// cut is a pair of neighbours of which one does not get through to the other.
type cut struct {
	from, to int       // who calls whom
	lost     Direction // what does not arrive
	text     string
}

// cuts finds, from what the ranks have counted, whose connections do not arrive, and why.
func (n *node) cuts(counted []attempts) (found []cut) {
	of := make(map[int]attempts)
	for _, a := range counted {
		if old, ok := of[a.Rank]; !ok || a.Up > old.Up {
			of[a.Rank] = a
		}
	}
	for from := range n.size {
		to := (from + 1) % n.size
		a, calls := of[from]
		b, hears := of[to]
		silent := calls && !a.Reached && a.Tried > 0 && a.Problem == ""
		back := n.size == 2 && calls && a.Half // calls from there arrive, answers to them are lost as the own calls are
		calling, answering := Direction{From: from, To: to}, Direction{From: to, To: from}
		told := func(lost Direction, format string, args ...any) {
			found = append(found, cut{from, to, lost, fmt.Sprintf(format, args...)})
		}
		port, other := n.cfg.List[to].Port, ""
		if a.At != "" {
			other = fmt.Sprintf("; or %s, to which its name leads at rank %d, is another host's", a.At, from)
		}
		switch {
		case hears && b.Half && !a.Reached:
			told(answering, "the connections of %s arrive at %s, whose answers do not get back: the route or a firewall from rank %d to rank %d", n.name(from), n.name(to), to, from)
		case calls && hears && !a.Reached && a.Problem != "" && b.Up > sureAfter:
			told(calling, "%s does not reach %s, which listens: %s", n.name(from), n.name(to), a.Problem)
		case silent && hears && b.Came == 0 && b.Up > sureAfter && n.size == 2 && b.Reached:
			told(calling, "the connections of %s to %s do not arrive: %s, none came, while those the other way do: a firewall at rank %d, at rank %d or between drops TCP port %d%s",
				n.name(from), n.name(to), tries(a.Tried), to, from, port, other)
		case silent && hears && b.Came == 0 && b.Up > sureAfter:
			told(calling, "the connections of %s to %s do not arrive: %s, none came: a firewall at rank %d, at rank %d or between drops TCP port %d, or the route from rank %d leads elsewhere%s",
				n.name(from), n.name(to), tries(a.Tried), to, from, port, from, other)
		case silent && !hears && !back && a.Up > sureAfter:
			told(Direction{From: from, To: to, Both: true}, "%s does not answer %s: %s: host down, the network, or a firewall for TCP port %d; which way it is cut cannot be told from here%s", n.name(to), n.name(from), tries(a.Tried), port, other)
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
func (t *tally) lookForHalfOpen(o *outcome) {
	for {
		begun := time.Now()
		switch {
		case o.phase().sealed:
			return
		case t.neighbours.at(left) == nil:
			half := t.own.callsHere(t.own.neighbour(left))
			t.mu.Lock()
			t.half = half
			t.mu.Unlock()
		}
		select {
		case <-time.After(max(t.own.pace.beat, 20*time.Since(begun))):
		case <-o.life.ctx.Done():
			return
		}
	}
}

// holder finds where whoever keeps this rank from its port can be asked who it is: at
// this rank's address, unless that is none of this node's or the holder has another.
func (n *node) holder() netip.AddrPort {
	at := n.at(n.rank)
	for _, s := range kernel.Sockets(kernel.Listen, at.Port()) {
		switch {
		case s.Local.Addr().IsUnspecified() && at.Addr().Is4():
			return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), at.Port())
		case s.Local.Addr().IsUnspecified():
			return netip.AddrPortFrom(netip.IPv6Loopback(), at.Port())
		case n.cfg.Bind.Addr().IsUnspecified():
			at = s.Local
		}
	}
	return at
}

// everywhere says so, for messages.
func everywhere(all bool) string {
	if all {
		return ", on all addresses of its node"
	}
	return ""
}
