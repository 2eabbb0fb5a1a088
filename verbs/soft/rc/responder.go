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
	conn   *connection
	failed bool // a request was refused: the QP must go to ERR

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

func (r *responder) init(conn *connection) {
	r.conn = conn
	c := conn.cfg.Cap
	r.rq = make([]recvWQE, ringSize(c.MaxRecvWR))
	sges := make([]verbs.SGE, len(r.rq)*c.MaxRecvSGE)
	for i := range r.rq {
		r.rq[i].sge = sges[i*c.MaxRecvSGE : i*c.MaxRecvSGE : (i+1)*c.MaxRecvSGE]
	}
}

func (r *responder) reset() {
	r.failed = false
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

// post is QP.PostRecv.
func (r *responder) post(wr *verbs.WorkRequest, out *Output) error {
	if err := verbs.CheckRecv(r.conn.cfg.QPN, r.conn.state, &r.conn.cfg.Cap, int(r.rqTail-r.rqHead), wr); err != nil {
		return err
	}
	if r.conn.state == verbs.StateErr {
		out.complete(verbs.Completion{ID: wr.ID, Status: verbs.FlushError, Opcode: verbs.WCRecv, QPN: r.conn.cfg.QPN}, true, true)
		return nil
	}
	w := r.rwqe(r.rqTail)
	w.id, w.length = wr.ID, 0
	w.sge = append(w.sge[:0], wr.SGL...)
	for i := range w.sge {
		w.length += uint64(w.sge[i].Length)
	}
	r.rqTail++
	return nil
}

// step takes a request of the peer, with rdma_rxe's order of checks: PSN,
// opcode sequence, rights, receive request, length, rkey, execution.
func (r *responder) step(p *wire.Packet, bad error, now int64, out *Output) (early bool) {
	diff := wire.PSNDiff(p.PSN, r.expected)
	if diff > 0 {
		r.conn.cfg.Counters.OutOfSequence++
		if !r.nakSent {
			r.requestGap.notice(r.expected, p.PSN, now)
			r.nakGap(now)
		}
		return !r.rnrSent
	}
	if diff < 0 {
		r.conn.cfg.Counters.DuplicateRequest++
		if r.conn.cfg.KeepEarly {
			r.requestGap.again(p.PSN)
		}
		r.duplicate(p)
		return false
	}
	if r.conn.cfg.KeepEarly && r.nak == wire.NakPSNSeq { // not sent yet: it came in time
		r.nak, r.ackOwed, r.requestGap.asked = 0, true, false
	}
	r.requestGap.came(p.PSN, now)
	r.nakSent, r.rnrSent = false, false
	if !r.inSequence(p) || bad != nil {
		r.refuse(wire.NakInvalidRequest, out)
		return false
	}
	switch {
	case p.Flags&wire.IsSend != 0:
		r.stepSend(p, out)
	case p.Flags&wire.IsWrite != 0:
		r.stepWrite(p, out)
	case p.Flags&wire.IsRead != 0:
		r.stepRead(p, out)
	case p.Flags&wire.IsAtomic != 0:
		r.stepAtomic(p, out)
	default: // SEND with invalidate: no such keys are ever handed out
		r.refuse(wire.NakInvalidRequest, out)
	}
	return false
}

// nakGap owes the NAK of what is missing, once for each gap, when it is due.
func (r *responder) nakGap(now int64) {
	if r.requestGap.due(now) {
		r.requestGap.ask()
		r.nakSent = true
		r.owe(wire.NakPSNSeq, r.expected)
	}
}

// inSequence reports whether p may follow what came before it.
func (r *responder) inSequence(p *wire.Packet) bool {
	if p.Flags&wire.Starts != 0 {
		return r.message == 0
	}
	return r.message != 0 && p.Flags&r.message != 0
}

// fullEnough checks a data packet's payload against the path MTU.
func (r *responder) fullEnough(p *wire.Packet) bool {
	n := len(p.Payload)
	switch {
	case p.Flags&(wire.IsFirst|wire.IsMiddle) != 0:
		return n == r.conn.mtu
	case p.Flags&wire.IsLast != 0:
		return n >= 1 && n <= r.conn.mtu
	}
	return n <= r.conn.mtu
}

func (r *responder) stepSend(p *wire.Packet, out *Output) {
	if r.rqHead == r.rqTail {
		r.notReady()
		return
	}
	w := r.rwqe(r.rqHead)
	if !r.fullEnough(p) {
		r.refuse(wire.NakInvalidRequest, out)
		return
	}
	if p.Flags&wire.Starts != 0 {
		r.message, r.received = wire.IsSend, 0
	}
	n := uint64(len(p.Payload))
	if r.received+n > w.length {
		r.failRecv(verbs.LocalLengthError, out)
		r.refuse(wire.NakInvalidRequest, out)
		return
	}
	if n != 0 && !r.conn.covered(w.sge, true) {
		r.failRecv(verbs.LocalProtectionError, out)
		r.refuse(wire.NakRemoteOp, out)
		return
	}
	out.place(w.sge, int(r.received), p.Payload)
	r.received += n
	r.accepted(p, verbs.WCRecv, out)
}

func (r *responder) stepWrite(p *wire.Packet, out *Output) {
	if r.conn.attr.Access&verbs.AccessRemoteWrite == 0 {
		r.refuse(wire.NakInvalidRequest, out)
		return
	}
	if p.Flags&wire.NeedsRecv != 0 && r.rqHead == r.rqTail {
		r.notReady()
		return
	}
	if p.Flags&wire.Starts != 0 {
		r.va, r.rkey, r.dmaLen = p.RETH.VA(), p.RETH.RKey(), p.RETH.DMALen()
		r.message, r.received = wire.IsWrite, 0
	}
	n := uint64(len(p.Payload))
	end := r.received + n
	if !r.fullEnough(p) || r.dmaLen > verbs.MaxMessage || end > uint64(r.dmaLen) || p.Flags&wire.Ends != 0 && end != uint64(r.dmaLen) {
		r.refuse(wire.NakInvalidRequest, out)
		return
	}
	// The first packet answers for the whole range, each later one for its own
	// part: the region may have been deregistered in between.
	addr, length := r.va+r.received, n
	if p.Flags&wire.Starts != 0 {
		length = uint64(r.dmaLen)
	}
	if length != 0 && !r.conn.cfg.Memory.Remote(r.rkey, addr, length, verbs.AccessRemoteWrite) {
		r.refuse(wire.NakRemoteAccess, out)
		return
	}
	if n != 0 {
		out.Orders = append(out.Orders, Order{Kind: Place, Addr: addr, Data: p.Payload})
	}
	r.received = end
	r.accepted(p, verbs.WCRecvWriteImm, out)
}

// accepted moves past a SEND or WRITE packet whose payload is placed.
func (r *responder) accepted(p *wire.Packet, op verbs.WCOpcode, out *Output) {
	r.taken, r.expected = r.expected, wire.PSNAdd(r.expected, 1)
	if p.Flags&wire.Ends != 0 {
		r.msn = (r.msn + 1) & wire.PSNMask
		r.message = 0
		if p.Flags&wire.CompletesRecv != 0 {
			c := verbs.Completion{ID: r.rwqe(r.rqHead).id, Opcode: op, ByteLen: uint32(r.received), QPN: r.conn.cfg.QPN}
			if p.Flags&wire.HasImm != 0 {
				c.Imm, c.Flags = p.Imm, verbs.WCWithImm
			}
			r.rqHead++
			out.complete(c, true, p.Solicited)
		}
	}
	if p.AckReq {
		r.ackOwed = true
	}
	r.ackCount++
}

// notReady answers a message that finds no receive request.
func (r *responder) notReady() {
	r.nakSent, r.rnrSent = true, true
	r.owe(wire.RNRSyndrome(r.conn.attr.MinRNRTimer), r.expected)
}

// refuse answers the expected packet with a NAK that ends the connection.
func (r *responder) refuse(s wire.Syndrome, out *Output) {
	r.owe(s, r.expected)
	r.failed = true
}

func (r *responder) owe(s wire.Syndrome, psn uint32) {
	r.nak, r.nakAt = s, psn
	r.ackOwed = false
}

// failRecv completes the current receive request with an error.
func (r *responder) failRecv(s verbs.Status, out *Output) {
	r.conn.cfg.Counters.RespCQEError++
	out.complete(verbs.Completion{ID: r.rwqe(r.rqHead).id, Status: s, Opcode: verbs.WCRecv, QPN: r.conn.cfg.QPN}, true, true)
	r.rqHead++
}

func (r *responder) flush(out *Output) {
	for ; r.rqHead != r.rqTail; r.rqHead++ {
		out.complete(verbs.Completion{ID: r.rwqe(r.rqHead).id, Status: verbs.FlushError, Opcode: verbs.WCRecv, QPN: r.conn.cfg.QPN}, true, true)
	}
	r.message, r.ackOwed, r.requestGap.since = 0, false, 0
}

func (r *responder) emitNak(out *Output) {
	if r.nak == 0 {
		return
	}
	psn := r.nakAt
	if r.nak == wire.NakPSNSeq {
		psn = r.expected // what was missing may have come since
	}
	f := r.responseBTH(wire.Acknowledge, psn)
	wire.AETH(out.packet(&f).Header[wire.BTHLen:]).Encode(r.nak, r.msn)
	r.nak = 0
	r.conn.cfg.Counters.NakPkts++
}

// emitAck appends the ACK that is owed, unless answers must go first. It is for what
// was taken last, and after a duplicate that need not be what was done last: a READ
// or an atomic is acknowledged by its response alone (IBA 1.4, 9.7.5.1.2), and where
// that got lost rdma_rxe takes an ACK of the same PSN for its end.
func (r *responder) emitAck(out *Output) {
	if !r.ackOwed || len(r.queue) > 0 || r.conn.state == verbs.StateErr {
		return
	}
	f := r.responseBTH(wire.Acknowledge, r.taken)
	wire.AETH(out.packet(&f).Header[wire.BTHLen:]).Encode(wire.SyndromeAck, r.msn)
	r.ackOwed, r.ackCount = false, 0
	r.conn.cfg.Counters.AckPkts++
}

func (r *responder) responseBTH(op wire.Opcode, psn uint32) wire.BTHFields {
	return wire.BTHFields{Opcode: op, MigReq: true, PKey: wire.DefaultPKey, DestQPN: r.conn.attr.DestQPN, PSN: psn}
}
