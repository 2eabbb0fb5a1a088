package fabric

import (
	"time"

	"ringcli/verbs"
	"ringcli/verbs/soft/rc"
	"ringcli/verbs/soft/rc/rctest/simnet"
)

// Packets is a network of queue pairs. Each two nodes that have to do with each other get one
// on either side, which is there at once.
type Packets struct {
	*Ports
	*simnet.Net
	nodes   []packetNode
	handler Handler
	most    int // bytes of a message
	sent    uint64
	bytes   uint64
}

type packetNode struct {
	node  *simnet.Node
	index int
	mem   *simnet.Region
	ends  map[int]*end
}

// end is a node's end of a connection.
type end struct {
	qp     *simnet.QP
	mine   *packetNode
	peer   *end
	flying []flying // sent and not acknowledged; they come in order
	came   int      // of them at the peer

	counters rc.Counters
}

type flying struct {
	bytes int
	tag   uint64
}

const (
	// depth is how many messages a connection may have under way, each way.
	depth = 64
	// window is how many packets: as many as there can be between two ports.
	window = 4096
)

// NewPackets returns a network of queue pairs over ports, for messages of so many bytes.
func NewPackets(p *Ports, most int) *Packets {
	n := &Packets{Ports: p, most: max(most, 1)}
	index := map[*simnet.Node]int{}
	n.Net = simnet.New(simnet.Options{Seed: p.o.Seed, KeepEarly: true, TellEarly: true, Between: &between{p, index}})
	n.nodes = make([]packetNode, p.o.Nodes)
	for i := range n.nodes {
		node := n.NewNode()
		index[node] = i
		n.nodes[i] = packetNode{node, i, node.Memory.Register(n.most, verbs.AccessLocalWrite|verbs.AccessRemoteWrite), map[int]*end{}}
	}
	return n
}

// between has packets of a simnet pass the ports.
type between struct {
	p     *Ports
	index map[*simnet.Node]int
}

func (b *between) Leave(now int64, src, dst *simnet.Node, bytes int) (first, last int64, lost bool) {
	from, to, lost := b.p.Leave(float64(now), b.index[src], b.index[dst], bytes+b.p.o.Around)
	return int64(from), int64(to), lost
}

func (b *between) Reach(now, last int64, dst *simnet.Node, bytes int) int64 {
	return int64(b.p.Reach(float64(now), float64(last), b.index[dst], bytes+b.p.o.Around))
}

func (n *Packets) Now() float64 { return float64(n.Net.Now()) }

func (n *Packets) Sent() (messages, bytes uint64) { return n.sent, n.bytes }

// QueuePair has the counters of a node's queue pair to another.
func (n *Packets) QueuePair(node, peer int) *rc.Counters { return &n.end(node, peer).counters }

func (n *Packets) Wake(at float64, node int) {
	n.After(time.Duration(at-n.Now()), func() { n.handler.Woke(node) })
}

func (n *Packets) Run(h Handler, limit time.Duration) bool {
	n.handler = h
	return n.Net.Run(limit)
}

func (n *Packets) Send(from, to, bytes int, tag uint64) {
	n.sent++
	n.bytes += uint64(bytes)
	e := n.end(from, to)
	e.flying = append(e.flying, flying{bytes, tag})
	mem := e.peer.mine.mem
	n.must(e.qp.PostSend(&verbs.WorkRequest{
		Opcode: verbs.OpWriteImm, Flags: verbs.FlagSignaled, SGL: []verbs.SGE{e.mine.mem.SGE(0, bytes)}, RemoteAddr: mem.Addr, RKey: mem.Key,
	}))
}

// end finds or makes the connection of two nodes.
func (n *Packets) end(from, to int) *end {
	a, b := &n.nodes[from], &n.nodes[to]
	if e := a.ends[to]; e != nil {
		return e
	}
	x, y := n.newEnd(a), n.newEnd(b)
	x.peer, y.peer = y, x
	a.ends[to], b.ends[from] = x, y
	attr := verbs.QPAttr{
		PathMTU: mtu(n.o.MTU), Access: verbs.AccessRemoteWrite, MaxRDAtomic: 1, MaxDestRDAtomic: 1, Timeout: 14, RetryCnt: 6, RNRRetry: 7, MinRNRTimer: 1,
	}
	n.must(simnet.Connect(x.qp, y.qp, attr, attr))
	for range depth {
		n.must(x.qp.PostRecv(&verbs.WorkRequest{}))
		n.must(y.qp.PostRecv(&verbs.WorkRequest{}))
	}
	return x
}

func (n *Packets) newEnd(node *packetNode) *end {
	e := &end{mine: node}
	e.qp = node.node.NewQP(rc.Config{Counters: &e.counters, Cap: verbs.QPCap{MaxSendWR: depth, MaxRecvWR: depth, MaxSendSGE: 1, MaxRecvSGE: 1}, Window: window})
	e.qp.Complete = func(c rc.Completion) { n.complete(e, c) }
	return e
}

func (n *Packets) complete(e *end, c rc.Completion) {
	if c.Status != verbs.Success {
		panic("fabric: " + c.Status.String())
	}
	if c.Recv {
		f := e.peer.flying[e.peer.came]
		e.peer.came++
		n.must(e.qp.PostRecv(&verbs.WorkRequest{}))
		n.handler.Arrived(e.peer.mine.index, e.mine.index, f.bytes, f.tag)
		return
	}
	f := e.flying[0]
	e.flying = e.flying[:copy(e.flying, e.flying[1:])]
	e.came--
	n.handler.Acked(e.mine.index, e.peer.mine.index, f.tag)
}

func (n *Packets) must(err error) {
	if err != nil {
		panic("fabric: " + err.Error())
	}
}

func mtu(bytes int) verbs.MTU {
	for m := verbs.MTU256; m < verbs.MTU4096; m++ {
		if m.Bytes() >= bytes {
			return m
		}
	}
	return verbs.MTU4096
}
