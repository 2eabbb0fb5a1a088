package simnet

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"ringcli/verbs"
	"ringcli/verbs/soft/rc"
	"ringcli/verbs/soft/reorder"
	"ringcli/verbs/soft/wire"
)

// Node is a machine: an address, memory and queue pairs.
type Node struct {
	Addr   netip.AddrPort
	Memory Memory

	net  *Net
	qps  map[uint32]*QP
	free int64 // when its link has sent all it was given
}

// NewNode adds a node. Addresses count up from 10.0.0.1.
func (n *Net) NewNode() *Node {
	var ip [4]byte
	binary.BigEndian.PutUint32(ip[:], 10<<24|uint32(len(n.nodes)+1))
	node := &Node{Addr: netip.AddrPortFrom(netip.AddrFrom4(ip), wire.UDPPort), net: n, qps: make(map[uint32]*QP)}
	n.nodes[node.Addr] = node
	return node
}

// QP is a queue pair on a node.
type QP struct {
	Node *Node
	// Complete is called for every completion, after the memory is in place. It
	// may post.
	Complete func(rc.Completion)

	rc     *rc.QP
	out    rc.Output
	peer   *QP
	early  reorder.Packets
	tx, rx wire.Flow
	wakeAt int64 // when progress is scheduled, 0 if none
	ackAt  int64 // when the ACK that is owed is to be sent, 0 if none
}

// NewQP adds a queue pair. The configuration's Memory, Counters and QPN are
// filled in where they are zero.
func (node *Node) NewQP(c rc.Config) *QP {
	if c.Memory == nil {
		c.Memory = &node.Memory
	}
	if c.Counters == nil {
		c.Counters = &node.net.Counters
	}
	if c.QPN == 0 {
		c.QPN = uint32(len(node.qps)) + 16
	}
	c.KeepEarly = node.net.opts.KeepEarly
	q := &QP{Node: node, rc: rc.New(c)}
	node.qps[c.QPN] = q
	return q
}

// RC returns the state machine, to be looked at.
func (q *QP) RC() *rc.QP { return q.rc }

// Connect takes two queue pairs from RESET to RTS. Destination, RQPSN and the
// address vector are filled in; the rest of the attributes is the callers'.
func Connect(a, b *QP, attrA, attrB verbs.QPAttr) error {
	a.join(b)
	b.join(a)
	attrA.DestQPN, attrA.RQPSN = b.rc.Num(), attrB.SQPSN
	attrB.DestQPN, attrB.RQPSN = a.rc.Num(), attrA.SQPSN
	if err := a.start(attrA); err != nil {
		return err
	}
	return b.start(attrB)
}

func (q *QP) join(peer *QP) {
	q.peer = peer
	q.tx, q.rx = wire.NewFlow(q.Node.Addr, peer.Node.Addr), wire.NewFlow(peer.Node.Addr, q.Node.Addr)
}

// start walks the states up to RTS.
func (q *QP) start(a verbs.QPAttr) error {
	a.PortNum = 1
	a.AH = verbs.AHAttr{IsGlobal: true, PortNum: 1, GRH: verbs.GlobalRoute{DGID: verbs.GIDFromAddr(q.peer.Node.Addr.Addr())},
		UDP: verbs.UDPPeer{LowIPIDs: q.Node.net.opts.TellEarly}}
	for _, step := range []struct {
		state verbs.QPState
		mask  verbs.AttrMask
	}{
		{verbs.StateInit, verbs.AttrPKeyIndex | verbs.AttrPort | verbs.AttrAccess},
		{verbs.StateRTR, verbs.AttrAV | verbs.AttrPathMTU | verbs.AttrDestQPN | verbs.AttrRQPSN | verbs.AttrMaxDestRDAtomic | verbs.AttrMinRNRTimer},
		{verbs.StateRTS, verbs.AttrTimeout | verbs.AttrRetryCnt | verbs.AttrRNRRetry | verbs.AttrSQPSN | verbs.AttrMaxRDAtomic},
	} {
		a.State = step.state
		if err := q.Modify(a, verbs.AttrState|step.mask); err != nil {
			return fmt.Errorf("connect to %s: %w", q.peer.Node.Addr, err)
		}
	}
	return nil
}

// Modify checks and applies a change.
func (q *QP) Modify(a verbs.QPAttr, mask verbs.AttrMask) error {
	if err := verbs.CheckModify(q.rc.Num(), q.rc.State(), &a, mask, nil); err != nil {
		return err
	}
	q.rc.Modify(&a, mask, &q.out)
	q.wake(q.Node.net.now)
	return nil
}

// PostSend posts a work request; what it sets off happens in the next Step.
func (q *QP) PostSend(wr *verbs.WorkRequest) error {
	err := q.rc.PostSend(wr, &q.out)
	q.wake(q.Node.net.now)
	return err
}

// PostRecv posts a receive request.
func (q *QP) PostRecv(wr *verbs.WorkRequest) error {
	err := q.rc.PostRecv(wr, &q.out)
	q.wake(q.Node.net.now)
	return err
}

// wake schedules progress of the queue pair, if none is earlier.
func (q *QP) wake(at int64) {
	at = max(at, q.Node.net.now)
	if q.wakeAt != 0 && q.wakeAt <= at {
		return
	}
	q.wakeAt = at
	q.Node.net.events.Push(at, event{qp: q})
}

// progress runs the timers that are due and sends what may be sent.
func (q *QP) progress() {
	n := q.Node.net
	q.publish()
	if d := q.rc.Deadline(); d != 0 && n.now >= d {
		q.rc.Tick(n.now, &q.out)
		q.publish()
	}
	acks := n.opts.AckDelay == 0 || q.ackAt != 0 && n.now >= q.ackAt
	for more := true; more; {
		more = q.rc.Emit(n.now, acks, n.opts.Budget, &q.out)
		q.publish()
		n.transmit(q, &q.out)
		q.out.ResetPackets()
	}
	switch {
	case !q.rc.OwesAck():
		q.ackAt = 0
	case q.ackAt == 0:
		q.ackAt = n.now + int64(n.opts.AckDelay)
	}
	if q.ackAt != 0 {
		q.wake(q.ackAt)
	}
	if d := q.rc.Deadline(); d != 0 {
		q.wake(d)
	}
}

// publish carries out the orders, then publishes the completions.
func (q *QP) publish() {
	for i := range q.out.Orders {
		q.Node.Memory.Carry(&q.out.Orders[i])
	}
	q.out.Orders = q.out.Orders[:0]
	for i := 0; i < len(q.out.Completions); i++ {
		if q.Complete != nil {
			q.Complete(q.out.Completions[i])
		}
	}
	q.out.Completions = q.out.Completions[:0]
}
