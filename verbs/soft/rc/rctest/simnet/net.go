package simnet

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"ringcli/verbs/soft/rc"
	"ringcli/verbs/soft/wire"
)

// Faults are what may happen to a packet, each with a probability.
type Faults struct {
	Loss      float64
	Duplicate float64
	Reorder   float64       // it takes up to ten times Latency longer
	Corrupt   float64       // one to eight bits anywhere from BTH to ICRC are flipped
	Jitter    time.Duration // every packet takes any time up to so much longer
}

// Options say how a network is. The zero value is a fast one without faults.
type Options struct {
	Seed   uint64
	Faults Faults
	// Latency of a packet, one way. Zero takes 2 us.
	Latency time.Duration
	// Turnaround is how long a node takes from a packet's arrival to its
	// answer. Packets that arrive meanwhile are answered together.
	Turnaround time.Duration
	// AckDelay is how long an ACK that is merely owed is held back.
	AckDelay time.Duration
	// Budget is how many packets a queue pair emits at once. Zero takes 64.
	Budget int
	// Bandwidth is what a node sends at most, in bytes per second; 0: no limit.
	Bandwidth float64
	// KeepEarly has nodes keep what comes early, as endpoints do, and TellEarly has
	// them count on it of each other.
	KeepEarly, TellEarly bool
	// Trace is called for every packet as it is sent, if not nil.
	Trace func(Event)
	// Between says how packets get from node to node, if not nil, in place of Latency and
	// Bandwidth.
	Between Between
	// Drop is asked whether a packet is lost, if not nil, besides Faults.
	Drop func(b []byte) bool
}

// Between is what lies between nodes. Leave tells when the first and the last byte of a packet
// come to the receiver's port, and Reach, which is asked then, when it has them all.
type Between interface {
	Leave(now int64, src, dst *Node, bytes int) (first, last int64, lost bool)
	Reach(now, last int64, dst *Node, bytes int) int64
}

// Event is a packet that is sent, and its fate.
type Event struct {
	At       int64 // ns
	Src, Dst *Node
	Packet   []byte // UDP payload as it was meant; valid during the call
	Fate     string // what befalls it, empty for nothing
}

// Stats count packets.
type Stats struct {
	Sent, Lost, Duplicated, Delayed, Corrupted int
	Detected                                   int // dropped for their ICRC, their headers or their address
	Undetected                                 int // damaged, and taken for good
}

// Net is a network under a virtual clock.
type Net struct {
	Counters rc.Counters // of all queue pairs together
	Stats    Stats

	opts   Options
	rand   *rand.Rand
	now    int64
	events Queue[int64, event]
	nodes  map[netip.AddrPort]*Node
	parsed wire.Packet
	spare  [][]byte
}

// New returns a network without nodes. Its clock begins at 1 ns, as queue pairs
// take 0 for "no time".
func New(o Options) *Net {
	if o.Latency == 0 {
		o.Latency = 2 * time.Microsecond
	}
	if o.Budget == 0 {
		o.Budget = 64
	}
	return &Net{opts: o, rand: rand.New(rand.NewPCG(o.Seed, 0x51)), now: 1, nodes: make(map[netip.AddrPort]*Node)}
}

// Now returns the virtual time in ns.
func (n *Net) Now() int64 { return n.now }

// event is something that happens at a time: a packet arrives, a queue pair makes
// progress, or a caller's function is called.
type event struct {
	packet *packet
	qp     *QP
	call   func()
}

// After has f called once d has passed.
func (n *Net) After(d time.Duration, f func()) { n.events.Push(n.now+int64(d), event{call: f}) }

// Step lets the next event happen. It returns false if there is none.
func (n *Net) Step() bool {
	if _, ok := n.events.Next(); !ok {
		return false
	}
	var e event
	n.now, e = n.events.Pop()
	switch {
	case e.packet != nil && e.packet.last != 0:
		p := e.packet
		at := n.opts.Between.Reach(n.now, p.last, p.dst, len(p.data))
		p.last = 0
		n.events.Push(max(at, n.now), event{packet: p})
	case e.packet != nil:
		n.arrive(e.packet)
	case e.qp != nil:
		if e.qp.wakeAt == n.now { // else it was put off or brought forward
			e.qp.wakeAt = 0
			e.qp.progress()
		}
	default:
		e.call()
	}
	return true
}

// Run lets events happen until there are none or the virtual clock has moved by
// limit. It reports whether there are none.
func (n *Net) Run(limit time.Duration) (quiet bool) {
	end := n.now + int64(limit)
	for {
		if at, ok := n.events.Next(); !ok || at > end {
			return !ok
		}
		n.Step()
	}
}
