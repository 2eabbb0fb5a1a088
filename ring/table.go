package ring

import (
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ringcli/ring/watch"
	"ringcli/trace"
	"ringcli/verbs"
)

// edgeTable is the edges of a rank, how far the ring has come, and why it has failed. Its lock
// guards the queue pairs' life, too.
type edgeTable struct {
	of     *membership   // never changed
	events *watch.Events // of the devices; guards itself

	failed atomic.Bool // err is set

	mu        sync.Mutex // guards the following
	state     State      // StateNew, StateOpened, StateFailed or StateClosed: the queue pairs say the rest
	err       error      // why the ring has failed
	stepped   signal     // a queue pair has moved on
	exchanged bool       // since Init
	unclean   error      // what a failed ping left behind keeps operations from running

	// Changed with the token and mu: whoever has either may look.
	chosen [2]edgeDevice // the devices to the neighbours
	edges  [2]*Edge      // to the neighbours
	mesh   meshEdges     // beside those
}

// change changes what needs mu; what it changes is seen by others whole.
func (t *edgeTable) change(to func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	to()
}

// failure is why the ring has failed: the first reason, or nil.
func (t *edgeTable) failure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// edge returns an edge, or nil. It needs the token or mu.
func (t *edgeTable) edge(id EdgeID) *Edge {
	var e *Edge
	switch first := id.First(); {
	case id < 0:
	case first < firstMesh:
		e = t.edges[first]
	case int(first-firstMesh) < len(t.mesh.list):
		e = t.mesh.list[first-firstMesh]
	}
	if channel := id.Channel(); e != nil && channel > 0 {
		if channel > len(e.beside) {
			return nil
		}
		return e.beside[channel-1]
	}
	return e
}

// edgeTo returns the edge to the rank that asks, whose question came in at a side: with two
// ranks there are two to the neighbour. It needs mu.
func (t *edgeTable) edgeTo(asker farEnd, side Side) *Edge {
	if e := t.edge(side.Edge().On(asker.Channel)); e != nil && e.Peer == asker.To {
		return e
	}
	return t.mesh.to(asker.To)
}

// queuePairs returns those of all edges that there are, channels of an edge one after the
// other. It needs the token or mu.
func (t *edgeTable) queuePairs() (list []*Edge) {
	for _, e := range slices.Concat(t.edges[:], t.mesh.list) {
		if e != nil {
			list = append(list, e.Channels()...)
		}
	}
	return list
}

// fail fails the ring on this rank alone. The first reason counts.
func (t *edgeTable) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil || t.state == StateClosed {
		return
	}
	t.err, t.state = err, StateFailed
	t.failed.Store(true)
	for _, e := range t.queuePairs() {
		if e.QP == nil {
			continue
		}
		if err := e.QP.Modify(verbs.QPAttr{State: verbs.StateErr}, verbs.AttrState); err != nil {
			trace.Debug(trace.Ring, "queue pair to ERR", slog.String("edge", e.String()), slog.Int("channel", e.ID.Channel()), slog.String("error", err.Error()))
		}
	}
	trace.Debug(trace.Ring, "the ring failed", slog.String("why", err.Error()))
}

// failedQueuePair returns the queue pair that has failed by itself, nil if none has.
func (t *edgeTable) failedQueuePair(idle bool) *QueuePairError {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil || t.state != StateOpened {
		return nil
	}
	for _, e := range t.queuePairs() {
		attr, _, known, err := watch.Query(e.QP)
		if err != nil || attr.State != verbs.StateErr && attr.State != verbs.StateSQE || known.Killed {
			continue
		}
		failed := &QueuePairError{Rank: t.of.rank, Edge: e.ID, Peer: e.Peer, Node: t.of.nodes[e.Peer].String(), QPN: e.QP.Num(), State: attr.State, Idle: idle}
		failed.Event = t.events.Text(time.Now(), func(device string) bool { return device == e.device.Name })
		if !known.First.HasStatus(verbs.FlushError) {
			failed.First = known.First
		}
		return failed
	}
	return nil
}

// signal is a channel that is closed, and replaced, when something has changed.
type signal chan struct{}

func (s *signal) notify() {
	close(*s)
	*s = make(chan struct{})
}

// meshEdges are the edges beside the ring's two. They are changed with the token and the
// ring's mu: whoever has either may look.
type meshEdges struct {
	list []*Edge           // by ID from firstMesh on
	made map[Purpose]*mesh // guarded by the ring's mu
}

func (m *meshEdges) to(rank int) *Edge {
	for _, e := range m.list {
		if e.Peer == rank {
			return e
		}
	}
	return nil
}

// drop releases all mesh edges. It needs the token; mu is the ring's.
func (m *meshEdges) drop(mu *sync.Mutex) error {
	mu.Lock()
	edges := m.list
	m.list, m.made = nil, nil
	mu.Unlock()
	return closeAll(edges)
}

// mesh is what Mesh made for one purpose.
type mesh struct {
	peers []int
	edges []*Edge // in the order of peers
}

// farEnd says whose end is meant, and of the edge to whom.
type farEnd struct {
	Of int `json:"of"`
	To int `json:"to"`
	// Channel is that of an edge to a neighbour.
	Channel int `json:"channel,omitempty"`
}
