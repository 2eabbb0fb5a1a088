package ring

import (
	"errors"
	"fmt"
	"time"

	"ringcli/ring/diagnose"
	"ringcli/ring/edges"
	"ringcli/ring/watch"
	"ringcli/verbs"
)

// PeerStatus is one queue pair of an edge as it is now.
type PeerStatus struct {
	ID     EdgeID
	Side   Side
	Rank   int
	Node   string
	Local  QPInfo
	Remote QPInfo // zero before Exchange
	Why    string // it is on that device
	Attr   verbs.QPAttr
	diagnose.Traffic
}

// Peers asks the queue pairs of the edges how they are: those of the ring, then
// those of a mesh.
func (r *Ring) Peers() ([]PeerStatus, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.edges[Left] == nil || r.edges[Right] == nil {
		return nil, stepError("status", standing{State: r.state, err: r.err}, StateExchanged)
	}
	var out []PeerStatus
	for _, e := range r.queuePairs() {
		attr, _, known, err := watch.Query(e.QP)
		if err != nil {
			return nil, fmt.Errorf("query the %s queue pair: %w", e.ID.Name(), err)
		}
		out = append(out, PeerStatus{
			ID: e.ID, Side: e.Side, Rank: e.Peer, Node: r.nodes[e.Peer].String(), Local: e.Local, Remote: e.Remote.QPInfo, Why: e.why, Attr: attr, Traffic: known.Traffic,
		})
	}
	return out, nil
}

// silent says that nothing comes over the edge although TCP works.
func (e *Edge) silent() string {
	if e.device.Attr.HostLocal {
		return "TCP reaches it, its queue pair does not answer"
	}
	return fmt.Sprintf("TCP reaches it, RoCE (UDP port %d) brings nothing", e.Remote.UDPPort)
}

// CompletionError explains a completion whose status is not success. If the ring
// has failed already and the work request was only flushed, that is the reason.
func (r *Ring) CompletionError(wc *verbs.Completion) error {
	if wc.Status == verbs.FlushError {
		if err := r.Err(); err != nil {
			return err
		}
	}
	id, _, _ := ParseWRID(wc.ID)
	var peer int
	e := r.Edge(id)
	switch {
	case !id.IsMesh():
		peer = r.neighbour(id.Side())
	case e != nil:
		peer = e.Peer
	default:
		return errors.Join(fmt.Errorf("completion of an unknown work request %#x", wc.ID), wc.Status.Err())
	}
	if wc.Status == verbs.FlushError {
		if failed := r.failedQueuePair(false); failed != nil {
			return failed
		}
	}
	failed := &CompletionError{Edge: id, Peer: peer, Node: r.nodes[peer].String(), QPN: wc.QPN, Status: wc.Status}
	failed.Event = r.devices.events.Text(time.Now(), func(device string) bool { return e == nil || e.device.Name == device })
	if e != nil {
		failed.Device, failed.HostLocal = e.device.Name, e.device.Attr.HostLocal
	}
	return failed
}

// What is wrong with an edge, or its device.
type (
	CompletionError = edges.CompletionError
	QueuePairError  = edges.QueuePairError
	DeviceError     = edges.DeviceError
	StallError      = edges.StallError
	CorruptionError = edges.CorruptionError
)
