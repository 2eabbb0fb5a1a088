// Package exec runs calls that are prepared over the queue pairs of a ring: round the ring, or by a
// script over the edges of a mesh.
package exec

import (
	"context"
	"maps"
	"slices"
	"time"

	"ringcli/collective/buffer"
	"ringcli/collective/journal"
	"ringcli/collective/plan"
	"ringcli/collective/program"
	"ringcli/collective/script"
	"ringcli/collective/sharedmem"
	"ringcli/collective/watch"
	"ringcli/ring"
	"ringcli/trace"
	"ringcli/verbs"
)

const (
	// ringSends is how many send requests may be outstanding on an edge of the ring,
	// whose queues hold 256, of which a few are left to ring itself.
	ringSends = 240
	// meshSends is the same on an edge of a mesh: a WRITE and a credit for each slot, with some
	// room in the queue.
	meshSends = 2 * ring.MeshSlots
	// pollBatch completions at a time: more than one round of a pipeline makes.
	pollBatch = 64
)

// Executor runs one call at a time. It belongs to whoever holds the lock of the operations.
type Executor struct {
	*watch.Watch
	Live  Stats  // with the operation that runs
	Nonce uint32 // of this Comm, the same on all ranks once agreed

	buffers    *buffer.Pool
	corrupt    Corrupt
	rank, size int

	waiter      verbs.Waiter
	channels    []*channel // by the ID of their edges, whose first they are
	every       []*channel // those, and the others of their edges
	completions [pollBatch]verbs.Completion
	flow        flow
	pass        pass
	scriptRun   scriptRun
	roles       map[RoleKey]*Role // once their edges are there
	staging     *buffer.Buffer    // landings and partial results
	lost        []verbs.Losses    // by peer, as of the last Lateness
	noCarrier   time.Duration     // the same
}

// Corrupt injects faults: it is called with each segment that arrived, numbered from 0 in the order of
// arrival, before it is used, and may change the payload.
type Corrupt func(op plan.Operation, segment int, payload []byte)

// Job is a call with all that can be found out before it runs.
type Job struct {
	Call      plan.Call
	Signature sharedmem.Signature
	In, Out   buffer.Vector
	Barrier   plan.Call // round the ring, between the phases of a call that is Sync
	Role      *Role     // in another algorithm than the ring, eagerly

	// What goes with a role within the host: the vectors of the script, what comes before and
	// behind it, nil for nothing, and whether that has copied what the own send buffer holds to the
	// receive buffer.
	ScriptIn, ScriptOut buffer.Vector
	Before, Behind      Stage
	Copied              bool
}

// Stage is a part of a call that the ranks of a host do in its memory, in a step that began
// then, until end.
type Stage interface {
	Perform(ctx context.Context, begun trace.Stamp) (end trace.Stamp, err error)
}

// New makes an executor for a ring of several ranks, or of one, which only copies.
func New(w *watch.Watch, buffers *buffer.Pool, corrupt Corrupt) (*Executor, error) {
	r := w.Ring
	x := &Executor{Watch: w, buffers: buffers, corrupt: corrupt, rank: r.Rank(), size: r.Size(), roles: map[RoleKey]*Role{}}
	x.flow.x = x
	if x.size == 1 {
		return x, nil
	}
	x.waiter = r.Host().NewWaiter()
	for _, e := range []*ring.Edge{r.Left(), r.Right()} {
		x.channels = append(x.channels, nil)
		for _, e := range e.Channels() {
			ch, err := x.newChannel(e, Slots(r), ringSends)
			if err != nil {
				return nil, err
			}
			x.add(ch)
		}
	}
	x.pass.init(x)
	x.scriptRun.flow = &x.flow
	return x, nil
}

// Slots is how many slots the edges of a ring have, the same on all ranks: RTR compared them.
func Slots(r *ring.Ring) int { return min(r.Left().Local.SlotCount, plan.MaxSlots) }

