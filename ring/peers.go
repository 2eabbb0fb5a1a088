package ring

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"ringcli/configs/codes"
	"ringcli/verbs"
)

// PeerStatus is one edge as its queue pair holds it now.
type PeerStatus struct {
	Side   Side
	Rank   int
	Node   string
	Local  QPInfo
	Remote QPInfo // zero before Exchange
	Why    string // it is on that device
	Attr   verbs.QPAttr
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
	for _, e := range slices.Concat(r.edges[:], r.mesh.list) {
		attr, _, err := e.QP.Query()
		if err != nil {
			return nil, fmt.Errorf("query the %s queue pair: %w", e.Side, err)
		}
		out = append(out, PeerStatus{
			Side: e.Side, Rank: e.Peer, Node: r.nodes[e.Peer].String(), Local: e.Local, Remote: e.Remote.QPInfo, Why: e.why, Attr: attr,
		})
	}
	return out, nil
}

// doubt asks what may be wrong where nothing comes over the edge although TCP works.
func (e *Edge) doubt() string {
	if e.device.Attr.HostLocal {
		return "is its process stopped"
	}
	return fmt.Sprintf("is RoCE traffic (UDP port %d) filtered", e.Remote.UDPPort)
}

// CompletionError is a failed completion with the edge that it was on. It wraps
// *verbs.StatusError.
type CompletionError struct {
	Edge      EdgeID
	Peer      int
	Node      string
	QPN       uint32
	Status    verbs.Status
	Device    string // the edge's
	HostLocal bool   // so is that device
	Event     string // what the device reported before, "" if nothing
}

// What is the failure without an explanation.
func (e *CompletionError) What() string {
	return fmt.Sprintf("%s edge to rank %d (%s), queue pair 0x%06x: %v", e.Edge.Side(), e.Peer, e.Node, e.QPN, e.Status.Err())
}

func (e *CompletionError) Error() string {
	s := e.What()
	hint := hints[e.Status]
	if e.Status == verbs.RetryExceeded && e.HostLocal {
		hint = "the peer's process is gone, or its queue pair has failed"
	}
	if hint != "" {
		s += ": " + hint
	}
	if e.Event != "" {
		s += "; " + e.Event
	}
	return s
}

// FailureCode is that of its status.
func (e *CompletionError) FailureCode() codes.Code { return statusCode(e.Status) }

func (e *CompletionError) Unwrap() error { return e.Status.Err() }

// What the statuses mean in practice, and what to look at.
var hints = map[verbs.Status]string{
	verbs.RetryExceeded:        "the peer does not answer; is it gone, or is RoCE traffic (UDP port 4791) filtered or lost?",
	verbs.RNRRetryExceeded:     "the peer had no receive posted; is it stopped or overloaded?",
	verbs.RemoteAccessError:    "the peer refused the rkey, the address or the range",
	verbs.RemoteInvalidRequest: "the peer refused the request; do both ends run the same ringcli with the same MTU?",
	verbs.LocalProtectionError: "a local key or address is wrong",
	verbs.LocalLengthError:     "a message was longer than the receive buffer",
	verbs.FlushError:           "the queue pair failed before; the first error is elsewhere",
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
	case id < firstMesh:
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
	failed.Event = r.devices.events.text(time.Now(), func(device string) bool { return e == nil || e.device.Name == device })
	if e != nil {
		failed.Device, failed.HostLocal = e.device.Name, e.device.Attr.HostLocal
	}
	return failed
}
