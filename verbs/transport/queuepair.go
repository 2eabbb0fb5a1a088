package transport

import (
	"ringcli/verbs"
	"ringcli/verbs/route"
)

// queuePair is a transport's queue pair and both ends' addresses. The transport's lock guards it.
type queuePair struct {
	adapter              *adapter
	sendDepth, recvDepth int

	// Set by Bind, before anybody polls for them.
	qp     verbs.QP
	queue  *queue
	number uint64
	inline int // bytes that a request carries itself at most

	own, peer address
	life      uint16 // how often it has begun anew
	receives  []verbs.WorkRequest
	unposted  int // receives to be posted again
	posted    int // receives that are posted
}

// QP attributes as rdma-core's examples have them, where they say something.
const (
	ackTimeout = 14 // 67 ms
	// slowTimeout is that of a device in software, whose process may have to wait for a CPU.
	slowTimeout = 15
	retries     = 6 // rdma_rxe takes 7 for ever
	forever     = 7 // RNR retries
	rnrTimer    = 8 // 160 µs: a receive is posted again as soon as its completion is polled
	mostReads   = 16
	inlineMost  = 220
)

func newQueuePair(a *adapter, depth int) queuePair {
	// As many sends of the peer are under way as it likes; a few more than ours keep most from
	// waiting for a receive.
	q := queuePair{adapter: a, sendDepth: depth + controlDepth, recvDepth: 2 * (depth + controlDepth)}
	if most := a.Attr.MaxQPWR; most > 0 {
		q.sendDepth, q.recvDepth = min(q.sendDepth, most), min(q.recvDepth, most)
	}
	q.receives = make([]verbs.WorkRequest, q.recvDepth)
	return q
}

// describe fills in what the peer must know. A UDP port is known once there is a queue pair.
func (q *queuePair) describe(name string) error {
	a := q.adapter
	gid, err := a.GIDEntry()
	if err != nil {
		return failed(ErrSystem, "%w", err)
	}
	q.own = address{
		name: name, device: a.Name(), gid: gid.GID, gidType: gid.Type, link: a.Port.Attr.LinkLayer, lid: a.Port.Attr.LID,
		udpPort: gid.UDPPort, can: a.Attr.Capabilities, qpn: q.qp.Num(), psn: q.own.psn, mtu: a.Port.Attr.ActiveMTU.Bytes(),
		reads: min(mostReads, a.Attr.MaxQPRDAtomic), domain: a.domain,
	}
	if q.own.can.HostLocal {
		q.own.host = route.ThisHost()
	}
	return nil
}

// toInit takes the queue pair from RESET to INIT and posts its receives.
func (q *queuePair) toInit() error {
	err := verbs.Advance(q.qp, verbs.QPAttr{
		State: verbs.StateInit, PortNum: q.adapter.Port.Num, Access: verbs.AccessRemoteWrite | verbs.AccessRemoteRead,
	})
	if err != nil {
		return failed(ErrSystem, "%w", err)
	}
	q.unposted, q.posted = q.recvDepth, 0
	return q.postReceives()
}

// postReceives posts the receives that were used. They have no room for data: nothing but empty
// messages and notifications takes one.
func (q *queuePair) postReceives() error {
	list := q.receives[:q.unposted]
	for i := range list {
		list[i] = verbs.WorkRequest{ID: q.requestID(idReceive)}
	}
	n, err := q.qp.PostRecv(list)
	q.posted += n
	q.unposted -= n
	if err != nil {
		return failed(ErrSystem, "post receives: %w", err)
	}
	return nil
}

// toRTS takes the queue pair from INIT to RTS. heard says that the peer has said hello to it before.
func (q *queuePair) toRTS(service route.Service, heard bool) error {
	a := q.adapter
	mtu, err := verbs.MTUFromBytes(min(q.own.mtu, q.peer.mtu))
	if err != nil {
		return failed(ErrURL, "%w", err)
	}
	av, err := a.Port.AddressVector(a.GID.Entry.Index, route.Remote{
		GID: q.peer.gid, LID: q.peer.lid, LinkLayer: q.peer.link, UDPPort: q.peer.udpPort, UDPSocket: q.peer.can.UDPSocket,
	}, service)
	if err != nil {
		return failed(ErrURL, "connect to %s: %w", q.peer.who(), err)
	}
	expected := q.peer.psn
	if heard {
		expected = (expected + 1) & 0xffffff // its hello, which is one packet
	}
	reads := min(mostReads, q.peer.reads)
	if most := a.Attr.MaxQPInitRDAtomic; most > 0 {
		reads = min(reads, most)
	}
	attr := verbs.QPAttr{
		State: verbs.StateRTR, PathMTU: mtu, AH: av, DestQPN: q.peer.qpn, RQPSN: expected,
		MaxDestRDAtomic: uint8(q.own.reads), MinRNRTimer: rnrTimer,
	}
	timeout := uint8(ackTimeout)
	if a.Attr.Software {
		timeout = slowTimeout
	}
	if err = verbs.Advance(q.qp, attr); err == nil {
		err = verbs.Advance(q.qp, verbs.QPAttr{
			State: verbs.StateRTS, SQPSN: q.own.psn, MaxRDAtomic: uint8(reads), Timeout: timeout, RetryCnt: retries, RNRRetry: forever,
		})
	}
	if err != nil {
		return failed(ErrSystem, "connect to %s: %w", q.peer.who(), err)
	}
	return nil
}

// A work request's ID: the transport's number, how often its queue pair has begun anew, and
// whether it is a receive.
const (
	idReceive  = 1
	idLifeBits = 16
)

func (q *queuePair) requestID(kind uint64) uint64 {
	return q.number<<(idLifeBits+1) | uint64(q.life)<<1 | kind
}
