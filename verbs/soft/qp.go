package soft

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"

	"ringcli/verbs"
	"ringcli/verbs/objects"
	"ringcli/verbs/soft/rc"
	"ringcli/verbs/soft/reorder"
	"ringcli/verbs/soft/udp"
	"ringcli/verbs/soft/wire"
)

// qp is a queue pair: the state machine with its addresses and queues.
type qp struct {
	objects.QueuePair
	ctx *Context
	ep  *endpoint

	rc     *rc.QP // guarded by ep.mu, as all below
	queued bool   // on ep.dirty
	budget int    // packets

	peer     netip.AddrPort
	lowIPIDs bool // the peer's are below softIDs
	dst      udp.Sockaddr
	tx, rx   wire.Flow
	lastID   idTracker
	acking   acking
	early    reorder.Packets
	counts   rc.Counters

	// Inline data is copied here when it is posted; the slots go round with
	// the send queue.
	inlineNext int
	scratch    verbs.WorkRequest
	scratchSGL [1]verbs.SGE
}

func (c *Context) CreateQP(p *objects.Domain, a verbs.QPInitAttr) (verbs.QP, error) {
	q := &qp{ctx: c, budget: mostBudget}
	if err := q.Prepare(p, &a); err != nil {
		return nil, err
	}
	ep, err := c.endpoint()
	if err != nil {
		return nil, err
	}
	if err := q.Retain(a.Cap.MaxSendWR); err != nil {
		return nil, err
	}
	q.ep = ep
	ep.mu.Lock()
	q.QPN = objects.NewQPN(func(n uint32) bool { return ep.qps[n] != nil })
	q.rc = rc.New(rc.Config{
		QPN: q.QPN, Cap: a.Cap, SigAll: a.SigAll, Memory: p, Counters: &q.counts, Window: ep.window(verbs.MTU4096.Bytes()),
		KeepEarly: true,
	})
	ep.qps[q.QPN] = q
	ep.mu.Unlock()
	q.TraceCreated(slog.String("local", ep.local.String()))
	return q, nil
}

func (q *qp) Modify(a verbs.QPAttr, mask verbs.AttrMask) error {
	if err := q.Live(); err != nil {
		return err
	}
	port, err := q.ctx.QueryPort(1)
	if err != nil {
		return err
	}
	q.ep.mu.Lock()
	defer q.ep.mu.Unlock()
	cur := q.rc.State()
	path := &verbs.ModifyPath{Device: &deviceLimits, Port: &port}
	if err := verbs.CheckModify(q.QPN, cur, &a, mask, path); err != nil {
		return err
	}
	if mask&verbs.AttrAV != 0 {
		refusal := &verbs.ModifyError{QPN: q.QPN, From: cur, To: a.State, Attr: a, Mask: mask}
		if err := q.setPeer(&a.AH, refusal); err != nil {
			return err
		}
	}
	q.rc.Modify(&a, mask, &q.ep.out)
	q.early.Clear()
	if mask&verbs.AttrPathMTU != 0 {
		q.budget = budget(a.PathMTU.Bytes())
	}
	objects.TraceModified(q.QPN, cur, q.rc.State(), &a, mask)
	q.ep.kickSend(q)
	return nil
}

// setPeer takes the address vector; if it cannot be used, the refusal says why.
func (q *qp) setPeer(ah *verbs.AHAttr, refusal *verbs.ModifyError) error {
	const sgid, dgid = "ah_attr.grh.sgid_index", "ah_attr.grh.dgid"
	local, index := q.ep.local, ah.GRH.SGIDIndex
	entry, err := q.ctx.QueryGID(1, index)
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
	// The socket has one, which is that of the queue pair that was told last: a process' are
	// all told the same.
	if err := q.ep.conn.SetTrafficClass(ah.GRH.TrafficClass); err != nil {
		return refusal.Blame(verbs.AttrAV, "ah_attr.grh.traffic_class", ah.GRH.TrafficClass, ": "+err.Error())
	}
	q.peer = netip.AddrPortFrom(addr, cmp.Or(ah.UDP.Port, wire.UDPPort))
	q.lowIPIDs = ah.UDP.LowIPIDs
	q.dst = udp.NewSockaddr(q.peer)
	q.tx = wire.NewFlow(local, q.peer)
	q.rx = wire.NewFlow(q.peer, local)
	q.lastID, q.acking = idTracker{}, acking{}
	q.ep.admitPeers()
	return nil
}

// from tells whether a packet is the peer's by its source. A soft peer sends from its one
// port, which another user of its host cannot have; others vary theirs.
func (q *qp) from(src netip.AddrPort) bool {
	return src == q.peer || !q.lowIPIDs && src.Addr() == q.peer.Addr()
}

// verify checks a packet's ICRC and what it tells of the IP ID.
func (q *qp) verify(b []byte, src netip.AddrPort, segment uint16) bool {
	if src != q.rx.Src() { // the peer's source port is its own choice
		q.rx = wire.NewFlow(src, q.ep.local)
	}
	if q.lowIPIDs {
		return q.rx.VerifyBelow(b, segment, softIDs)
	}
	id, ok := q.rx.Verify(b, q.lastID.last+1)
	return ok && (q.rx.IPv6() || q.lastID.plausible(id))
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

func (t *idTracker) plausible(id uint16) bool {
	near := func(from uint16) bool { return id-from < nearID || from-id < nearID }
	if t.known && !near(t.last) && (!t.hasDoubted || !near(t.candidate)) {
		t.candidate, t.hasDoubted = id, true
		return false
	}
	t.last, t.known, t.hasDoubted = id, true, false
	return true
}

func (q *qp) Query() (verbs.QPAttr, verbs.QPInitAttr, error) {
	if err := q.Live(); err != nil {
		return verbs.QPAttr{}, verbs.QPInitAttr{}, err
	}
	q.ep.mu.Lock()
	defer q.ep.mu.Unlock()
	return q.rc.Attr(), q.InitAttr, nil
}

func (q *qp) PostSend(wrs []verbs.WorkRequest) (int, error) {
	if err := q.Live(); err != nil {
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
				q.inlineNext = (q.inlineNext + 1) % q.InitAttr.Cap.MaxSendWR
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
	if data := q.CopyInline(q.inlineNext, wr.SGL); data.Length > 0 {
		q.scratch.SGL = append(q.scratch.SGL, data)
	}
	return &q.scratch
}

func (q *qp) PostRecv(wrs []verbs.WorkRequest) (int, error) {
	if err := q.Live(); err != nil {
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

// Losses implements verbs.LossCounter.
func (q *qp) Losses() (l verbs.Losses, counted bool) {
	q.ep.mu.Lock()
	defer q.ep.mu.Unlock()
	return q.counts.Losses(), true
}

// Close implements verbs.QP. Nothing is flushed: completions that were not
// polled stay, work that was not done makes none, as ibv_destroy_qp has it.
func (q *qp) Close() error {
	if !q.Shut() {
		return nil
	}
	e := q.ep
	e.mu.Lock()
	delete(e.qps, q.QPN)
	objects.AddCounters(&e.port.Counters, &q.counts)
	e.recent = nil
	e.admitPeers()
	if q.queued {
		e.dirty = slices.DeleteFunc(e.dirty, func(other *qp) bool { return other == q })
	}
	e.mu.Unlock()
	return q.Release()
}
