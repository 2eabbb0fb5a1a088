// Package meshtest has the tournament of links measure a simulated network, so that the verdict
// is held against what ports, cables, losses and thin links do, and not against matrices that
// were drawn. The tournament, what is measured again and the verdict are the product's; the
// conversation of a pair is that of cli/links, played by events: it streams for a sample of each
// part's time and rests for what is left. Pairs that lose packets are measured by queue pairs of
// package rc, under their own timers. What is left out: noise, other load, queue pairs that take
// time to connect, and the last part, both ways at once, which the verdict does not ask for.
package meshtest

import (
	"slices"
	"time"

	"ringcli/ring/diagnose/links"
	"ringcli/ring/diagnose/links/linkstest"
	"ringcli/verbs/soft/rc/rctest/fabric"
)

const (
	rate    = 11.8e9 // bytes/s
	latency = 4 * time.Microsecond
	around  = 66 // bytes of a packet's headers on its wire
	mtu     = 4096
	// What links measures with by itself.
	bytes, small, outstanding = 64 << 10, 8, 16
	span                      = 100 * time.Millisecond
	part                      = float64(span / 4)
	pings                     = 4
	// A stream is looked at for so long, or for ten times that where packets are lost.
	sample = float64(300 * time.Microsecond)
	// hop is a frame's way over the control ring to the next rank: a round ends with a barrier
	// of n-1 of them one after the other.
	hop = 50 * time.Microsecond
)

// Mesh is a network with faults, that is measured.
type Mesh struct {
	World  *linkstest.World // of which the faults are
	Clock  time.Duration    // that all rounds have taken
	Rounds int

	o     fabric.Options
	ports *fabric.Ports
	net   *fabric.Messages
	lossy map[links.Pair]float64
	speed [][2]float64 // by rank: of what it sends and receives
	into  *links.Figures
	talks []talk // by the lower rank, used anew in each round
}

// New makes a network with the faults of a world, whose ports differ by up to 3 %.
func New(w *linkstest.World, seed uint64, speed func() float64) *Mesh {
	o := fabric.Options{Nodes: w.N, Seed: seed, Latency: latency, Rate: rate, Around: around, MTU: mtu}
	m := &Mesh{World: w, o: o, ports: fabric.NewPorts(o), lossy: map[links.Pair]float64{}, talks: make([]talk, w.N)}
	for rank := range w.N {
		own := [2]float64{rate * speed(), rate * speed()}
		for _, f := range w.Faults {
			if f.Kind != links.Slow {
				continue
			}
			if f.Place == links.Sender && f.From[0] == rank {
				own[0] *= f.Amount
			}
			if f.Place == links.Receiver && f.To[0] == rank {
				own[1] *= f.Amount
			}
		}
		m.speed = append(m.speed, own)
		m.ports.SetNode(rank, own[0], own[1])
	}
	for _, f := range w.Faults {
		m.spoil(f)
	}
	m.net = fabric.NewMessages(m.ports)
	return m
}

func (m *Mesh) spoil(f linkstest.Fault) {
	switch {
	case f.Place == links.Group:
		group := make([]int, m.World.N)
		for _, rank := range f.From {
			group[rank] = 1
		}
		for _, rank := range f.To {
			group[rank] = 2
		}
		m.ports.SetGroups(group)
		// So many pairs of a round send over it at once, half of those that meet.
		share := max(1, float64(len(f.From)*len(f.To))/float64(m.World.N-1)/2)
		m.ports.SetTrunk(1, 2, f.Amount*share*rate)
		if f.Both {
			m.ports.SetTrunk(2, 1, f.Amount*share*rate)
		}
	case f.Place != links.OnePair:
	case f.Kind == links.Slow:
		m.ports.SetPair(f.From[0], f.To[0], fabric.Pair{Rate: f.Amount * rate})
	case f.Kind == links.Late:
		m.ports.SetPair(f.From[0], f.To[0], fabric.Pair{Later: time.Duration(f.Amount * 1e3)})
		m.ports.SetPair(f.To[0], f.From[0], fabric.Pair{Later: time.Duration(f.Amount * 1e3)})
	case f.Kind == links.Lossy:
		m.lossy[links.Pair{From: f.From[0], To: f.To[0]}] = f.Amount
	}
}

// Judge is what the command does: the mesh, the suspects again, and what holds.
func (m *Mesh) Judge() *links.Verdict {
	n := m.World.N
	figures := m.measure(links.Rounds(n), func(round int) []int { return links.Circle(n, round) })
	return linkstest.Again(links.Judge(figures, links.Options{}), n, func(batches [][]links.Pair) *links.Figures {
		var rounds [][]int
		for _, batch := range batches {
			rounds = append(rounds, links.Disjoint(n, batch)...)
		}
		return m.measure(len(rounds), func(round int) []int { return rounds[round] })
	})
}

