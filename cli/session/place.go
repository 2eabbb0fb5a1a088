package session

import (
	"context"
	"slices"
	"sync"
	"time"

	"ringcli/ring"
	"ringcli/ring/bootstrap"
	"ringcli/ring/bootstrap/hosts"
	"ringcli/trace"
)

// Place is what a process remembers from one ring to the next. The holder of the ring's
// claim changes it.
type Place struct {
	History ring.History
	// Without are entries of the list that the ring goes on without; Decision counts what
	// the leader has decided about it.
	Without  []int
	Decision uint64
	// Diagnosing: the next ring is for commands that need no data path.
	Diagnosing bool
	// Led: this rank led the last ring.
	Led bool
	// Revive starts the ranks of this machine that have ended, or end before its end, but
	// for those that the ring goes on without; nil where that is nobody's business.
	Revive func(without []int) (end func(), err error)

	mu       sync.Mutex
	nodes    []string // guarded by mu, as injected: of the last ring, for completion, which may be asked while a command runs
	injected []string // what is done on purpose to the ring
}

// Nodes are the hosts of the last ring, for completion.
func (p *Place) Nodes() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.nodes
}

// joined remembers a ring.
func (p *Place) joined(s *Session) {
	p.Led = s.Leads
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nodes = nil
	for _, n := range s.Ring.Nodes() {
		p.nodes = append(p.nodes, n.Host)
	}
}

// Whole is the list that all nodes were given, and the place of each rank in it.
func (s *Session) Whole() (whole []hosts.Node, places []int, err error) {
	list, _, err := s.Identity()
	if err != nil {
		return nil, nil, err
	}
	if whole, err = hosts.Parse(list, s.Config.Int("tcp-port")); err != nil {
		return nil, nil, err
	}
	_, places = hosts.Remaining(whole, s.Place.Without)
	return whole, places, nil
}

// TakeBack has the next ring be of the whole list again. A leader's followers take that up.
func (s *Session) TakeBack() {
	p := s.Place
	if len(p.Without) > 0 && p.Led {
		p.Decision++
	}
	p.Without = nil
}

// Rejoin leaves the ring that there is, if any, which is over for a reason or nil, and
// joins the next one of the same list, without some entries. A leader has its followers
// do the same. patience is how long the other ranks may take to appear; 0 means --timeout.
func (s *Session) Rejoin(ctx context.Context, without []int, leads bool, over error, patience time.Duration) error {
	whole, _, err := s.Whole()
	if err != nil {
		return err
	}
	p := s.Place
	if leads {
		p.Decision++
	}
	group := &bootstrap.Group{Whole: hosts.Digest(whole), Without: without, Decision: p.Decision}
	if err := s.Leave(ctx, over, Order{Do: OrderAgain, Group: group}); err != nil && over == nil {
		trace.Warn(trace.Repl, "closing the last ring: "+err.Error())
	}
	if p.Revive != nil {
		end, err := p.Revive(without)
		if err != nil {
			return err
		}
		defer end()
	}
	p.Without = without
	return s.Join(ctx, patience)
}

// TakeUp has the next ring be the one that the leader has decided on, or the same if it is
// nil. It tells whether that goes on without this rank.
func (s *Session) TakeUp(g *bootstrap.Group) (leftOut bool) {
	if g == nil {
		return false
	}
	s.Place.Without, s.Place.Decision = g.Without, g.Decision
	return slices.Contains(g.Without, s.Config.Int("index"))
}
