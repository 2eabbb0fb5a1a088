package soft

import (
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"

	"ringcli/trace"
	"ringcli/verbs"
	"ringcli/verbs/memory"
	"ringcli/verbs/objects"
	"ringcli/verbs/soft/early"
	"ringcli/verbs/soft/rc"
	"ringcli/verbs/soft/udp"
	"ringcli/verbs/soft/wire"
)

// nextQPN gives out queue pair numbers, unique in the process. The first 16 are
// left alone, as rdma_rxe does; 0 and 1 are reserved by the specification.
var nextQPN struct {
	sync.Mutex
	next uint32          // guarded by the mutex
	used map[uint32]bool // guarded by the mutex
}

func allocQPN() uint32 {
	nextQPN.Lock()
	defer nextQPN.Unlock()
	if nextQPN.used == nil {
		nextQPN.used = make(map[uint32]bool)
		nextQPN.next = 16
	}
	for nextQPN.used[nextQPN.next] {
		nextQPN.next = 16 + (nextQPN.next-15)%(1<<24-32)
	}
	n := nextQPN.next
	nextQPN.used[n] = true
	nextQPN.next = 16 + (n-15)%(1<<24-32)
	return n
}

func freeQPN(n uint32) {
	nextQPN.Lock()
	defer nextQPN.Unlock()
	delete(nextQPN.used, n)
}

// qp is a queue pair: the state machine with its addresses and queues.
type qp struct {
	objects.QueuePair
	pd     *pd
	ep     *endpoint
	init   verbs.QPInitAttr
	num    uint32
	closed atomic.Bool

	rc     *rc.QP // guarded by ep.mu, as all below
	queued bool   // on ep.dirty
	budget int    // packets

	peer     netip.AddrPort
	lowIPIDs bool // the peer's are below softIDs
	dst      udp.Sockaddr
	tx, rx   wire.Flow
	lastID   idTracker
	acking   acking
	early    early.Packets

	// Inline data is copied here when it is posted; the slots go round with
	// the send queue.
	inline     *memory.Block
	inlineSize int
	inlineNext int
	scratch    verbs.WorkRequest
	scratchSGL [1]verbs.SGE
}

// CreateQP implements verbs.PD.
func (p *pd) CreateQP(a verbs.QPInitAttr) (verbs.QP, error) {
	holds, err := p.Prepare(&a)
	if err != nil {
		return nil, err
	}
	ep, err := p.ctx.endpoint()
	if err != nil {
		return nil, err
	}
	if p.ctx.qps.Add(1) > int64(deviceLimits.MaxQP) {
		p.ctx.qps.Add(-1)
		return nil, fmt.Errorf("create queue pair: %w: %d are open, which is the most", verbs.ErrNoMemory, deviceLimits.MaxQP)
	}
	q := &qp{QueuePair: holds, pd: p, ep: ep, init: a, num: allocQPN(), inlineSize: a.Cap.MaxInlineData, budget: mostBudget}
	if q.inlineSize > 0 && a.Cap.MaxSendWR > 0 {
		if q.inline, err = memory.Alloc(uint64(q.inlineSize) * uint64(a.Cap.MaxSendWR)); err != nil {
			freeQPN(q.num)
			p.ctx.qps.Add(-1)
			return nil, fmt.Errorf("create queue pair: inline buffers: %w", err)
		}
	}
	q.rc = rc.New(rc.Config{
		QPN: q.num, Cap: a.Cap, SigAll: a.SigAll, Memory: p, Counters: &ep.counters, Window: ep.window(verbs.MTU4096.Bytes()),
		KeepEarly: true,
	})
	q.Retain()
	ep.mu.Lock()
	ep.qps[q.num] = q
	ep.mu.Unlock()
	if trace.Enabled(trace.Verbs) {
		trace.Debug(trace.Verbs, "queue pair created", slog.String("qpn", objects.Hex(q.num)), slog.Int("max_send_wr", a.Cap.MaxSendWR),
			slog.Int("max_recv_wr", a.Cap.MaxRecvWR), slog.String("local", ep.local.String()))
	}
	return q, nil
}

