// Package hostteam is ranks that compute in each other's memory: all ranks of a ring, by protocol
// Direct, or those of a host, for their part of a call along hosts.
package hostteam

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"ringcli/collective/agree"
	"ringcli/collective/buffer"
	"ringcli/collective/exec"
	"ringcli/collective/plan"
	"ringcli/collective/sharedmem"
	"ringcli/collective/watch"
	"ringcli/ring"
	"ringcli/ring/diagnose"
	"ringcli/trace"
	"ringcli/verbs"
	"ringcli/verbs/cpu"
	"ringcli/verbs/memory"
)

// Config is what a team is made with.
type Config struct {
	Watch   *watch.Watch
	Buffers *buffer.Pool
	Ranks   []int // of the ring, this one among them, by their ranks in the team
	Crowded bool  // they take turns on CPUs
	All     *Team // of all ranks of the ring, if there is one: what they announce is there
	// Device opens the device that reaches them.
	Device func() (*ring.Device, error)
}

// Team is what ranks compute with where each of them can reach the memory of all others. It belongs to
// whoever holds the lock of the operations.
type Team struct {
	*watch.Watch
	buffers *buffer.Pool
	all     *Team
	ranks   []int // of the ring, by their ranks in the team
	me      int   // in the team
	device  *ring.Device
	team    *sharedmem.Team
	peers   []verbs.Reached // by rank in the team; nil at the own
	board   verbs.Memory    // the own
	reg     *ring.Registration
	unguard func() // of a call that is guarded
	// affinity is where the thread comes back to; it may be nil.
	affinity *cpu.Affinity

	ctx     context.Context // of the operation that runs
	running running
	last    uint64 // the number of the last that ran over shared memory
	before  sharedmem.Signature
	sums    *buffer.Buffer // of the ranks of this host, along hosts: see stages
	// A rank that waits looks around now and then, of which this is the last time in
	// operation lookedIn.
	looked   time.Time
	told     time.Time // of a long wait, the last time
	since    time.Time // that began
	lookedIn uint64
}

// running is what a wait needs to know of the operation that runs.
type running struct {
	signature sharedmem.Signature
	between   bool // ranks of other hosts wait for acknowledgements
}

// NotTeam returns why so many ranks cannot share memory, or "".
func NotTeam(what string, ranks int) string {
	if ranks < sharedmem.MinRanks || ranks > sharedmem.MaxRanks {
		return fmt.Sprintf("a %s of %d: expected %d to %d ranks", what, ranks, sharedmem.MinRanks, sharedmem.MaxRanks)
	}
	return ""
}

// NotShared returns why this rank cannot share memory with all others of a ring, or "".
func NotShared(r *ring.Ring) string {
	if why := NotTeam("ring", r.Size()); why != "" {
		return why
	}
	for _, e := range []*ring.Edge{r.Left(), r.Right()} {
		if _, ok := e.Device().Context.(verbs.Mapper); !ok { // the ends of an edge can map each other's memory
			return fmt.Sprintf("rank %d is reached over %s", e.Peer, e.Device().Name)
		}
	}
	return ""
}

// boardInfo is where a rank's board is, or a buffer, as it tells the others; or why it has none.
type boardInfo struct {
	GID     verbs.GID `json:"gid"` // of the rank's device
	Addr    uint64    `json:"addr,omitempty"`
	RKey    uint32    `json:"rkey,omitempty"`
	Length  uint64    `json:"length,omitempty"` // of a buffer; all boards have one length
	Problem string    `json:"problem,omitempty"`
}

