package rc

import (
	"ringcli/verbs"
	"ringcli/verbs/soft/wire"
)

type recvWQE struct {
	id     uint64
	length uint64
	sge    []verbs.SGE
}

// responder is the receiving half: the receive queue, the expected PSN and the
// message being received.
type responder struct {
	rq             []recvWQE
	rqHead, rqTail uint32

	expected uint32 // PSN
	taken    uint32 // PSN of the last SEND or WRITE packet, or the one before all
	msn      uint32
	nakSent  bool // silence until the expected PSN comes
	rnrSent  bool // so, and the peer will send all from there again

	requestGap gap

	message  wire.OpFlags // IsSend or IsWrite while inside a message, else 0
	received uint64       // bytes of the message so far
	va       uint64       // WRITE: where the message goes
	rkey     uint32
	dmaLen   uint32

	owed
	remembered []answer // the last READs and atomics, oldest overwritten
	origs      []uint64 // their atomics' values
	nextAnswer int
	ackOwed    bool
	ackCount   int // SEND and WRITE packets taken since the last ACK
}

func (r *responder) init(c verbs.QPCap) {
	r.rq = make([]recvWQE, ringSize(c.MaxRecvWR))
	sges := make([]verbs.SGE, len(r.rq)*c.MaxRecvSGE)
	for i := range r.rq {
		r.rq[i].sge = sges[i*c.MaxRecvSGE : i*c.MaxRecvSGE : (i+1)*c.MaxRecvSGE]
	}
}

func (r *responder) reset() {
	r.rqHead, r.rqTail = 0, 0
	r.expect(0)
	r.msn, r.nakSent, r.rnrSent, r.requestGap = 0, false, false, gap{}
	r.message, r.received = 0, 0
	r.clear()
	r.remembered, r.nextAnswer = r.remembered[:0], 0
	r.ackOwed, r.ackCount = false, 0
}

// expect sets the PSN of the first request.
func (r *responder) expect(psn uint32) { r.expected, r.taken = psn, wire.PSNAdd(psn, -1) }

func (r *responder) rwqe(i uint32) *recvWQE { return &r.rq[i&uint32(len(r.rq)-1)] }

// PostRecv queues one receive request. The SGL is copied, the memory is not.
func (q *QP) PostRecv(wr *verbs.WorkRequest, out *Output) error {
	if err := verbs.CheckRecv(q.cfg.QPN, q.state, &q.cfg.Cap, int(q.rqTail-q.rqHead), wr); err != nil {
		return err
	}
	if q.state == verbs.StateErr {
		out.complete(verbs.Completion{ID: wr.ID, Status: verbs.FlushError, Opcode: verbs.WCRecv, QPN: q.cfg.QPN}, true, true)
		return nil
	}
	w := q.rwqe(q.rqTail)
	w.id, w.length = wr.ID, 0
	w.sge = append(w.sge[:0], wr.SGL...)
	for i := range w.sge {
		w.length += uint64(w.sge[i].Length)
	}
	q.rqTail++
	return nil
}

// stepRequest takes a request of the peer, with rdma_rxe's order of checks: PSN,
// opcode sequence, rights, receive request, length, rkey, execution.
func (q *QP) stepRequest(p *wire.Packet, bad error, now int64, out *Output) (early bool) {
	diff := wire.PSNDiff(p.PSN, q.expected)
	if diff > 0 {
		q.cfg.Counters.OutOfSequence++
		if !q.nakSent {
			q.requestGap.notice(q.expected, p.PSN, now)
			q.nakGap(now)
		}
		return !q.rnrSent
	}
	if diff < 0 {
		q.cfg.Counters.DuplicateRequest++
		if q.cfg.KeepEarly {
			q.requestGap.again(p.PSN)
		}
		q.duplicate(p)
		return false
	}
	if q.cfg.KeepEarly && q.nak == wire.NakPSNSeq { // not sent yet: it came in time
		q.nak, q.ackOwed, q.requestGap.asked = 0, true, false
	}
	q.requestGap.came(p.PSN, now)
	q.nakSent, q.rnrSent = false, false
	if !q.inSequence(p) || bad != nil {
		q.refuse(wire.NakInvalidRequest, out)
		return false
	}
	switch {
	case p.Flags&wire.IsSend != 0:
		q.stepSend(p, out)
	case p.Flags&wire.IsWrite != 0:
		q.stepWrite(p, out)
	case p.Flags&wire.IsRead != 0:
		q.stepRead(p, out)
	case p.Flags&wire.IsAtomic != 0:
		q.stepAtomic(p, out)
	default: // SEND with invalidate: no such keys are ever handed out
		q.refuse(wire.NakInvalidRequest, out)
	}
	return false
}