// Num returns the queue pair number.
func (q *qp) Num() uint32 { return q.num }

// PD returns the protection domain.
func (q *qp) PD() verbs.PD { return q.pd }

func (q *qp) open() error {
	if q.closed.Load() {
		return fmt.Errorf("QP 0x%06x: %w", q.num, verbs.ErrClosed)
	}
	return nil
}

// Modify implements verbs.QP.
func (q *qp) Modify(a verbs.QPAttr, mask verbs.AttrMask) error {
	if err := q.open(); err != nil {
		return err
	}
	port, err := q.pd.ctx.QueryPort(1)
	if err != nil {
		return err
	}
	q.ep.mu.Lock()
	defer q.ep.mu.Unlock()
	cur := q.rc.State()
	path := &verbs.ModifyPath{Device: &deviceLimits, Port: &port}
	if err := verbs.CheckModify(q.num, cur, &a, mask, path); err != nil {
		return err
	}
	if mask&verbs.AttrAV != 0 {
		refusal := &verbs.ModifyError{QPN: q.num, From: cur, To: a.State, Attr: a, Mask: mask}
		if err := q.setPeer(&a.AH, refusal); err != nil {
			return err
		}
	}
	q.rc.Modify(&a, mask, &q.ep.out)
	q.early.Clear()
	if mask&verbs.AttrPathMTU != 0 {
		q.budget = budget(a.PathMTU.Bytes())
	}
	objects.TraceModified(q.num, cur, q.rc.State(), &a, mask)
	q.ep.kickSend(q)
	return nil
}

// setPeer takes the address vector; if it cannot be used, the refusal says why.
func (q *qp) setPeer(ah *verbs.AHAttr, refusal *verbs.ModifyError) error {
	const sgid, dgid = "ah_attr.grh.sgid_index", "ah_attr.grh.dgid"
	local, index := q.ep.local, ah.GRH.SGIDIndex
	entry, err := q.pd.ctx.QueryGID(1, index)
	if err != nil {
		return refusal.Blame(verbs.AttrAV, sgid, index, ": not in the GID table")
	}
	if entry.GID.Addr() != local.Addr() {
		return refusal.Blame(verbs.AttrAV, sgid, index, fmt.Sprintf(" is %s, but the context was opened on %s", entry.GID.Addr(), local.Addr()))
	}
	addr := ah.GRH.DGID.Addr()
	if addr.Is4() != local.Addr().Is4() {
		return refusal.Blame(verbs.AttrAV, dgid, addr, fmt.Sprintf(" and the local address %s are of different families", local.Addr()))
	}
	port := ah.UDP.Port
	if port == 0 {
		port = wire.UDPPort
	}
	q.peer = netip.AddrPortFrom(addr, port)
	q.lowIPIDs = ah.UDP.LowIPIDs
	q.dst = udp.NewSockaddr(q.peer)
	q.tx = wire.NewFlow(local, q.peer)
	q.rx = wire.NewFlow(q.peer, local)
	q.lastID, q.acking = idTracker{}, acking{}
	return nil
}

// verify checks a packet's ICRC and what it tells of the IP ID.
func (q *qp) verify(b []byte, src netip.AddrPort, segment uint16) bool {
	if src != q.rx.Src() { // the peer's source port is its own choice
		q.rx = wire.NewFlow(src, q.ep.local)
	}
	if q.rx.IPv6() {
		_, ok := q.rx.Verify(b)
		return ok
	}
	hint := segment
	if !q.lowIPIDs {
		hint = q.lastID.next()
	}
	id, ok := q.rx.VerifyHint(b, hint)
	if !ok {
		return false
	}
	if q.lowIPIDs {
		return id < softIDs
	}
	return q.lastID.plausible(id)
}

// softIDs is how many IP IDs a soft peer can use: places in a train.
const softIDs = 128

// idTracker follows the IP IDs of a peer that counts them up. Solving for the ID
// leaves 16 bits of the ICRC; an ID far from the last one is therefore doubted
// until a second packet near it confirms that the peer's counter has moved. The
// doubted packet is lost, and comes again.
type idTracker struct {
	last, candidate   uint16
	known, hasDoubted bool
}

