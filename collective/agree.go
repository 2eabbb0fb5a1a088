package collective

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"

	"ringcli/collective/topology"
	"ringcli/configs/usage"
	"ringcli/ring"
	"ringcli/trace"
	"ringcli/verbs/cpu"
)

// This file is what the ranks of a Comm tell each other over the control ring, once: what
// each of them can, before the first operation, and the edges of each algorithm,
// before its first.

// capabilities is what a rank says of itself.
type capabilities struct {
	Size  int    `json:"size"`            // of its ring
	Nonce uint32 `json:"nonce,omitempty"` // of rank 0
	Table *Table `json:"table,omitempty"` // of rank 0
	// Software: one of its edges is on a device in software.
	Software  bool   `json:"software,omitempty"`
	Rails     bool   `json:"rails,omitempty"`      // its channels are on several devices
	LinkMbps  int    `json:"link_mbps,omitempty"`  // of its slower port; 0: not known
	NotShared string `json:"not_shared,omitempty"` // why it cannot share memory with all others
	Allowed   string `json:"allowed,omitempty"`    // CPUs that it may run on, as in 0-3,8; "": not known
	Host      string `json:"host"`                 // the same of ranks that share one
	Hosts     string `json:"hosts,omitempty"`      // of rank 0: the setting hosts
}

// Agree has all ranks learn what each of them can, and take over the table of rank
// 0. It is collective. The first operation does it where nobody has: until then
// Plan goes by the own table. A rank that does not come is named.
func (c *Comm) Agree(ctx context.Context) error {
	if err := c.enter(ctx, nil); err != nil {
		return fmt.Errorf("agree: %w", err)
	}
	defer c.leave()
	if err := c.agree(ctx); err != nil {
		return c.fail(err)
	}
	return nil
}

// agree needs the lock.
func (c *Comm) agree(ctx context.Context) error {
	if c.agreed {
		return nil
	}
	mine := capabilities{Size: c.size, Software: c.software(), Rails: c.rails(), LinkMbps: c.linkMbps(), NotShared: c.notShared(), Host: c.ring.HostName()}
	if cpus, err := cpu.Allowed(); err == nil {
		mine.Allowed = cpu.FormatList(cpus)
	}
	if c.rank == 0 {
		mine.Table, mine.Nonce, mine.Hosts = c.table.Load(), rand.Uint32(), c.ring.Options().Hosts
	}
	ctx, cancel := context.WithTimeout(ctx, c.ring.Timeout())
	defer cancel()
	all, err := gather(ctx, c, ring.Purpose{What: "agreement", Do: ring.BeReady}, mine)
	if err != nil {
		return fmt.Errorf("agree: %w", err)
	}
	found := *c.agreement.Load()
	found.NotShared = ""
	found.Software, found.Reached = false, true
	for rank, theirs := range all {
		if theirs.Size != c.size {
			return usage.Errorf("agree: rank %d is in a ring of %d: expected %d", rank, theirs.Size, c.size)
		}
		found.Software = found.Software || theirs.Software
		found.Rails = found.Rails || theirs.Rails
		found.LinkMbps = slower(found.LinkMbps, theirs.LinkMbps)
		if theirs.NotShared != "" && found.NotShared == "" {
			found.NotShared = fmt.Sprintf("rank %d: %s", rank, theirs.NotShared)
		}
		if rank > 0 {
			continue
		}
		if theirs.Table == nil {
			return usage.Errorf("agree: rank 0 sends no table")
		}
		if err := theirs.Table.Validate(); err != nil {
			return fmt.Errorf("agree: rank 0: %w", err)
		}
		c.table.Store(theirs.Table)
		c.nonce = theirs.Nonce
	}
	if found.Hosts, err = hostsOf(all); err != nil {
		return fmt.Errorf("agree: %w", err)
	}
	turns := turnsOf(all)
	if found.Turns = turns; found.Hosts.Number() > 1 {
		found.Turns = 0 // between hosts what a message takes is another matter
	}
	if found.NotShared == "" {
		everybody := make([]int, c.size)
		for rank := range everybody {
			everybody[rank] = rank
		}
		if c.shared, found.NotShared, err = c.share(ctx, everybody, turns > 1, func() (*ring.Device, error) { return c.ring.Left().Device(), nil }); err != nil {
			return fmt.Errorf("agree: %w", err)
		}
	}
	if found.NotShared != "" {
		trace.Debug(trace.Collective, "the ranks do not share memory", slog.String("why", found.NotShared))
	}
	if found.Hosts.Number() > 1 && found.Hosts.Most() > 1 {
		if found.Within, err = c.shareWithin(ctx, found.Hosts.On(c.rank), all); err != nil {
			return fmt.Errorf("agree: %w", err)
		}
	}
	c.agreement.Store(&found)
	c.changed()
	c.agreed = true
	return nil
}

// hostsOf is where the ranks are: where they find themselves, or where rank 0 is told that they
// are.
func hostsOf(all []capabilities) (*topology.Hosts, error) {
	if by := all[0].Hosts; by != "" && by != ring.HostsAuto {
		return topology.Parse(by, len(all))
	}
	names := make([]string, len(all))
	for rank, theirs := range all {
		names[rank] = theirs.Host
	}
	return topology.Of(names), nil
}

