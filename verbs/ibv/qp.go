//go:build !nodl

package ibv

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"ringcli/trace"
	"ringcli/verbs"
	"ringcli/verbs/memory"
)

// qp is a queue pair (struct ibv_qp).
type qp struct {
	pd             *pd
	handle         uintptr
	num            uint32
	init           verbs.QPInitAttr // with the capacities that the device gave
	sendCQ, recvCQ *cq
	// state is what Modify set last. The device may be in ERR since; then it
	// takes requests and flushes them.
	state  atomic.Uint32
	closed bool // changes with ctx.mu and all three locks held

	control sync.Mutex    // guards attr, Modify and Query
	attr    *memory.Block // a struct ibv_qp_attr, and at half of it an ibv_qp_init_attr

	send poster[cSendWR]
	recv poster[cRecvWR]
}

// attrHalf is where in qp.attr the second struct begins.
const attrHalf = 256

func (p *pd) CreateQP(a verbs.QPInitAttr) (verbs.QP, error) {
	c := p.ctx
	sendCQ, ok1 := a.SendCQ.(*cq)
	recvCQ, ok2 := a.RecvCQ.(*cq)
	if !ok1 || !ok2 || sendCQ.ctx != c || recvCQ.ctx != c {
		return nil, fmt.Errorf("create queue pair: %w: both completion queues must be of the same context", verbs.ErrInvalid)
	}
	if err := verbs.CheckQP(&a, &c.limits); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := p.live(); err != nil {
		return nil, fmt.Errorf("create queue pair: %w", err)
	}
	if sendCQ.closed || recvCQ.closed {
		return nil, fmt.Errorf("create queue pair: completion queue: %w", verbs.ErrClosed)
	}
	q := &qp{pd: p, init: a, sendCQ: sendCQ, recvCQ: recvCQ}
	if err := q.create(); err != nil {
		return nil, err
	}
	p.children++
	sendCQ.users++
	recvCQ.users++
	trace.Debug(trace.Verbs, "queue pair created", slog.String("qpn", verbs.Hex(q.num)), slog.Int("max_send_wr", q.init.Cap.MaxSendWR),
		slog.Int("max_recv_wr", q.init.Cap.MaxRecvWR), slog.Int("max_inline_data", q.init.Cap.MaxInlineData), slog.String("device", c.device.Name()))
	return q, nil
}

// create makes the queue pair and the memory to post from. The context's lock is held.
func (q *qp) create() error {
	c, a := q.pd.ctx, &q.init
	i := zeroed[cQPInitAttr](c.scratch)
	i.sendCQ, i.recvCQ, i.qpType = q.sendCQ.handle, q.recvCQ.handle, uint32(a.Type)
	i.cap = cQPCap{uint32(a.Cap.MaxSendWR), uint32(a.Cap.MaxRecvWR), uint32(a.Cap.MaxSendSGE), uint32(a.Cap.MaxRecvSGE), uint32(a.Cap.MaxInlineData)}
	if a.SigAll {
		i.sqSigAll = 1
	}
	handle, errno := c.lib.errno(c.lib.createQP, q.pd.handle, addr(c.scratch))
	if handle == 0 {
		return failed(errno, "create queue pair on %s with %d send and %d receive work requests of %d and %d SGEs and %d inline bytes (ibv_create_qp)",
			c.device.Name(), a.Cap.MaxSendWR, a.Cap.MaxRecvWR, a.Cap.MaxSendSGE, a.Cap.MaxRecvSGE, a.Cap.MaxInlineData)
	}
	q.handle, q.num = handle, at[cQP](handle).num
	a.Cap = i.cap.goForm()
	var err error
	if q.attr, err = memory.Alloc(2 * attrHalf); err == nil {
		if err = q.send.prepare(c.ops.postSend, handle, a.Cap.MaxSendSGE); err == nil {
			err = q.recv.prepare(c.ops.postRecv, handle, a.Cap.MaxRecvSGE)
		}
	}
	if err != nil {
		call(c.lib.destroyQP, handle)
		return errors.Join(fmt.Errorf("create queue pair: %w", err), q.free())
	}
	return nil
}

