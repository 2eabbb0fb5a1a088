package fabric

import (
	"math/rand/v2"
	"time"
)

// Options are what all nodes have alike.
type Options struct {
	Nodes   int
	Seed    uint64
	Latency time.Duration // of each pair, one way; zero is 2 us
	// Rate is what each port sends, and what it receives, in bytes per second; 0: no limit.
	Rate float64
	// MTU is what a packet carries at most, zero is 4096, and Around what it has besides, in
	// bytes of its wire.
	MTU, Around int
}

// Pair is what a directed pair has of its own.
type Pair struct {
	Later time.Duration // more latency than the others have
	Rate  float64       // bytes per second; 0: no limit
	Loss  float64       // share of packets
}

// Ports are the nodes' ports and what lies between them.
type Ports struct {
	o       Options
	rng     *rand.Rand
	send    []stage // by node
	receive []stage
	pairs   map[[2]int]*pair
	group   []int // by node; nil: one group
	trunks  map[[2]int]*stage
}

// stage is something that carries one after the other.
type stage struct {
	each float64 // ns per byte
	free float64 // ns: when it has carried what it was given
}

type pair struct {
	Pair
	stage
}

// NewPorts returns a network in which all nodes are alike.
func NewPorts(o Options) *Ports {
	if o.Latency == 0 {
		o.Latency = 2 * time.Microsecond
	}
	if o.MTU == 0 {
		o.MTU = 4096
	}
	p := &Ports{
		o: o, rng: rand.New(rand.NewPCG(o.Seed, 0xfab)), send: make([]stage, o.Nodes), receive: make([]stage, o.Nodes),
		pairs: map[[2]int]*pair{}, trunks: map[[2]int]*stage{},
	}
	for node := range o.Nodes {
		p.SetNode(node, o.Rate, o.Rate)
	}
	return p
}

// SetNode gives a node's port other rates, in bytes per second; 0: no limit.
func (p *Ports) SetNode(node int, send, receive float64) {
	p.send[node].each, p.receive[node].each = perByte(send), perByte(receive)
}

// SetPair gives a directed pair something of its own.
func (p *Ports) SetPair(from, to int, own Pair) {
	p.pairs[[2]int{from, to}] = &pair{own, stage{each: perByte(own.Rate)}}
}

// SetGroups divides the nodes, by the group of each. Without SetTrunk that changes nothing.
func (p *Ports) SetGroups(group []int) { p.group = group }

// SetTrunk bounds what the nodes of one group send to those of another, all together, in bytes
// per second.
func (p *Ports) SetTrunk(from, to int, rate float64) {
	p.trunks[[2]int{from, to}] = &stage{each: perByte(rate)}
}

// Lossy tells whether a pair loses packets.
func (p *Ports) Lossy(from, to int) bool {
	own := p.pairs[[2]int{from, to}]
	return own != nil && own.Loss > 0
}

// Latency is that of a directed pair.
func (p *Ports) Latency(from, to int) float64 {
	if own := p.pairs[[2]int{from, to}]; own != nil {
		return float64(p.o.Latency + own.Later)
	}
	return float64(p.o.Latency)
}

func perByte(rate float64) float64 {
	if rate == 0 {
		return 0
	}
	return 1e9 / rate
}

// pass carries so many bytes whose first is there at one time and whose last at another, and
// returns when they have passed.
func (s *stage) pass(bytes int, first, last float64) (float64, float64) {
	first = max(first, s.free)
	s.free = max(last, first+float64(bytes)*s.each)
	return first, s.free
}

// Leave has a node send so many bytes of the wire at a time in ns, and returns when the first
// and the last of them come to the receiver's port, which Reach is to be told then.
func (p *Ports) Leave(now float64, from, to, bytes int) (first, last float64, lost bool) {
	first, last = p.send[from].pass(bytes, now, now)
	own := p.pairs[[2]int{from, to}]
	if own != nil {
		first, last = own.pass(bytes, first, last)
		lost = own.Loss > 0 && p.rng.Float64() < own.Loss
	}
	if p.group != nil {
		if t := p.trunks[[2]int{p.group[from], p.group[to]}]; t != nil {
			first, last = t.pass(bytes, first, last)
		}
	}
	latency := p.Latency(from, to)
	return first + latency, last + latency, lost
}

// Reach returns when the last byte has passed the receiver's port, at which the first is now.
func (p *Ports) Reach(now, last float64, to, bytes int) float64 {
	_, end := p.receive[to].pass(bytes, now, last)
	return end
}

// Wire is how many bytes of the wire a message has.
func (p *Ports) Wire(bytes int) int {
	return bytes + max(1, (bytes+p.o.MTU-1)/p.o.MTU)*p.o.Around
}
