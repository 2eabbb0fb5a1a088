package collective

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"ringcli/collective/sharedmem"
	"ringcli/ring"
	"ringcli/ring/diagnose"
	"ringcli/trace"
	"ringcli/verbs"
	"ringcli/verbs/cpu"
	"ringcli/verbs/memory"
)

// shared is what ranks compute with where each of them can reach the memory of all others: those of a
// whole ring, by protocol Direct, or those of a host, for their part along hosts. It belongs to the
// holder of the lock of the Comm.
type shared struct {
	c       *Comm
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
	running *prepared
	last    uint64 // the number of the last that ran over shared memory
	before  sharedmem.Signature
	// A rank that waits looks around now and then, of which this is the last time in
	// operation lookedIn.
	looked   time.Time
	told     time.Time // of a long wait, the last time
	since    time.Time // that began
	lookedIn uint64
}

// notTeam returns why this rank cannot share memory with some others, as many with it, or "".
func (c *Comm) notTeam(what string, ranks int) string {
	switch {
	case ranks < sharedmem.MinRanks || ranks > sharedmem.MaxRanks:
		return fmt.Sprintf("a %s of %d: expected %d to %d ranks", what, ranks, sharedmem.MinRanks, sharedmem.MaxRanks)
	case c.options.Corrupt != nil:
		return "faults are injected into what arrives, and nothing does"
	}
	return ""
}

// notShared returns why this rank cannot share memory with all others, or "".
func (c *Comm) notShared() string {
	if why := c.notTeam("ring", c.size); why != "" {
		return why
	}
	for _, e := range []*ring.Edge{c.ring.Left(), c.ring.Right()} {
		if !sharesMemory(e) {
			return fmt.Sprintf("rank %d is reached over %s", e.Peer, e.Device().Name)
		}
	}
	return ""
}

// sharesMemory tells whether the ends of an edge can map each other's memory.
func sharesMemory(e *ring.Edge) bool {
	_, ok := e.Device().Context.(verbs.Mapper)
	return ok
}

// boardInfo is where a rank's board is, or a buffer, as it tells the others; or why it has none.
type boardInfo struct {
	GID     verbs.GID `json:"gid"` // of the rank's device
	Addr    uint64    `json:"addr,omitempty"`
	RKey    uint32    `json:"rkey,omitempty"`
	Length  uint64    `json:"length,omitempty"` // of a buffer; all boards have one length
	Problem string    `json:"problem,omitempty"`
}

// share makes what some ranks of the ring share, this one among them; they may be crowded, and open says
// which device reaches them. It is collective: all ranks of the ring call it, whomever they share
// with. One that names itself alone needs nothing and gets nil. Where some rank cannot, all do
// without, and why says so; an error is of the ring.
func (c *Comm) share(ctx context.Context, ranks []int, crowded bool, open func() (*ring.Device, error)) (made *shared, why string, err error) {
	s := &shared{c: c, ranks: ranks, me: slices.Index(ranks, c.rank), peers: make([]verbs.Reached, len(ranks)), affinity: c.ring.Affinity()}
	defer func() {
		if made == nil {
			err = errors.Join(err, s.close())
		}
	}()
	var mine boardInfo
	var problem error
	if len(ranks) > 1 {
		mine, problem = s.makeBoard(open)
	}
	infos, why, err := gatherBoards(ctx, c, "boards of all ranks", mine, problem)
	if why != "" || err != nil {
		return nil, why, err
	}
	boards, problem := s.mapBoards(ctx, infos)
	if _, why, err = gatherBoards(ctx, c, "views of all boards", boardInfo{}, problem); why != "" || err != nil || len(ranks) == 1 {
		return nil, why, err
	}
	s.team, err = sharedmem.New(sharedmem.Config{
		Rank: s.me, Size: len(ranks), Numbers: ranks, Epoch: uint64(c.ring.Epoch()), Boards: boards, Map: s.view, Stop: s.stop, Long: s.long, Timeout: c.ring.Timeout,
		Affinity: s.affinity, Crowded: crowded, Gosched: c.ring.Options().Wait == verbs.WaitGosched, Lateness: &c.times,
	})
	if err != nil {
		return nil, "", err
	}
	if c.shared == nil { // that of all ranks comes first
		c.announced.Store(s.team.Announcement())
	}
	return s, "", nil
}

// others are the other ranks of the team, in the ring.
func (s *shared) others() []int {
	return slices.DeleteFunc(slices.Clone(s.ranks), func(rank int) bool { return rank == s.c.rank })
}

// announced is what a rank of the team announces.
func (s *shared) announced(rank int) *sharedmem.Announcement {
	if all := s.c.shared; all != nil {
		return all.team.Announced(rank)
	}
	return s.team.Announced(slices.Index(s.ranks, rank))
}