// nearID is how far a peer's counter may move between two packets of a flow: it
// may count other flows' packets too, and jump after a pause.
const nearID = 8192

func (t *idTracker) next() uint16 { return t.last + 1 }

func (t *idTracker) plausible(id uint16) bool {
	near := func(from uint16) bool { return id-from < nearID || from-id < nearID }
	if t.known && !near(t.last) && (!t.hasDoubted || !near(t.candidate)) {
		t.candidate, t.hasDoubted = id, true
		return false
	}
	t.last, t.known, t.hasDoubted = id, true, false
	return true
}

// Query implements verbs.QP.
func (q *qp) Query() (verbs.QPAttr, verbs.QPInitAttr, error) {
	if err := q.open(); err != nil {
		return verbs.QPAttr{}, verbs.QPInitAttr{}, err
	}
	q.ep.mu.Lock()
	defer q.ep.mu.Unlock()
	return q.rc.Attr(), q.init, nil
}

// PostSend implements verbs.QP.
func (q *qp) PostSend(wrs []verbs.WorkRequest) (int, error) {
	if err := q.open(); err != nil {
		return 0, err
	}
	e := q.ep
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	var err error
	for n < len(wrs) && err == nil {
		wr := &wrs[n]
		if wr.Flags&verbs.FlagInline != 0 {
			if _, err = q.rc.CheckSend(wr); err != nil {
				break
			}
			wr = q.copyInline(wr)
		}
		if err = q.rc.PostSend(wr, &e.out); err == nil {
			n++
			if wr == &q.scratch {
				q.inlineNext = (q.inlineNext + 1) % q.init.Cap.MaxSendWR
			}
		}
	}
	e.kickSend(q)
	return n, err
}

// copyInline copies the data of wr, which the queue pair takes, to a slot and returns
// a request for it. The slot is free: there are as many as the send queue is long.
func (q *qp) copyInline(wr *verbs.WorkRequest) *verbs.WorkRequest {
	q.scratch = *wr
	q.scratch.SGL = q.scratchSGL[:0]
	if q.inlineSize == 0 {
		return &q.scratch
	}
	slot := q.inlineNext * q.inlineSize
	buf := q.inline.Bytes()[slot : slot+q.inlineSize]
	at := 0
	for i := range wr.SGL {
		at += copy(buf[at:], memory.Bytes(wr.SGL[i].Addr, int(wr.SGL[i].Length)))
	}
	if at > 0 {
		q.scratch.SGL = append(q.scratch.SGL, verbs.SGE{Addr: memory.Addr(buf), Length: uint32(at)})
	}
	return &q.scratch
}

// PostRecv implements verbs.QP.
func (q *qp) PostRecv(wrs []verbs.WorkRequest) (int, error) {
	if err := q.open(); err != nil {
		return 0, err
	}
	e := q.ep
	e.mu.Lock()
	defer e.mu.Unlock()
	for n := range wrs {
		if err := q.rc.PostRecv(&wrs[n], &e.out); err != nil {
			e.apply()
			return n, err
		}
	}
	e.apply()
	return len(wrs), nil
}

// Close implements verbs.QP. Nothing is flushed: completions that were not
// polled stay, work that was not done makes none, as ibv_destroy_qp has it.
func (q *qp) Close() error {
	if q.closed.Swap(true) {
		return nil
	}
	e := q.ep
	e.mu.Lock()
	delete(e.qps, q.num)
	e.recent = nil
	if q.queued {
		keep := e.dirty[:0]
		for _, other := range e.dirty {
			if other != q {
				keep = append(keep, other)
			}
		}
		e.dirty = keep
	}
	e.mu.Unlock()
	if trace.Enabled(trace.Verbs) {
		trace.Debug(trace.Verbs, "queue pair closed", slog.String("qpn", objects.Hex(q.num)))
	}
	freeQPN(q.num)
	q.Release()
	q.pd.ctx.qps.Add(-1)
	return q.inline.Free()
}