// Run runs a job, and notes in a journal, if there is one, what it sends and receives. The
// token is released if it fails.
func (x *Executor) Run(ctx context.Context, j *Job, notes *journal.Journal) (err error) {
	x.flow.journal = notes
	switch {
	case x.size == 1:
		return x.alone(ctx, j)
	case j.Role != nil:
		return x.runScript(ctx, j)
	case j.Call.Sync:
		return x.runPhases(ctx, j)
	}
	return x.runPass(ctx, &j.Call, j.In, j.Out, j.Call.Op.Program())
}

// runPhases runs each phase of a call by itself, and a barrier between them.
func (x *Executor) runPhases(ctx context.Context, j *Job) error {
	k, barrier := &j.Call, &j.Barrier
	if err := x.runPass(ctx, k, j.In, j.Out, (*program.Program).ReduceScatter); err != nil {
		return err
	}
	if err := x.runPass(ctx, barrier, buffer.Vector{}, buffer.Vector{}, barrier.Op.Program()); err != nil {
		return err
	}
	return x.runPass(ctx, k, j.Out, j.Out, (*program.Program).AllGather)
}

func (x *Executor) runPass(ctx context.Context, k *plan.Call, in, out buffer.Vector, fill func(*program.Program)) error {
	p := &x.pass
	defer p.recordEnd()
	if err := p.start(ctx, k, in, out, fill); err != nil {
		return err
	}
	if copies(k, &in, &out) {
		// The own chunk sets out before it is copied to its place.
		if _, err := p.post(); err != nil {
			return err
		}
		x.copyOwn(k, &in, &out)
	}
	return p.run(ctx)
}

func (x *Executor) runScript(ctx context.Context, j *Job) (err error) {
	s := &x.scriptRun
	defer s.recordEnd()
	if err := s.start(ctx, j); err != nil {
		return err
	}
	if err := s.perform(j.Before); err != nil {
		return err
	}
	if copies(&j.Call, &j.In, &j.Out) && !j.Copied {
		// As in the ring, what needs nothing else sets out first.
		if _, err := s.post(); err != nil {
			return err
		}
		x.copyOwn(&j.Call, &j.In, &j.Out)
	}
	return s.run(ctx)
}

// alone is every operation on a ring of one. An average over one rank leaves
// the bits as they are.
func (x *Executor) alone(ctx context.Context, j *Job) error {
	begun := trace.Now()
	x.Seq++
	defer func() { RecordOperation(begun, trace.Now(), &j.Call, x.Seq) }()
	if err := x.Stopped(ctx); err != nil {
		return err
	}
	x.Live.Operations++
	if j.In.Base != j.Out.Base {
		x.copyOwn(&j.Call, &j.In, &j.Out)
	}
	return nil
}

// copies tells whether what the own send buffer holds is part of the result, as it
// is, and not there yet.
func copies(k *plan.Call, in, out *buffer.Vector) bool { return !k.Op.Reduces() && in.Base != out.Base }

// copyOwn copies what both of the own buffers hold.
func (x *Executor) copyOwn(k *plan.Call, in, out *buffer.Vector) {
	send, recv := k.Buffers(x.size, x.rank)
	size, lo := k.Type.Size(), max(send.Lo, recv.Lo)
	n := max(0, min(send.Hi, recv.Hi)-lo) * size
	copy(out.Bytes(lo, n, size), in.Bytes(lo, n, size))
	x.Live.CopiedOwn += uint64(n)
}

// Detached is how many WRITEs are under way that no operation waits for.
func (x *Executor) Detached() (n int) {
	for _, ch := range x.every {
		n += ch.detached
	}
	return n
}

// Staging is the bytes of landings and partial results.
func (x *Executor) Staging() int {
	if x.staging == nil {
		return 0
	}
	return x.staging.Len()
}

// Begun is when the operation that ran last began, 0 if nothing is recorded.
func (x *Executor) Begun() trace.Stamp { return x.flow.begun }