// gatherBoards has every rank say where its board is or what its problem is; why is the
// first rank's that has one.
func gatherBoards(ctx context.Context, c *Comm, what string, mine boardInfo, problem error) (infos []boardInfo, why string, err error) {
	if problem != nil {
		mine = boardInfo{Problem: problem.Error()}
	}
	infos, err = gather(ctx, c, ring.Purpose{What: what, Do: ring.BeReady}, mine)
	for rank, p := range infos {
		if p.Problem != "" {
			return nil, fmt.Sprintf("rank %d: %s", rank, p.Problem), nil
		}
	}
	return infos, "", err
}

// makeBoard makes the own board.
func (s *shared) makeBoard(open func() (*ring.Device, error)) (p boardInfo, err error) {
	if s.device, err = open(); err != nil {
		return p, err
	}
	entry, err := s.device.GIDEntry()
	if err != nil {
		return p, err
	}
	size := sharedmem.BoardSize(len(s.ranks))
	if s.board, err = s.c.ring.AllocMemory(size); err != nil {
		return p, err
	}
	if s.reg, err = s.c.ring.RegisterMemory(s.board.Addr(), size, bufferAccess); err != nil {
		return p, err
	}
	sharedmem.Open(s.board.Addr(), len(s.ranks))
	return boardInfo{GID: entry.GID, Addr: s.board.Addr(), RKey: s.reg.RKey(s.device)}, nil
}