// turnsOf is how many ranks take turns on a CPU if all share a host; 0 is not known. Ranks may be
// bound to CPUs of their own, as mpirun binds them: of any CPUs those ranks take turns that may
// run on no others.
func turnsOf(all []capabilities) (turns int) {
	ranks := map[string]int{} // by where they may run
	for _, theirs := range all {
		ranks[theirs.Allowed]++
	}
	sets := map[string][]int{}
	var union []int
	for list := range ranks {
		cpus, err := cpu.ParseList(list)
		if err != nil {
			return 0
		}
		sets[list] = cpus
		union = append(union, cpus...)
	}
	slices.Sort(union)
	union = slices.Compact(union)
	sets[cpu.FormatList(union)] = union
	for _, set := range sets {
		bound := 0
		for list, n := range ranks {
			if !slices.ContainsFunc(sets[list], func(one int) bool { return !slices.Contains(set, one) }) {
				bound += n
			}
		}
		turns = max(turns, (bound+len(set)-1)/len(set))
	}
	return turns
}

// gather has every rank say something, and returns what they said.
func gather[T any](ctx context.Context, c *Comm, purpose ring.Purpose, mine T) ([]T, error) {
	data, err := json.Marshal(mine)
	if err != nil {
		return nil, err
	}
	parts, err := c.ring.Gather(ctx, purpose, data)
	if err != nil {
		return nil, err
	}
	all := make([]T, len(parts))
	for rank, part := range parts {
		if err := json.Unmarshal(part, &all[rank]); err != nil {
			return nil, fmt.Errorf("what rank %d says makes no sense: %w", rank, err)
		}
	}
	return all, nil
}

// software tells whether an edge of this rank's is on a device in software.
func (c *Comm) software() bool {
	return slices.ContainsFunc([]*ring.Edge{c.ring.Left(), c.ring.Right()}, func(e *ring.Edge) bool {
		return e.Local.Capabilities.Software
	})
}

// rails tells whether the channels to a neighbour are on several devices.
func (c *Comm) rails() bool {
	return slices.ContainsFunc(c.every, func(ch *channel) bool { return ch.edge.Device().Rail > 0 })
}

// linkMbps is the rate of this rank's slower port.
func (c *Comm) linkMbps() int {
	return slower(c.ring.Left().Device().LinkMbps(), c.ring.Right().Device().LinkMbps())
}

// slower is the lower of two rates, of which one or both may be 0: not known, or no port's.
func slower(a, b int) int {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// roleIn returns this rank's part in a call between ranks that need not be
// neighbours. The first call of an algorithm makes its edges. It needs the lock,
// and no operation may run.
func (c *Comm) roleIn(ctx context.Context, k *Call) (*role, error) {
	g := c.agreement.Load()
	between := g.Between(k)
	mine := roleKey{k.Algorithm, k.Op, k.Root, k.Halved(c.size), between}
	if r := c.roles[mine]; r != nil {
		return r, nil
	}
	made := map[roleKey]*role{}
	set := map[int]bool{}
	for _, op := range AllOperations() {
		if op != k.Op && (k.Op.Apart() || op.Apart()) {
			continue
		}
		other := *k
		other.Op = op
		r := &role{}
		r.Between = between
		other.Script(&r.Script, c.rank, c.size, g.Hosts)
		r.Peers(set)
		made[roleKey{k.Algorithm, other.Op, k.Root, other.Halved(c.size), between}] = r
	}
	c.announced.Load().Announce(c.seq+1, k.Signature())
	// A rank that calls something else waits for the data of this operation, and finds its
	// number here: see Comm.lookAround.
	ctx, cancel := context.WithTimeout(ctx, c.ring.Timeout())
	defer cancel()
	peers := slices.Sorted(maps.Keys(set))
	edges, err := c.ring.Mesh(ctx, ring.Purpose{What: k.String(), Call: c.seq + 1}, peers)
	if err != nil {
		return nil, meshError{err}
	}
	c.waiter = c.ring.NewWaiter() // on the devices of these edges, too
	to := map[int]*channel{}
	for _, e := range edges {
		if to[e.Peer], err = c.meshChannel(e); err != nil {
			return nil, err
		}
	}
	for _, r := range made {
		r.connect(to)
	}
	maps.Copy(c.roles, made)
	c.changed()
	return c.roles[mine], nil
}

// meshSends is how many send requests may be outstanding on an edge of a mesh: a
// WRITE and a credit for each slot, with some room in the queue.
const meshSends = 2 * ring.MeshSlots

// meshChannel returns the channel of a mesh's edge, which algorithms share.
func (c *Comm) meshChannel(e *ring.Edge) (*channel, error) {
	if ch := c.channelAt(e.ID); ch != nil {
		return ch, nil
	}
	ch, err := c.newChannel(e, e.Local.SlotCount, meshSends)
	if err != nil {
		return nil, err
	}
	ch.stream.flights = make([]flight, e.Local.SlotCount)
	for len(c.channels) <= int(e.ID) {
		c.channels = append(c.channels, nil)
	}
	c.add(ch)
	return ch, nil
}

// connect finds the channels of a role's moves.
func (r *role) connect(to map[int]*channel) {
	for i := range r.Moves {
		ch := to[r.Moves[i].Peer] // nil where the peer is this rank
		r.at = append(r.at, ch)
		if ch != nil && !slices.Contains(r.used, ch) {
			r.used = append(r.used, ch)
		}
	}
}
