package ring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"ringcli/configs/usage"
	"ringcli/ring/bootstrap/calls"
	"ringcli/ring/locality"
	"ringcli/trace"
)

// meshRoom makes a mesh edge take 540 KiB. A Comm sends from as much again. Of what a device does
// not pin, only what is used becomes memory.
var meshRoom = room{MeshSlots, MeshSlotSize + SlotHeader, meshRecv, meshSend}

// Mesh returns edges to some ranks, in the order of peers. They are beside the
// ring's own two: a neighbour among them is reached over a second edge. Edges are
// made when they are needed first, over the control ring, and are shared by all
// purposes.
//
// It is collective: all ranks call it at the same place in their sequence of
// operations, outside Begin and End, with the same purpose, each with its own
// peers, which must name each other; a rank may have none. A purpose stands for one
// set of peers on each rank: the second call with it returns at once, everywhere
// and without a word to anybody, which is why all ranks must have made the first.
//
// An error names the purpose. Ranks that disagree, on the purpose or on peers, and
// a rank that cannot make its edges are named on all ranks; a rank that does not
// come within Options.Timeout is named with what it does. Without Options.ByHand
// any error fails the ring.
func (r *Ring) Mesh(ctx context.Context, purpose Purpose, peers []int) ([]*Edge, error) {
	r.table.mu.Lock()
	known, failure := r.table.mesh.made[purpose], r.table.err
	r.table.mu.Unlock()
	switch {
	case failure != nil:
		return nil, failure
	case known != nil && !slices.Equal(known.peers, peers):
		return nil, usage.Errorf("%s: rank %d names peers %v, and named %v before: a purpose stands for one set of peers", meshText(purpose), r.rank, peers, known.peers)
	case known != nil:
		return known.edges, nil
	}
	m := &meshCall{r: r, purpose: purpose, peers: peers}
	err := between(r, meshText(purpose), r.Usable).take(ctx, m.run)
	return m.edges, err
}

// MeshEdges returns the edges that Mesh made, by ID.
func (r *Ring) MeshEdges() []*Edge {
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	return slices.Clone(r.table.mesh.list)
}

// meshCall is a call of Mesh that has something to do.
type meshCall struct {
	r       *Ring
	purpose Purpose
	peers   []int
	edges   []*Edge // the result
	made    []*Edge // by this call
}

func meshText(p Purpose) string { return "connections for " + p.String() }

// meshReport is what a rank tells all others in a call of Mesh.
type meshReport struct {
	Problem  string                 `json:"problem,omitempty"` // why it cannot go on
	Usage    bool                   `json:"usage,omitempty"`   // the problem is one of usage
	Peers    []int                  `json:"peers,omitempty"`
	Has      []int                  `json:"has,omitempty"`      // peers that it has an edge to already
	Data     map[int]connectionData `json:"data,omitempty"`     // by peer
	Locality *locality.Locality     `json:"locality,omitempty"` // which device it would use
}

// run makes the edges that are missing somewhere. After each step all ranks hear how
// it went everywhere: they go on together, or end with the same error and without
// the edges.
func (m *meshCall) run(ctx context.Context, _ Token) (err error) {
	ctx, cancel := context.WithTimeout(ctx, m.r.Timeout())
	defer cancel()
	defer func() {
		if err != nil {
			m.edges = nil
			err = errors.Join(m.tabled(err), m.undo())
		}
	}()
	r := m.r
	own := r.opts.Locality()
	reports, err := m.share(ctx, "", meshReport{Peers: m.peers, Has: m.has(), Locality: &own}, m.check())
	if err != nil {
		return err
	}
	if err := m.compare(reports); err != nil {
		return err
	}
	if slices.ContainsFunc(reports, func(w meshReport) bool { return len(w.Has) < len(w.Peers) }) {
		if err := m.build(ctx, reports); err != nil {
			return err
		}
	}
	for _, peer := range m.peers {
		m.edges = append(m.edges, r.table.mesh.to(peer))
	}
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	if r.table.mesh.made == nil {
		r.table.mesh.made = make(map[Purpose]*mesh)
	}
	r.table.mesh.made[m.purpose] = &mesh{slices.Clone(m.peers), m.edges}
	trace.Debug(trace.Ring, "mesh", slog.String("purpose", m.purpose.What), slog.Any("peers", m.peers), slog.Int("edges_made", len(m.made)))
	return nil
}

// tabled is an error of ranks that make edges for different operations, as one that says
// what each of them calls.
func (m *meshCall) tabled(err error) error {
	if m.purpose.Call == 0 || !usage.Is(err) || m.r.Failed() {
		return err
	}
	table := m.r.stalls.Disagreement(m.purpose.Call, nil, "")
	if d, ok := errors.AsType[*DisagreementError](table); ok && !calls.Differ(d.Calls) {
		return err
	}
	return table
}

// build takes the steps of a bring-up for the edges that are missing here, if any.
// The last report is the barrier before the first may send.
func (m *meshCall) build(ctx context.Context, reports []meshReport) error {
	data, err := m.create(reports)
	reports, err = m.share(ctx, "queue pairs of ", meshReport{Data: data}, err)
	if err != nil {
		return err
	}
	for _, e := range m.made {
		if err = m.connect(e, reports[e.Peer]); err != nil {
			break
		}
	}
	if _, err = m.share(ctx, "readiness of ", meshReport{}, err); err != nil {
		return err
	}
	for _, e := range m.made {
		if err := e.toRTS(Values{}); err != nil {
			return m.at(e.Peer, err)
		}
	}
	return nil
}

// at says which edge an error is about.
func (m *meshCall) at(peer int, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("edge to %s: %w", m.r.NodeName(peer), err)
}