// mapBoards reaches the peers, and maps their boards, to be written.
func (s *shared) mapBoards(ctx context.Context, infos []boardInfo) (boards []uint64, err error) {
	boards = make([]uint64, len(s.ranks))
	for i, rank := range s.ranks {
		switch p := infos[rank]; {
		case len(s.ranks) == 1:
		case rank == s.c.rank:
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
func (s *shared) view(peer int, key, addr, length uint64) (uint64, error) {
	local, err := s.peers[peer].Map(uint32(key), addr, length, verbs.AccessRemoteRead)
	if err != nil {
		return 0, &viewError{s.ranks[peer], err}
	}
	if memory.MayFault.Load() {
		s.guard()
	}
	return local, nil
}

// stop is asked by a rank that waits, every few microseconds.
func (s *shared) stop() error {
	if err := s.c.stopped(s.ctx); err != nil {
		return err
	}
	if s.running.role != nil { // ranks of other hosts wait for acknowledgements
		if err := s.c.token.Progress(); err != nil {
			return err
		}
	}
	now := time.Now()
	if s.lookedIn != s.c.seq {
		s.lookedIn, s.looked = s.c.seq, now
	}
	if now.Sub(s.looked) < lookAround {
		return nil
	}
	s.looked = now
	return s.c.lookAround(s.running.signature)
}

// long tells that the present operation has waited for the other ranks since then. An
// error ends it.
func (s *shared) long(since time.Time) error {
	now := time.Now()
	if now.Sub(s.told) < lookAround {
		return nil
	}
	s.told, s.since = now, since
	s.c.ring.Waiting(fmt.Sprintf("go on with operation %d", s.c.seq), s.others(), since)
	p := diagnose.Place{Operation: s.c.seq}
	ranks, phase, segment := s.team.Awaits()
	for _, rank := range ranks {
		p.Awaits = append(p.Awaits, diagnose.Await{
			From: s.ranks[rank], Item: diagnose.Data, Phase: phase, Segment: segment, What: fmt.Sprintf("%s (part %d)", phase, segment),
		})
	}
	s.c.note(p, since, longLasts)
	return s.c.stalled(since)
}

// elsewhere returns a rank that is, or was, in another operation with the number of the present
// one, whose signature is mine; -1 is none.
func (s *shared) elsewhere(mine sharedmem.Signature) (peer int, theirs sharedmem.Signature) {
	for _, rank := range s.ranks {
		if rank == s.c.rank {
			continue
		}
		if theirs, ok := s.announced(rank).Call(s.c.seq); ok && theirs != mine {
			return rank, theirs
		}
	}
	return -1, theirs
}

// inboxRecorded: one in so many operations of the inbox, and each that fails, goes
// into the flight recorder, unless the collective is traced. What a record of one takes, of
// its steps and of the clock is as long as the operation (0.16 us for 8 bytes on two ranks),
// and all of them would push everything else out within milliseconds.
const inboxRecorded = 64

// affinityLooked: before one in so many operations the thread is brought back to its CPU, which
// otherwise those do that wait long.
const affinityLooked = 256

// partsRecorded: of shorter vectors as many operations, and the first of a kind, go into
// the recorder with their steps, which take 0.2 to 1 us: a twentieth of 256 KiB, and a
// hundredth from here on.
const partsRecorded = 1 << 20

// run runs a call over shared memory.
func (s *shared) run(ctx context.Context, p *prepared) (err error) {
	c, k := s.c, &p.call
	c.seq++
	c.announced.Load().Begin(c.seq, p.signature)
	traced := trace.Enabled(trace.Collective)
	begun := trace.Stamp(0)
	if traced || k.Algorithm != AlgorithmInbox || c.seq%inboxRecorded == 0 {
		begun = trace.Now()
	}
	if c.seq%affinityLooked == 0 {
		s.affinity.Restore(time.Now())
	}
	s.ctx, s.running = ctx, p
	if err := c.stopped(ctx); err != nil {
		return err
	}
	if c.token, err = c.ring.Hold(ctx); err != nil {
		return err
	}
	sharedmem.Publish(&c.direct, c.direct+1)
	parts := begun
	if !traced && k.Count*k.Type.Size() < partsRecorded && c.seq%inboxRecorded != 0 && p.signature == s.before {
		parts = 0
	}
	s.before = p.signature
	s.team.Record(c.seq, parts)
	traceStart(c.seq, k)
	if err = s.guarded(func() error { return s.direct(k, &p.shared) }); err == nil {
		s.last = c.seq
		c.token.Release()
	} else {
		err = s.explain(err)
	}
	if err != nil && begun == 0 {
		begun = trace.Now() // that it failed is worth more than when it began
	}
	if begun != 0 {
		end := trace.Now()
		s.team.Recorded(end)
		recordOperation(begun, end, k, c.seq)
	}
	traceEnd(c.seq)
	return err
}

// call is a prepared call as the team takes it.
func (s *shared) call(p *prepared) sharedmem.Call {
	k := &p.call
	return sharedmem.Call{
		Name: k.Op.String(), Phases: k.Op.SharedPhases(), Rooted: k.Op.Rooted(), Type: k.Type, Reduction: k.Reduction, Signature: p.signature,
		Send: s.buffer(&p.in), Recv: s.buffer(&p.out),
	}
}

// buffer is a vector as the team takes it.
func (s *shared) buffer(v *vector) sharedmem.Buffer {
	return sharedmem.Buffer{Addr: v.base, Mapped: v.serial != 0, Key: uint64(v.serial)<<32 | uint64(v.keys.RKey(s.device))}
}

// guarded performs calls, where a buffer may be a file that somebody makes shorter.
func (s *shared) guarded(perform func() error) (err error) {
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
func (s *shared) guard() {
	if s.unguard == nil {
		s.unguard = memory.Guard()
	}
}

// direct has the team do what a call consists of.
func (s *shared) direct(k *Call, d *sharedmem.Call) error {
	switch {
	case k.Algorithm == AlgorithmInbox:
		return s.team.Inbox(d)
	case !k.Sync:
		return s.team.Pull(d)
	}
	first, last := *d, *d
	first.Phases, last.Phases, last.Send = sharedmem.Reduce, sharedmem.Gather, d.Recv
	if err := s.team.Pull(&first); err != nil {
		return err
	}
	if err := s.team.Inbox(&sharedmem.Call{Name: OpBarrier.String(), Signature: sharedmem.Signature{Digest: d.Digest}}); err != nil {
		return err
	}
	return s.team.Pull(&last)
}

// explain turns an error of the team into one of the Comm.
func (s *shared) explain(err error) error {
	var d *sharedmem.DisagreementError
	var fault *memory.FaultError
	switch {
	case errors.Is(err, ErrTimeout):
		return s.c.blamed(err, s.since)
	case errors.As(err, &fault):
		whose := "another rank's"
		if b := s.c.registered(fault.Addr, 1); b != nil {
			whose = "this rank's"
		}
		return fmt.Errorf("%w: a buffer of %s that Share took is no longer there: was its file made shorter?", err, whose)
	}
	if !errors.As(err, &d) || d.Epoch {
		return err
	}
	return s.c.disagreement(s.running.signature, d.Peer, d.Theirs)
}

const (
	// parting is how long a Comm that is closed waits for others that may still look
	// at its board for the end of the last operation: they are at most a wake-up
	// behind, but for those that have yet to take what this rank has posted: they get
	// the ring's timeout. partingTick is the pause between two looks.
	parting, partingTick = 250 * time.Millisecond, 100 * time.Microsecond
)

// awaitOthers waits until no other rank needs the own board any more.
func (s *shared) awaitOthers() {
	most := parting
	if s.team.Ahead() {
		most = s.c.ring.Timeout()
	}
	for begun := time.Now(); time.Since(begun) < most && !s.c.ring.Failed(); time.Sleep(partingTick) {
		left := true
		for _, rank := range s.others() {
			left = left && s.announced(rank).HasEnded(s.last)
		}
		if left {
			return
		}
	}
}

// close gives the own board back, and lets go of the others'.
func (s *shared) close() error {
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