func (m *Mesh) measure(rounds int, meets func(int) []int) *links.Figures {
	m.into = links.NewFigures(m.World.N)
	m.into.Group = m.World.Group
	for round := range rounds {
		took := time.Duration(0)
		var shared, alone []*talk
		for rank, other := range meets(round) {
			if other <= rank {
				continue
			}
			if pair := (links.Pair{From: rank, To: other}); m.lossy[pair]+m.lossy[pair.Reverse()] > 0 {
				took = max(took, m.measureLossy(pair))
			} else {
				x := &m.talks[rank]
				if x.renew(m.ports, rank, other); x.Shares() {
					shared = append(shared, x)
				} else {
					alone = append(alone, x)
				}
			}
		}
		begun := float64(m.Rounds) * float64(time.Second) // who shares a trunk needs a time of their own
		converse(begun, shared...)
		for _, x := range alone {
			converse(begun, x)
		}
		for _, x := range slices.Concat(shared, alone) {
			took = max(took, time.Duration(x.over-begun))
			m.note(&x.pair)
		}
		m.Clock += max(span, took) + time.Duration(m.World.N-1)*hop
		m.Rounds++
	}
	return m.into
}

// measureLossy measures a pair by queue pairs, on a network of its own.
func (m *Mesh) measureLossy(p links.Pair) time.Duration {
	o := m.o
	o.Nodes, o.Seed = 2, m.o.Seed+uint64(m.Rounds)
	ports := fabric.NewPorts(o)
	for i, rank := range []int{p.From, p.To} {
		ports.SetNode(i, m.speed[rank][0], m.speed[rank][1])
	}
	ports.SetPair(0, 1, fabric.Pair{Loss: m.lossy[p]})
	ports.SetPair(1, 0, fabric.Pair{Loss: m.lossy[p.Reverse()]})
	net := fabric.NewPackets(ports, bytes)
	pairs := newPairs(net, 2)
	x := pairs.add(0, 1, 10*sample)
	pairs.lost = func(sender int) float64 { return float64(net.QueuePair(sender, 1-sender).PacketSeqErr) }
	took := pairs.run()
	x.ends = [2]int{p.From, p.To}
	m.note(x)
	return took
}

func (m *Mesh) note(x *pair) {
	for way := range 2 {
		at := x.ends[way]*m.into.N + x.ends[1-way]
		m.into.Alone.V[at] = x.alone[way]
		m.into.Latency.V[at] = x.latency / 1e3
		m.into.Packets.V[at], m.into.Lost.V[at] = float64(x.packets[way]), x.lost[way]
	}
}

// pairs are measured at once.
type pairs struct {
	net   fabric.Network
	begun float64
	list  []*pair
	by    []*pair // by either rank; nil if it rests
	lost  func(sender int) float64
}

// pair is the conversation of two ranks; the first has the lower number.
type pair struct {
	ends    [2]int
	sample  float64
	phase   int // 0: latency; 1, 2: one way
	pinged  int
	at      float64 // when the ping or the stream began
	flying  [2]int
	sent    [2]int
	latency float64
	alone   [2]float64
	packets [2]int
	lost    [2]float64
	over    float64
}

func newPairs(net fabric.Network, n int) *pairs {
	return &pairs{net: net, begun: net.Now(), by: make([]*pair, n)}
}

func (p *pairs) add(a, b int, sample float64) *pair {
	x := &pair{ends: [2]int{a, b}, sample: sample}
	p.by[a], p.by[b], p.list = x, x, append(p.list, x)
	return x
}

// run has them all measured, and returns how long it took.
func (p *pairs) run() time.Duration {
	for _, x := range p.list {
		x.at = p.begun
		p.net.Send(x.ends[0], x.ends[1], small, 0)
	}
	p.net.Run(p, time.Hour)
	end := p.begun
	for _, x := range p.list {
		end = max(end, x.over)
		if p.lost != nil {
			x.lost = [2]float64{p.lost(0), p.lost(1)}
		}
	}
	return time.Duration(end - p.begun)
}

func (p *pairs) Arrived(from, to, size int, _ uint64) {
	if x := p.by[to]; x.phase == 0 {
		if to == x.ends[1] {
			p.net.Send(to, from, small, 0)
			return
		}
		now := p.net.Now()
		x.latency = (now - x.at) / 2
		if x.pinged++; x.pinged < pings {
			x.at = now
			p.net.Send(to, from, small, 0)
			return
		}
		p.next(x)
	}
}

// next begins the next part when its time has come.
func (p *pairs) next(x *pair) {
	x.phase++
	if x.phase == 3 {
		x.over = p.net.Now()
		return
	}
	p.net.Wake(max(p.net.Now(), p.begun+float64(x.phase)*part), x.ends[0])
}

func (p *pairs) Woke(rank int) {
	x := p.by[rank]
	x.at = p.net.Now()
	for range outstanding {
		p.stream(x, x.phase-1)
	}
}

func (p *pairs) stream(x *pair, way int) {
	x.flying[way]++
	x.sent[way]++
	x.packets[way] += bytes / mtu
	p.net.Send(x.ends[way], x.ends[1-way], bytes, 0)
}

func (p *pairs) Acked(from, _ int, _ uint64) {
	x := p.by[from]
	way := x.phase - 1
	if x.phase == 0 || x.phase == 3 || from != x.ends[way] || x.flying[way] == 0 { // a ping
		return
	}
	x.flying[way]--
	now := p.net.Now()
	if now < x.at+x.sample {
		p.stream(x, way)
		return
	}
	if x.flying[way] > 0 {
		return
	}
	x.alone[way] = float64(x.sent[way]*bytes) / (now - x.at)
	p.next(x)
}
