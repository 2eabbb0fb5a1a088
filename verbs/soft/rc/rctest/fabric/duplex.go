package fabric

// Duplex is a pair of nodes whose ports nobody else uses meanwhile. What its messages take follows
// from those before them, and from those of others on the trunk that it shares: it needs no events.
type Duplex struct{ way [2]lane }

// lane is one direction.
type lane struct {
	send, own, receive stage
	trunk              *stage // of the network; nil if there is none
	latency            float64
}

// NewDuplex returns a pair of a network, of which nothing is in flight. It panics if the pair
// loses packets.
func NewDuplex(p *Ports, a, b int) (d Duplex) {
	if p.Lossy(a, b) || p.Lossy(b, a) {
		panic("fabric: a pair that loses packets needs Packets")
	}
	for way, ends := range [2][2]int{{a, b}, {b, a}} {
		l := lane{send: stage{each: p.send[ends[0]].each}, receive: stage{each: p.receive[ends[1]].each}, latency: p.Latency(ends[0], ends[1])}
		if own := p.pairs[ends]; own != nil {
			l.own.each = own.each
		}
		if p.group != nil {
			l.trunk = p.trunks[[2]int{p.group[ends[0]], p.group[ends[1]]}]
		}
		d.way[way] = l
	}
	return d
}

// Shares tells whether others may be in the way of what the two nodes send each other.
func (d *Duplex) Shares() bool { return d.way[0].trunk != nil || d.way[1].trunk != nil }

// Carry has a message with so many bytes of the wire sent at a time, one way, or, way 1, the other,
// and returns when all of it is at its receiver, and when its sender knows. It is to be called in
// the order in which all that share a trunk send; of two ways that send at once events alone know.
func (d *Duplex) Carry(way int, now float64, wire, around int) (arrived, acked float64) {
	l := &d.way[way]
	first, last := l.send.pass(wire, now, now)
	if l.own.each > 0 {
		first, last = l.own.pass(wire, first, last)
	}
	if l.trunk != nil {
		first, last = l.trunk.pass(wire, first, last)
	}
	_, arrived = l.receive.pass(wire, first+l.latency, last+l.latency)
	back := &d.way[1-way]
	_, left := back.send.pass(ackBytes+around, arrived, arrived)
	return arrived, left + back.latency
}