func (q *qp) free() error {
	return errors.Join(q.attr.Free(), q.send.block.Free(), q.recv.block.Free())
}

func (c cQPCap) goForm() verbs.QPCap {
	return verbs.QPCap{
		MaxSendWR: int(c.maxSendWR), MaxRecvWR: int(c.maxRecvWR), MaxSendSGE: int(c.maxSendSGE), MaxRecvSGE: int(c.maxRecvSGE),
		MaxInlineData: int(c.maxInlineData),
	}
}

func (q *qp) Num() uint32  { return q.num }
func (q *qp) PD() verbs.PD { return q.pd }

// live returns an error once the queue pair is closed. One of its locks is held.
func (q *qp) live() error {
	if q.closed {
		return fmt.Errorf("QP %s: %w", verbs.Hex(q.num), verbs.ErrClosed)
	}
	return nil
}

// queried is every attribute that QPAttr holds, for ibv_query_qp.
const queried = verbs.AttrState | verbs.AttrCurState | verbs.AttrAccess | verbs.AttrPKeyIndex | verbs.AttrPort | verbs.AttrAV |
	verbs.AttrPathMTU | verbs.AttrTimeout | verbs.AttrRetryCnt | verbs.AttrRNRRetry | verbs.AttrRQPSN | verbs.AttrMaxRDAtomic |
	verbs.AttrMinRNRTimer | verbs.AttrSQPSN | verbs.AttrMaxDestRDAtomic | verbs.AttrCap | verbs.AttrDestQPN

// query asks the device. The lock is held.
func (q *qp) query() (verbs.QPAttr, error) {
	a := zeroed[cQPAttr](q.attr)
	l := q.pd.ctx.lib
	if e := result(call(l.queryQP, q.handle, addr(q.attr), uintptr(queried), addr(q.attr)+attrHalf)); e != 0 {
		return verbs.QPAttr{}, failed(e, "query QP %s (ibv_query_qp)", verbs.Hex(q.num))
	}
	return a.goForm(), nil
}

func (q *qp) Query() (verbs.QPAttr, verbs.QPInitAttr, error) {
	q.control.Lock()
	defer q.control.Unlock()
	if err := q.live(); err != nil {
		return verbs.QPAttr{}, verbs.QPInitAttr{}, err
	}
	a, err := q.query()
	return a, q.init, err
}

func (q *qp) Modify(a verbs.QPAttr, mask verbs.AttrMask) error {
	q.control.Lock()
	defer q.control.Unlock()
	if err := q.live(); err != nil {
		return err
	}
	cur, err := q.query()
	if err != nil {
		return err
	}
	c := q.pd.ctx
	path := &verbs.ModifyPath{Device: &c.limits}
	number := cur.PortNum
	if mask&verbs.AttrPort != 0 {
		number = a.PortNum
	} else if mask&verbs.AttrAV != 0 && number == 0 {
		number = a.AH.PortNum
	}
	if port, err := c.portAttr(number); err == nil {
		path.Port = &port
		if mask&verbs.AttrAV != 0 && a.AH.IsGlobal {
			if gid, err := c.QueryGID(number, a.AH.GRH.SGIDIndex); err == nil {
				path.GID = &gid
			}
		}
	}
	if err := verbs.CheckModify(q.num, cur.State, &a, mask, path); err != nil {
		return err
	}
	zeroed[cQPAttr](q.attr).set(&a, mask)
	if e := result(call(c.lib.modifyQP, q.handle, addr(q.attr), uintptr(mask))); e != 0 {
		return verbs.RefusedModify(q.num, cur.State, &a, mask, path, e)
	}
	to := cur.State
	if mask&verbs.AttrState != 0 {
		to = a.State
	}
	q.state.Store(uint32(to))
	trace.Debug(trace.Verbs, "queue pair modified", slog.String("qpn", verbs.Hex(q.num)), slog.String("from", cur.State.String()),
		slog.String("to", to.String()), slog.String("mask", mask.String()))
	return nil
}

