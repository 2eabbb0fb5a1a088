package bootstrap

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"ringcli/ring/bootstrap/kernel"
	"ringcli/ring/bootstrap/oob"
	"ringcli/ring/bootstrap/verdict"
)

// identity tells two processes with one index apart.
type identity struct {
	Instance string      `json:"instance,omitempty"`
	Host     string      `json:"host"`
	PID      int         `json:"pid"`
	Process  *kernel.Key `json:"process,omitempty"` // for neighbours alone
	// Diagnosing is Config's.
	Diagnosing bool `json:"diagnosing,omitempty"`
}

func (i identity) String() string { return fmt.Sprintf("host %s, pid %d", i.Host, i.PID) }

// near tells whether two processes see each other in /proc.
func (i identity) near(other *identity) bool {
	return i.Process != nil && other.Process != nil && i.Process.Machine == other.Process.Machine
}

// look returns the state of a process of this machine. cpu is the time that the process had
// used at the last look, and is set to the time used now.
func (i identity) look(own *identity, cpu *uint64) verdict.Process {
	if !i.near(own) || i.PID == own.PID {
		return ""
	}
	s, ok := kernel.Read(i.PID)
	if !ok {
		return "" // it is gone, or hidden: a call tells
	}
	before := *cpu
	*cpu = s.CPU
	switch {
	case i.Process.IsGone(s):
		return verdict.ProcessDead
	case s.IsStopped():
		return verdict.ProcessStopped
	case before != 0 && s.CPU > before, kernel.Runnable(i.PID):
		return verdict.ProcessRunning
	}
	return ""
}

// node is the place of this rank in its ring. Only the addresses change.
type node struct {
	cfg    Config
	pace   pace
	rank   int
	size   int
	digest string // of the list
	group  Group
	self   identity
	addrs  atomic.Pointer[[]netip.AddrPort] // of the list; what it points to does not change
}

// at is a rank's address.
func (n *node) at(rank int) netip.AddrPort { return (*n.addrs.Load())[rank] }

// setAddrs sets the addresses of the list.
func (n *node) setAddrs(addrs []netip.AddrPort) {
	addrs = slices.Clone(addrs)
	n.addrs.Store(&addrs)
}

// name says which rank is meant, for messages.
func (n *node) name(rank int) string {
	if rank < 0 || rank >= n.size {
		return fmt.Sprintf("rank %d", rank)
	}
	return fmt.Sprintf("rank %d (%s)", rank, n.cfg.List[rank].Called(n.cfg.Names))
}

// verdict makes a verdict that this rank finds, and has seen.
func (n *node) verdict(kind Kind, rank int, format string, args ...any) *Verdict {
	return &Verdict{Kind: kind, Rank: rank, Confidence: Certain, By: n.rank, Text: fmt.Sprintf(format, args...)}
}

// suspected makes a verdict that is not certain.
func (n *node) suspected(kind Kind, rank int, format string, args ...any) *Verdict {
	v := n.verdict(kind, rank, format, args...)
	v.Confidence = Suspect
	return v
}

// gone is the verdict on a neighbour that said goodbye.
func (n *node) gone(peer int) *Verdict {
	return n.verdict(KindLeft, peer, "%s has left the ring: connect again without it, or start it again", n.name(peer))
}

func (n *node) neighbour(side int) int {
	if side == left {
		return (n.rank + n.size - 1) % n.size
	}
	return (n.rank + 1) % n.size
}

// isNeighbour tells whether a rank is another one beside this.
func (n *node) isNeighbour(rank int) bool {
	return rank != n.rank && (rank == n.neighbour(left) || rank == n.neighbour(right))
}

// edge returns the number of the edge at a side: its dialler's rank.
func (n *node) edge(side int) int {
	if side == left {
		return n.neighbour(left)
	}
	return n.rank
}

// hello is the first frame of this rank as a dialler.
func (n *node) hello() hello {
	h := hello{identity: n.self, Size: n.size, Digest: n.digest, Group: n.group, After: n.cfg.History.Last()}
	bytes := 0
	for _, entry := range n.cfg.List {
		h.List = append(h.List, entry.String())
		if bytes += len(`"",`) + len(entry.String()); bytes > maxHelloList {
			h.List = nil
			break
		}
	}
	return h
}