// share tells all ranks something and hears all. If a rank has a problem, all ranks return
// that of the first that has one.
func (m *meshCall) share(ctx context.Context, what string, own meshReport, problem error) ([]meshReport, error) {
	r := m.r
	if problem != nil {
		own = meshReport{Problem: problem.Error(), Usage: usage.Is(problem)}
	}
	data, err := json.Marshal(own)
	if err != nil {
		return nil, err
	}
	parts, err := r.control.boot.Gather(ctx, Purpose{What: what + meshText(m.purpose), Call: m.purpose.Call, Do: "make the " + meshText(m.purpose)}, data)
	if err != nil {
		return nil, errors.Join(problem, err)
	}
	reports := make([]meshReport, len(parts))
	for rank, part := range parts {
		if err := json.Unmarshal(part, &reports[rank]); err != nil {
			return nil, fmt.Errorf("what %s says makes no sense: %w", r.NodeName(rank), err)
		}
	}
	for rank, w := range reports {
		switch {
		case w.Problem == "":
		case rank == r.rank:
			return nil, fmt.Errorf("%s: %w", r.NodeName(rank), problem)
		case w.Usage:
			return nil, usage.Errorf("%s: %s", r.NodeName(rank), w.Problem)
		default:
			return nil, fmt.Errorf("%s: %s", r.NodeName(rank), w.Problem)
		}
	}
	return reports, nil
}

// check refuses peers that are none.
func (m *meshCall) check() error {
	r := m.r
	missing := 0
	for i, peer := range m.peers {
		switch {
		case peer < 0 || peer >= len(r.nodes):
			return usage.Errorf("peer %d: expected 0 to %d, the ranks of the ring", peer, len(r.nodes)-1)
		case peer == r.rank:
			return usage.Errorf("peer %d is this rank itself: expected others", peer)
		case slices.Contains(m.peers[:i], peer):
			return usage.Errorf("peer %d is named twice: expected each once", peer)
		case r.table.mesh.to(peer) == nil:
			missing++
		}
	}
	if has, most := len(r.table.mesh.list), MeshMost(len(r.nodes)); has+missing > most {
		return usage.Errorf("%d peers make %d edges beside the ring's: expected at most %d on a ring of %d ranks, for which the completion queue has room",
			len(m.peers), has+missing, most, len(r.nodes))
	}
	return nil
}

func (m *meshCall) has() (list []int) {
	for _, peer := range m.peers {
		if m.r.table.mesh.to(peer) != nil {
			list = append(list, peer)
		}
	}
	return list
}

// compare holds what all ranks said against each other. All come to the same end.
func (m *meshCall) compare(reports []meshReport) error {
	name := m.r.NodeName
	for rank, w := range reports {
		if slices.ContainsFunc(slices.Concat(w.Peers, w.Has), func(peer int) bool { return peer < 0 || peer >= len(reports) }) {
			return fmt.Errorf("%s names ranks outside the ring: do all ranks run the same ringcli?", name(rank))
		}
		for _, peer := range w.Peers {
			if !slices.Contains(reports[peer].Peers, rank) {
				return usage.Errorf("%s names %s as a peer, which names %v: expected peers that name each other", name(rank), name(peer), reports[peer].Peers)
			}
		}
		for _, peer := range w.Has {
			if !slices.Contains(reports[peer].Has, rank) {
				return fmt.Errorf("%s has an edge to %s from before a reset there: reset on all ranks", name(rank), name(peer))
			}
		}
	}
	return nil
}

// device returns the device for the edge to a peer, which both ends agree on, and
// why.
func (m *meshCall) device(own, peer *locality.Locality, rank int) (edgeDevice, error) {
	if own == nil || peer == nil {
		return edgeDevice{}, errors.New("its rank does not say which device it would use: do all ranks run the same version?")
	}
	c, err := locality.Choose(*own, *peer, bothNames(&m.r.membership, rank))
	if err != nil {
		return edgeDevice{}, err
	}
	return m.r.devices.chosen(c, rank)
}

// create makes the edges that are missing, to INIT, and returns what their peers
// must know. reports say where all ranks are.
func (m *meshCall) create(reports []meshReport) (map[int]connectionData, error) {
	r := m.r
	data := make(map[int]connectionData)
	for _, peer := range m.peers {
		if r.table.mesh.to(peer) != nil {
			continue
		}
		on, err := m.device(reports[r.rank].Locality, reports[peer].Locality, peer)
		if err != nil {
			return nil, m.at(peer, err)
		}
		e, err := newEdge(r.devices.owner, firstMesh+EdgeID(len(r.table.mesh.list)), peer, on, meshRoom)
		if err != nil {
			return nil, m.at(peer, err)
		}
		m.made = append(m.made, e)
		r.table.change(func() { r.table.mesh.list = append(r.table.mesh.list, e) })
		err = e.describe()
		if err == nil {
			err = e.toInit(Values{})
		}
		if err != nil {
			return nil, m.at(peer, err)
		}
		data[peer] = e.connectionData()
	}
	return data, nil
}

// connect takes an edge to RTR with what its peer said.
func (m *meshCall) connect(e *Edge, theirs meshReport) error {
	remote, ok := theirs.Data[m.r.rank]
	if !ok {
		return m.at(e.Peer, errors.New("its rank has no queue pair for it"))
	}
	m.r.table.change(func() { e.Remote = remote })
	return m.at(e.Peer, e.toRTR(Values{}))
}

func (m *meshCall) undo() error {
	if len(m.made) == 0 {
		return nil
	}
	r := m.r
	r.table.change(func() {
		r.table.mesh.list = r.table.mesh.list[:min(len(r.table.mesh.list), int(m.made[0].ID-firstMesh))]
	})
	return closeAll(m.made)
}