// Close implements verbs.QP. Nothing is flushed: completions that were not polled
// are gone, work that was not done makes none (ibv_destroy_qp(3)).
func (q *qp) Close() error {
	c := q.pd.ctx
	for _, m := range []*sync.Mutex{&q.control, &q.send.mu, &q.recv.mu, &c.mu} {
		m.Lock()
		defer m.Unlock()
	}
	if q.closed {
		return nil
	}
	if e := destroyed(call(c.lib.destroyQP, q.handle)); e != 0 {
		return failed(e, "close QP %s (ibv_destroy_qp)", verbs.Hex(q.num))
	}
	q.closed = true
	q.pd.children--
	q.sendCQ.users--
	q.recvCQ.users--
	trace.Debug(trace.Verbs, "queue pair closed", slog.String("qpn", verbs.Hex(q.num)))
	return q.free()
}

// set writes the attributes that the mask names.
func (c *cQPAttr) set(a *verbs.QPAttr, mask verbs.AttrMask) {
	*c = cQPAttr{
		qpState: uint32(a.State), curQPState: uint32(a.CurState), pathMTU: uint32(a.PathMTU), rqPSN: a.RQPSN, sqPSN: a.SQPSN,
		destQPNum: a.DestQPN, qpAccessFlags: uint32(a.Access), pkeyIndex: a.PKeyIndex, maxRDAtomic: a.MaxRDAtomic,
		maxDestRDAtomic: a.MaxDestRDAtomic, minRNRTimer: a.MinRNRTimer, portNum: uint8(a.PortNum), timeout: a.Timeout,
		retryCnt: a.RetryCnt, rnrRetry: a.RNRRetry,
	}
	if mask&verbs.AttrAV != 0 {
		c.ahAttr.set(&a.AH)
	}
}

// set writes an address vector: the LID of InfiniBand and, if it is global, as it
// always is on Ethernet, the GRH. On one subnet of InfiniBand the LID is enough.
func (c *cAHAttr) set(a *verbs.AHAttr) {
	*c = cAHAttr{dlid: a.DLID, sl: a.SL, portNum: uint8(a.PortNum)}
	if a.IsGlobal {
		c.isGlobal = 1
		c.grh = cGlobalRoute{
			dgid: a.GRH.DGID, flowLabel: a.GRH.FlowLabel, sgidIndex: uint8(a.GRH.SGIDIndex), hopLimit: a.GRH.HopLimit,
			trafficClass: a.GRH.TrafficClass,
		}
	}
}

func (c *cAHAttr) goForm() verbs.AHAttr {
	a := verbs.AHAttr{DLID: c.dlid, SL: c.sl, IsGlobal: c.isGlobal != 0, PortNum: int(c.portNum)}
	if a.IsGlobal {
		a.GRH = verbs.GlobalRoute{
			DGID: c.grh.dgid, FlowLabel: c.grh.flowLabel, SGIDIndex: int(c.grh.sgidIndex), HopLimit: c.grh.hopLimit,
			TrafficClass: c.grh.trafficClass,
		}
	}
	return a
}

func (c *cQPAttr) goForm() verbs.QPAttr {
	return verbs.QPAttr{
		State: verbs.QPState(c.qpState), CurState: verbs.QPState(c.curQPState), PathMTU: verbs.MTU(c.pathMTU), RQPSN: c.rqPSN,
		SQPSN: c.sqPSN, DestQPN: c.destQPNum, Access: verbs.Access(c.qpAccessFlags), Cap: c.cap.goForm(), AH: c.ahAttr.goForm(),
		PKeyIndex: c.pkeyIndex, PortNum: int(c.portNum), MaxRDAtomic: c.maxRDAtomic, MaxDestRDAtomic: c.maxDestRDAtomic,
		MinRNRTimer: c.minRNRTimer, Timeout: c.timeout, RetryCnt: c.retryCnt, RNRRetry: c.rnrRetry,
	}
}
