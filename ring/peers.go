package ring

import (
	"fmt"

	"ringcli/ring/diagnose"
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

// Status asks the queue pairs of the edges how they are: those of the ring, then
// those of a mesh.
func (x *Ends) Status() ([]PeerStatus, error) {
	x.table.mu.Lock()
	defer x.table.mu.Unlock()
	if x.table.edges[Left] == nil || x.table.edges[Right] == nil {
		return nil, stepError("status", standing{State: x.table.state, err: x.table.err}, StateExchanged)
	}
	var out []PeerStatus
	for _, e := range x.table.queuePairs() {
		attr, _, known, err := watch.Query(e.QP)
		if err != nil {
			return nil, fmt.Errorf("query the %s queue pair: %w", e.ID.Name(), err)
		}
		out = append(out, PeerStatus{
			ID: e.ID, Side: e.Side, Rank: e.Peer, Node: x.of.nodes[e.Peer].String(), Local: e.Local, Remote: e.Remote.QPInfo, Why: e.why, Attr: attr, Traffic: known.Traffic,
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