// nakGap owes the NAK of what is missing, once for each gap, when it is due.
func (q *QP) nakGap(now int64) {
	if q.requestGap.due(now) {
		q.requestGap.ask()
		q.nakSent = true
		q.owe(wire.NakPSNSeq, q.expected)
	}
}

// inSequence reports whether p may follow what came before it.
func (q *QP) inSequence(p *wire.Packet) bool {
	if p.Flags&wire.Starts != 0 {
		return q.message == 0
	}
	return q.message != 0 && p.Flags&q.message != 0
}

// fullEnough checks a data packet's payload against the path MTU.
func (q *QP) fullEnough(p *wire.Packet) bool {
	n := len(p.Payload)
	switch {
	case p.Flags&(wire.IsFirst|wire.IsMiddle) != 0:
		return n == q.mtu
	case p.Flags&wire.IsLast != 0:
		return n >= 1 && n <= q.mtu
	}
	return n <= q.mtu
}

func (q *QP) stepSend(p *wire.Packet, out *Output) {
	if q.rqHead == q.rqTail {
		q.notReady()
		return
	}
	w := q.rwqe(q.rqHead)
	if !q.fullEnough(p) {
		q.refuse(wire.NakInvalidRequest, out)
		return
	}
	if p.Flags&wire.Starts != 0 {
		q.message, q.received = wire.IsSend, 0
	}
	n := uint64(len(p.Payload))
	if q.received+n > w.length {
		q.failRecv(verbs.LocalLengthError, out)
		q.refuse(wire.NakInvalidRequest, out)
		return
	}
	if n != 0 && !q.covered(w.sge, true) {
		q.failRecv(verbs.LocalProtectionError, out)
		q.refuse(wire.NakRemoteOp, out)
		return
	}
	out.place(w.sge, int(q.received), p.Payload)
	q.received += n
	q.accepted(p, verbs.WCRecv, out)
}

func (q *QP) stepWrite(p *wire.Packet, out *Output) {
	if q.attr.Access&verbs.AccessRemoteWrite == 0 {
		q.refuse(wire.NakInvalidRequest, out)
		return
	}
	if p.Flags&wire.NeedsRecv != 0 && q.rqHead == q.rqTail {
		q.notReady()
		return
	}
	if p.Flags&wire.Starts != 0 {
		q.va, q.rkey, q.dmaLen = p.RETH.VA(), p.RETH.RKey(), p.RETH.DMALen()
		q.message, q.received = wire.IsWrite, 0
	}
	n := uint64(len(p.Payload))
	end := q.received + n
	if !q.fullEnough(p) || q.dmaLen > verbs.MaxMessage || end > uint64(q.dmaLen) || p.Flags&wire.Ends != 0 && end != uint64(q.dmaLen) {
		q.refuse(wire.NakInvalidRequest, out)
		return
	}
	// The first packet answers for the whole range, each later one for its own
	// part: the region may have been deregistered in between.
	addr, length := q.va+q.received, n
	if p.Flags&wire.Starts != 0 {
		length = uint64(q.dmaLen)
	}
	if length != 0 && !q.cfg.Memory.Remote(q.rkey, addr, length, verbs.AccessRemoteWrite) {
		q.refuse(wire.NakRemoteAccess, out)
		return
	}
	if n != 0 {
		out.Orders = append(out.Orders, Order{Kind: Place, Addr: addr, Data: p.Payload})
	}
	q.received = end
	q.accepted(p, verbs.WCRecvWriteImm, out)
}