// New makes what some ranks of the ring share. It is collective: all ranks of the ring call it, whomever
// they share with. One that names itself alone needs nothing and gets nil. Where some rank cannot, all do
// without, and why says so; an error is of the ring.
func New(ctx context.Context, c Config) (made *Team, why string, err error) {
	r := c.Watch.Ring
	s := &Team{
		Watch: c.Watch, buffers: c.Buffers, all: c.All, ranks: c.Ranks, me: slices.Index(c.Ranks, r.Rank()),
		peers: make([]verbs.Reached, len(c.Ranks)), affinity: r.Host().Affinity(),
	}
	defer func() {
		if made == nil {
			err = errors.Join(err, s.Close())
		}
	}()
	var mine boardInfo
	var problem error
	if len(c.Ranks) > 1 {
		mine, problem = s.makeBoard(c.Device)
	}
	infos, why, err := gatherBoards(ctx, r, "boards of all ranks", mine, problem)
	if why != "" || err != nil {
		return nil, why, err
	}
	boards, problem := s.mapBoards(ctx, infos)
	if _, why, err = gatherBoards(ctx, r, "views of all boards", boardInfo{}, problem); why != "" || err != nil || len(c.Ranks) == 1 {
		return nil, why, err
	}
	s.team, err = sharedmem.New(sharedmem.Config{
		Rank: s.me, Size: len(c.Ranks), Numbers: c.Ranks, Epoch: uint64(r.Epoch()), Boards: boards, Map: s.view, Stop: s.stop, Long: s.long, Timeout: r.Timeout,
		Affinity: s.affinity, Crowded: c.Crowded, Gosched: r.Options().Wait == verbs.WaitGosched, Lateness: &s.Times,
	})
	if err != nil {
		return nil, "", err
	}
	if s.all == nil { // that of all ranks comes first
		s.AnnounceIn(s.team.Announcement())
	}
	s.Teams = append(s.Teams, s)
	return s, "", nil
}

// others are the other ranks of the team, in the ring.
func (s *Team) others() []int {
	return slices.DeleteFunc(slices.Clone(s.ranks), func(rank int) bool { return rank == s.Ring.Rank() })
}

// announced is what a rank of the team announces.
func (s *Team) announced(rank int) *sharedmem.Announcement {
	if s.all != nil {
		return s.all.team.Announced(rank)
	}
	return s.team.Announced(slices.Index(s.ranks, rank))
}

// gatherBoards has every rank say where its board is or what its problem is; why is the
// first rank's that has one.
func gatherBoards(ctx context.Context, r *ring.Ring, what string, mine boardInfo, problem error) (infos []boardInfo, why string, err error) {
	if problem != nil {
		mine = boardInfo{Problem: problem.Error()}
	}
	infos, err = agree.Gather(ctx, r, ring.Purpose{What: what, Do: ring.BeReady}, mine)
	for rank, p := range infos {
		if p.Problem != "" {
			return nil, fmt.Sprintf("rank %d: %s", rank, p.Problem), nil
		}
	}
	return infos, "", err
}

// makeBoard makes the own board.
func (s *Team) makeBoard(open func() (*ring.Device, error)) (p boardInfo, err error) {
	if s.device, err = open(); err != nil {
		return p, err
	}
	entry, err := s.device.GIDEntry()
	if err != nil {
		return p, err
	}
	size := sharedmem.BoardSize(len(s.ranks))
	if s.board, err = s.Ring.Memory().Alloc(size); err != nil {
		return p, err
	}
	if s.reg, err = s.Ring.Memory().Register(s.board.Addr(), size, buffer.Access); err != nil {
		return p, err
	}
	sharedmem.Open(s.board.Addr(), len(s.ranks))
	return boardInfo{GID: entry.GID, Addr: s.board.Addr(), RKey: s.reg.RKey(s.device)}, nil
}