// channelAt returns the channel of an ID, or nil.
func (x *Executor) channelAt(id ring.EdgeID) *channel {
	if id < 0 || int(id.First()) >= len(x.channels) {
		return nil
	}
	ch := x.channels[id.First()]
	if n := id.Channel(); n > 0 && ch != nil {
		return ch.turns[n] // the ring knows no other
	}
	return ch
}

// add keeps a channel, at the place of its edge.
func (x *Executor) add(ch *channel) {
	first := &x.channels[ch.edge.ID.First()]
	if *first == nil {
		*first = ch
	}
	(*first).turns = append((*first).turns, ch)
	x.every = append(x.every, ch)
}

// Role returns this rank's part in a call between ranks that need not be
// neighbours. The first call of an algorithm makes its edges, and changed tells so. No operation may
// run. An error in making them is a [MeshError].
func (x *Executor) Role(ctx context.Context, k *plan.Call, g *plan.Agreement) (r *Role, changed bool, err error) {
	between := g.Between(k)
	mine := RoleKey{k.Algorithm, k.Op, k.Root, k.Halved(x.size), between}
	if r := x.roles[mine]; r != nil {
		return r, false, nil
	}
	made := map[RoleKey]*Role{}
	set := map[int]bool{}
	for _, op := range plan.AllOperations() {
		if op != k.Op && (k.Op.Apart() || op.Apart()) {
			continue
		}
		other := *k
		other.Op = op
		r := &Role{}
		r.Between = between
		other.Script(&r.Script, x.rank, x.size, g.Hosts)
		r.Peers(set)
		made[RoleKey{k.Algorithm, other.Op, k.Root, other.Halved(x.size), between}] = r
	}
	x.Announce(x.Seq+1, k.Signature())
	// A rank that calls something else waits for the data of this operation, and finds its
	// number here: see [watch.Watch.Look].
	ctx, cancel := context.WithTimeout(ctx, x.Ring.Timeout())
	defer cancel()
	peers := slices.Sorted(maps.Keys(set))
	edges, err := x.Ring.Mesh(ctx, ring.Purpose{What: k.String(), Call: x.Seq + 1}, peers)
	if err != nil {
		return nil, false, MeshError{err}
	}
	x.waiter = x.Ring.Host().NewWaiter() // on the devices of these edges, too
	to := map[int]*channel{}
	for _, e := range edges {
		if to[e.Peer], err = x.meshChannel(e); err != nil {
			return nil, false, err
		}
	}
	for _, r := range made {
		r.connect(to)
	}
	maps.Copy(x.roles, made)
	return x.roles[mine], true, nil
}

// meshChannel returns the channel of a mesh's edge, which algorithms share.
func (x *Executor) meshChannel(e *ring.Edge) (*channel, error) {
	if ch := x.channelAt(e.ID); ch != nil {
		return ch, nil
	}
	ch, err := x.newChannel(e, e.Local.SlotCount, meshSends)
	if err != nil {
		return nil, err
	}
	ch.stream.flights = make([]flight, e.Local.SlotCount)
	for len(x.channels) <= int(e.ID) {
		x.channels = append(x.channels, nil)
	}
	x.add(ch)
	return ch, nil
}

// Role is a script with the channels that its moves use.
type Role struct {
	script.Script
	at   []*channel // by move; nil where there is no message
	used []*channel
}

// RoleKey says what a role is of; root is 0 where there is none.
type RoleKey struct {
	algorithm plan.Algorithm
	op        plan.Operation
	root      int
	halved    bool
	between   bool
}

// connect finds the channels of a role's moves.
func (r *Role) connect(to map[int]*channel) {
	for i := range r.Moves {
		ch := to[r.Moves[i].Peer] // nil where the peer is this rank
		r.at = append(r.at, ch)
		if ch != nil && !slices.Contains(r.used, ch) {
			r.used = append(r.used, ch)
		}
	}
}

// MeshError is that the edges of an operation cannot be made. The ring's error names
// the operation.
type MeshError struct{ error }

// Unwrap returns the ring's error.
func (e MeshError) Unwrap() error { return e.error }