// accepted moves past a SEND or WRITE packet whose payload is placed.
func (q *QP) accepted(p *wire.Packet, op verbs.WCOpcode, out *Output) {
	q.taken, q.expected = q.expected, wire.PSNAdd(q.expected, 1)
	if p.Flags&wire.Ends != 0 {
		q.msn = (q.msn + 1) & wire.PSNMask
		q.message = 0
		if p.Flags&wire.CompletesRecv != 0 {
			c := verbs.Completion{ID: q.rwqe(q.rqHead).id, Opcode: op, ByteLen: uint32(q.received), QPN: q.cfg.QPN}
			if p.Flags&wire.HasImm != 0 {
				c.Imm, c.Flags = p.Imm, verbs.WCWithImm
			}
			q.rqHead++
			out.complete(c, true, p.Solicited)
		}
	}
	if p.AckReq {
		q.ackOwed = true
	}
	q.ackCount++
}

// notReady answers a message that finds no receive request.
func (q *QP) notReady() {
	q.nakSent, q.rnrSent = true, true
	q.owe(wire.RNRSyndrome(q.attr.MinRNRTimer), q.expected)
}

// refuse answers the expected packet with a NAK that ends the connection.
func (q *QP) refuse(s wire.Syndrome, out *Output) {
	q.owe(s, q.expected)
	q.becomeErr(out)
}

func (q *QP) owe(s wire.Syndrome, psn uint32) {
	q.nak, q.nakAt = s, psn
	q.ackOwed = false
}

// failRecv completes the current receive request with an error.
func (q *QP) failRecv(s verbs.Status, out *Output) {
	q.cfg.Counters.RespCQEError++
	out.complete(verbs.Completion{ID: q.rwqe(q.rqHead).id, Status: s, Opcode: verbs.WCRecv, QPN: q.cfg.QPN}, true, true)
	q.rqHead++
}

func (q *QP) flushRecvs(out *Output) {
	for ; q.rqHead != q.rqTail; q.rqHead++ {
		out.complete(verbs.Completion{ID: q.rwqe(q.rqHead).id, Status: verbs.FlushError, Opcode: verbs.WCRecv, QPN: q.cfg.QPN}, true, true)
	}
	q.message = 0
}

func (q *QP) emitNak(out *Output) {
	if q.nak == 0 {
		return
	}
	psn := q.nakAt
	if q.nak == wire.NakPSNSeq {
		psn = q.expected // what was missing may have come since
	}
	f := q.responseBTH(wire.Acknowledge, psn)
	wire.AETH(out.packet(&f).Header[wire.BTHLen:]).Encode(q.nak, q.msn)
	q.nak = 0
	q.cfg.Counters.NakPkts++
}

// emitAck appends the ACK that is owed, unless answers must go first. It is for what
// was taken last, and after a duplicate that need not be what was done last: a READ
// or an atomic is acknowledged by its response alone (IBA 1.4, 9.7.5.1.2), and where
// that got lost rdma_rxe takes an ACK of the same PSN for its end.
func (q *QP) emitAck(out *Output) {
	if !q.ackOwed || len(q.queue) > 0 || q.state == verbs.StateErr {
		return
	}
	f := q.responseBTH(wire.Acknowledge, q.taken)
	wire.AETH(out.packet(&f).Header[wire.BTHLen:]).Encode(wire.SyndromeAck, q.msn)
	q.ackOwed, q.ackCount = false, 0
	q.cfg.Counters.AckPkts++
}

func (q *QP) responseBTH(op wire.Opcode, psn uint32) wire.BTHFields {
	return wire.BTHFields{Opcode: op, MigReq: true, PKey: wire.DefaultPKey, DestQPN: q.attr.DestQPN, PSN: psn}
}