// mapBoards reaches the peers, and maps their boards, to be written.
func (s *Team) mapBoards(ctx context.Context, infos []boardInfo) (boards []uint64, err error) {
	boards = make([]uint64, len(s.ranks))
	for i, rank := range s.ranks {
		switch p := infos[rank]; {
		case len(s.ranks) == 1:
		case rank == s.Ring.Rank():
			boards[i] = s.board.Addr()
		default:
			if s.peers[i], err = s.device.Context.(verbs.Mapper).Reach(ctx, p.GID); err == nil {
				boards[i], err = s.peers[i].Map(p.RKey, p.Addr, sharedmem.BoardSize(len(s.ranks)), verbs.AccessRemoteRead|verbs.AccessRemoteWrite)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("the board of rank %d cannot be mapped: %w", rank, err)
		}
	}
	return boards, nil
}

// view maps memory of a peer, to be read.
func (s *Team) view(peer int, key, addr, length uint64) (uint64, error) {
	local, err := s.peers[peer].Map(uint32(key), addr, length, verbs.AccessRemoteRead)
	if err != nil {
		return 0, &ViewError{s.ranks[peer], err}
	}
	if memory.MayFault.Load() {
		s.guard()
	}
	return local, nil
}

// stop is asked by a rank that waits, every few microseconds.
func (s *Team) stop() error {
	if err := s.Stopped(s.ctx); err != nil {
		return err
	}
	if s.running.between {
		if err := s.Token.Progress(); err != nil {
			return err
		}
	}
	now := time.Now()
	if s.lookedIn != s.Seq {
		s.lookedIn, s.looked = s.Seq, now
	}
	if now.Sub(s.looked) < watch.LookAround {
		return nil
	}
	s.looked = now
	return s.Look(s.running.signature)
}

// long tells that the present operation has waited for the other ranks since then. An
// error ends it.
func (s *Team) long(since time.Time) error {
	now := time.Now()
	if now.Sub(s.told) < watch.LookAround {
		return nil
	}
	s.told, s.since = now, since
	p := diagnose.Place{Operation: s.Seq}
	ranks, phase, segment := s.team.Awaits()
	for _, rank := range ranks {
		p.Awaits = append(p.Awaits, diagnose.Await{
			From: s.ranks[rank], Item: diagnose.Data, Phase: phase, Segment: segment, What: fmt.Sprintf("%s (part %d)", phase, segment),
		})
	}
	return s.Waits(p, since, s.others())
}

// Elsewhere returns a rank that is, or was, in another operation of that number than mine; -1 is none.
func (s *Team) Elsewhere(number uint64, mine sharedmem.Signature) (peer int, theirs sharedmem.Signature) {
	for _, rank := range s.ranks {
		if rank == s.Ring.Rank() {
			continue
		}
		if theirs, ok := s.announced(rank).Call(number); ok && theirs != mine {
			return rank, theirs
		}
	}
	return -1, theirs
}

// InboxRecorded: one in so many operations of the inbox, and each that fails, goes
// into the flight recorder, unless the collective is traced. What a record of one takes, of
// its steps and of the clock is as long as the operation (0.16 us for 8 bytes on two ranks),
// and all of them would push everything else out within milliseconds.
const InboxRecorded = 64

// affinityLooked: before one in so many operations the thread is brought back to its CPU, which
// otherwise those do that wait long.
const affinityLooked = 256

// partsRecorded: of shorter vectors as many operations, and the first of a kind, go into
// the recorder with their steps, which take 0.2 to 1 us: a twentieth of 256 KiB, and a
// hundredth from here on.
const partsRecorded = 1 << 20

// Direct is a call by protocol Direct, ready to run.
type Direct struct {
	Call      plan.Call
	Signature sharedmem.Signature
	call      sharedmem.Call
}

// Run runs a call over shared memory.
func (s *Team) Run(ctx context.Context, d *Direct) (err error) {
	k := &d.Call
	s.Begin(d.Signature)
	traced := trace.Enabled(trace.Collective)
	begun := trace.Stamp(0)
	if traced || k.Algorithm != plan.AlgorithmInbox || s.Seq%InboxRecorded == 0 {
		begun = trace.Now()
	}
	if s.Seq%affinityLooked == 0 {
		s.affinity.Restore(time.Now())
	}
	s.ctx, s.running = ctx, running{signature: d.Signature}
	if err := s.Stopped(ctx); err != nil {
		return err
	}
	if s.Token, err = s.Ring.Hold(ctx); err != nil {
		return err
	}
	sharedmem.Publish(&s.Shared, s.Shared+1)
	parts := begun
	if !traced && k.Count*k.Type.Size() < partsRecorded && s.Seq%InboxRecorded != 0 && d.Signature == s.before {
		parts = 0
	}
	s.before = d.Signature
	s.team.Record(s.Seq, parts)
	exec.TraceStart(s.Seq, k)
	if err = s.guarded(func() error { return s.perform(k, &d.call) }); err == nil {
		s.last = s.Seq
		s.Token.Release()
	} else {
		err = s.explain(err)
	}
	if err != nil && begun == 0 {
		begun = trace.Now() // that it failed is worth more than when it began
	}
	if begun != 0 {
		end := trace.Now()
		s.team.Recorded(end)
		exec.RecordOperation(begun, end, k, s.Seq)
	}
	exec.TraceEnd(s.Seq)
	return err
}

// Prepare prepares a call by protocol Direct.
func (s *Team) Prepare(k *plan.Call, in, out *buffer.Vector) *Direct {
	d := &Direct{Call: *k, Signature: k.Signature()}
	d.call = sharedmem.Call{
		Name: k.Op.String(), Phases: k.Op.SharedPhases(), Rooted: k.Op.Rooted(), Type: k.Type, Reduction: k.Reduction, Signature: d.Signature,
		Send: s.buffer(in), Recv: s.buffer(out),
	}
	return d
}

// buffer is a vector as the team takes it.
func (s *Team) buffer(v *buffer.Vector) sharedmem.Buffer {
	return sharedmem.Buffer{Addr: v.Base, Mapped: v.Serial != 0, Key: uint64(v.Serial)<<32 | uint64(v.Keys.RKey(s.device))}
}

// guarded performs calls, where a buffer may be a file that somebody makes shorter.
func (s *Team) guarded(perform func() error) (err error) {
	if memory.MayFault.Load() {
		s.guard()
	}
	defer func() {
		if s.unguard != nil {
			s.unguard()
			s.unguard = nil
			err = cmp.Or(memory.Fault(recover()), err)
		}
	}()
	return perform()
}

// guard has what is no longer there be an error of the call that runs, from now on.
func (s *Team) guard() {
	if s.unguard == nil {
		s.unguard = memory.Guard()
	}
}

// perform has the team do what a call consists of.
func (s *Team) perform(k *plan.Call, d *sharedmem.Call) error {
	switch {
	case k.Algorithm == plan.AlgorithmInbox:
		return s.team.Inbox(d)
	case !k.Sync:
		return s.team.Pull(d)
	}
	first, last := *d, *d
	first.Phases, last.Phases, last.Send = sharedmem.Reduce, sharedmem.Gather, d.Recv
	if err := s.team.Pull(&first); err != nil {
		return err
	}
	if err := s.team.Inbox(&sharedmem.Call{Name: plan.OpBarrier.String(), Signature: sharedmem.Signature{Digest: d.Digest}}); err != nil {
		return err
	}
	return s.team.Pull(&last)
}

// explain turns an error of package sharedmem into one that names ranks of the ring.
func (s *Team) explain(err error) error {
	var d *sharedmem.DisagreementError
	var fault *memory.FaultError
	switch {
	case errors.Is(err, sharedmem.ErrTimeout):
		return s.Blamed(err, s.since)
	case errors.As(err, &fault):
		whose := "another rank's"
		if b := s.buffers.At(fault.Addr, 1); b != nil {
			whose = "this rank's"
		}
		return fmt.Errorf("%w: a buffer of %s that Share took is no longer there: was its file made shorter?", err, whose)
	}
	if !errors.As(err, &d) || d.Epoch {
		return err
	}
	return s.Disagreement(s.running.signature, d.Peer, d.Theirs)
}

const (
	// Parting is how long a Comm that is closed waits for others that may still look
	// at its board for the end of the last operation: they are at most a wake-up
	// behind, but for those that have yet to take what this rank has posted: they get
	// the ring's timeout. partingTick is the pause between two looks.
	Parting, partingTick = 250 * time.Millisecond, 100 * time.Microsecond
)

// AwaitOthers waits until no other rank needs the own board any more.
func (s *Team) AwaitOthers() {
	if s == nil {
		return
	}
	most := Parting
	if s.team.Ahead() {
		most = s.Ring.Timeout()
	}
	for begun := time.Now(); time.Since(begun) < most && !s.Ring.Failed(); time.Sleep(partingTick) {
		left := true
		for _, rank := range s.others() {
			left = left && s.announced(rank).HasEnded(s.last)
		}
		if left {
			return
		}
	}
}

// Close gives the own board back, and lets go of the others'.
func (s *Team) Close() error {
	if s == nil {
		return nil
	}
	var errs []error
	for _, p := range s.peers {
		if p != nil {
			errs = append(errs, p.Close())
		}
	}
	if s.reg != nil {
		errs = append(errs, s.reg.Close())
	}
	if s.board != nil {
		errs = append(errs, s.board.Free())
	}
	return errors.Join(errs...)
}

// ViewError is that memory of a peer cannot be mapped.
type ViewError struct {
	Peer int
	Err  error
}

func (e *ViewError) Error() string { return "no view of the memory of a peer: " + e.Err.Error() }

// Unwrap returns why.
func (e *ViewError) Unwrap() error { return e.Err }