// listensOnAll tells whether this rank listens on all addresses of its node.
func (n *node) listensOnAll() bool { return n.cfg.Bind.Addr().IsUnspecified() }

// isExpected tells whether a caller's address is of the host that the list has
// for the left neighbour.
func (n *node) isExpected(caller net.Addr) bool {
	return sameHost(oob.AddrPort(caller).Addr(), n.at(n.neighbour(left)).Addr(), isOwn)
}

// isListed tells whether a caller's address is of a host that the list has.
func (n *node) isListed(caller net.Addr) bool {
	from, own := oob.AddrPort(caller).Addr(), ownAddrs()
	return slices.ContainsFunc(*n.addrs.Load(), func(a netip.AddrPort) bool { return sameHost(from, a.Addr(), own) })
}

// callsHere tells whether a rank's host has begun connections to this one that it did not
// complete: they arrive, and the answers do not.
func (n *node) callsHere(rank int) bool {
	from := n.at(rank).Addr().Unmap()
	return slices.ContainsFunc(kernel.Sockets(kernel.SynRecv, n.cfg.Bind.Port()), func(s kernel.Socket) bool { return s.Remote.Addr() == from })
}

// members are the processes of the ranks, as far as this rank knows them.
type members struct {
	own *node

	mu     sync.Mutex // guards byRank
	byRank map[int]identity
}

func (m *members) of(rank int) identity {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byRank[rank]
}

func (m *members) set(rank int, who identity) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.byRank[rank] = who
}

// learn adds what a neighbour knows of ranks that this one does not know.
func (m *members) learn(byRank []identity) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for rank, who := range byRank {
		if m.byRank[rank].PID == 0 && who.PID != 0 {
			m.byRank[rank] = who
		}
	}
}

// mostMembers is of how many ranks all others learn who they are. Infos go round one after the
// other: in a large ring they must not grow with it, and neighbours know each other anyhow.
const mostMembers = 256

// known is what the others are told. What only neighbours ask for is left out.
func (m *members) known() []identity {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := make([]identity, min(m.own.size, mostMembers))
	for i := range known {
		known[i] = m.byRank[i]
		known[i].Instance = ""
		if i > 0 { // whom others may follow
			known[i].Process = nil
		}
	}
	return known
}

// beside tells whether no network lies between a rank's process and this one: one that does
// not hear the other is not cut off.
func (m *members) beside(rank int) bool {
	i, own := m.of(rank), &m.own.self
	return i.near(own) && i.PID != own.PID && i.Process.Network == own.Process.Network
}

// process tells whether the process of a rank is stopped, gone, or lives, as the host that
// both are on shows it.
func (m *members) process(rank int) (stopped, gone, lives bool, pid int) {
	other := m.of(rank)
	var cpu uint64
	p := other.look(&m.own.self, &cpu)
	stopped, gone = p == verdict.ProcessStopped, p == verdict.ProcessDead
	return stopped, gone, cpu > 0 && !stopped && !gone, other.PID // no process gets this far without
}

// changes wakes whoever waits for a part of the Control to change: await comes before the
// part is looked at, and notify after it has changed.
type changes struct {
	mu   sync.Mutex    // guards next
	next chan struct{} // closed and replaced by notify
}

func (c *changes) await() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.next
}

// until waits until holds returns true, and reports whether it does before ctx ends.
func (c *changes) until(ctx context.Context, holds func() bool) bool {
	for {
		changed := c.await()
		if holds() {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

func (c *changes) notify() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.next)
	c.next = make(chan struct{})
}

// lifetime is how long the goroutines of a Control run.
type lifetime struct {
	ctx     context.Context // ends with Close
	ring    context.Context // ends with ctx, or with the verdict
	fail    context.CancelCauseFunc
	cancel  context.CancelCauseFunc
	mu      sync.Mutex     // orders starting goroutines and the end
	running sync.WaitGroup // of those that start has started
}

func newLifetime(parent context.Context) *lifetime {
	l := &lifetime{}
	l.ctx, l.cancel = context.WithCancelCause(parent)
	l.ring, l.fail = context.WithCancelCause(l.ctx)
	return l
}

// start runs f on a goroutine that Close waits for, unless the end has come.
func (l *lifetime) start(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over() {
		l.running.Go(f)
	}
}

func (l *lifetime) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancel(ErrClosed)
}

func (l *lifetime) over() bool { return l.ctx.Err() != nil }
