package soft

import (
	"cmp"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"ringcli/trace"
	"ringcli/verbs"
	"ringcli/verbs/memory"
	"ringcli/verbs/objects"
	"ringcli/verbs/soft/udp"
)

// impairer loses, doubles, delays and damages packets on purpose. The endpoint's
// lock guards it.
type impairer struct {
	verbs.Faults
	rand  *rand.Rand
	begun int64 // when the first packet came by; 0: none has
	// held are packets held back, to follow the next one: one that is sent, one that arrives.
	held [2]latePacket
	buf  []byte
	late []latePacket // the earliest last
}

// latePacket is a packet that leaves, or arrives, later.
type latePacket struct {
	due     int64
	data    []byte // nil: there is none
	dst     udp.Sockaddr
	arrives bool
	src     netip.AddrPort
	segment uint16
}

// newImpairer returns nil if nothing is to happen.
func newImpairer(f verbs.Faults) *impairer {
	if f.None() {
		return nil
	}
	return &impairer{Faults: f, rand: rand.New(rand.NewPCG(f.Seed, f.Seed))}
}

// touches tells whether what is sent to a peer may have a fault. What may not leaves in trains as
// ever: packets sent one by one take a busy CPU so much longer that a peer without a fault would
// seem to have one. A nil impairer touches nothing.
func (m *impairer) touches(peer netip.Addr) bool {
	if m == nil {
		return false
	}
	m.begun = cmp.Or(m.begun, objects.Clock())
	return slices.ContainsFunc(m.List, func(x verbs.Fault) bool { return meets(&x, false, peer) })
}

// fate is what happens to a packet.
type fate struct {
	lost, corrupt, hold, double bool
	delay, late                 time.Duration // late: the second copy's
}

// decide chooses the fate of a packet that is sent to a peer, or arrives from one.
func (m *impairer) decide(arrives bool, peer netip.Addr, now int64) (f fate) {
	m.begun = cmp.Or(m.begun, now)
	hits := func(share float64) bool { return share > 0 && m.rand.Float64() < share }
	for i := range m.List {
		x := &m.List[i]
		if !meets(x, arrives, peer) {
			continue
		}
		f.lost = hits(x.Loss) || x.Down.Holds(time.Duration(now-m.begun)) || f.lost
		f.corrupt = hits(x.Corrupt) || f.corrupt
		f.hold = hits(x.Reorder) || f.hold
		f.double = hits(x.Duplicate) || f.double
		f.delay += x.Delay + m.upTo(x.Jitter)
		f.late += x.Jitter + x.Late
	}
	return f
}

// meets tells whether a fault is for packets that arrive from a peer, or are sent to it.
func meets(x *verbs.Fault, arrives bool, peer netip.Addr) bool {
	return (arrives && x.In || !arrives && x.Out) && (!x.Addr.IsValid() || x.Addr == peer)
}

func (m *impairer) upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(m.rand.Int64N(int64(d)))
}

// damage flips one bit.
func (m *impairer) damage(b []byte) {
	bit := m.rand.IntN(len(b) * 8)
	b[bit/8] ^= 1 << (bit % 8)
}

// send sends the transmitter's messages to a peer, one packet each, with faults.
func (m *impairer) send(t *transmitter, peer netip.Addr, n *portCounters) {
	now := objects.Clock()
	put := func(p latePacket, delay time.Duration) {
		if delay > 0 {
			m.delay(p, now+int64(delay))
			return
		}
		t.flush([]udp.Message{{Dst: &p.dst, Iov: []udp.Iovec{udp.IovecOf(p.data)}}}, n)
	}
	for i := range t.messages {
		msg := &t.messages[i]
		f := m.decide(false, peer, now)
		if f.lost {
			n.impairedLost++
			continue
		}
		m.buf = m.buf[:0]
		for _, v := range msg.Iov {
			m.buf = append(m.buf, memory.Bytes(v.Addr, int(v.Len))...)
		}
		m.pass(latePacket{data: m.buf, dst: *msg.Dst}, f, put)
	}
}

// arrived gives a packet that has come to the endpoint, with faults.
func (m *impairer) arrived(e *endpoint, b []byte, src netip.AddrPort, segment uint16, now int64) {
	f := m.decide(true, src.Addr(), now)
	if f.lost {
		e.port.impairedLost++
		return
	}
	m.pass(latePacket{data: b, arrives: true, src: src, segment: segment}, f, func(p latePacket, delay time.Duration) {
		if delay > 0 {
			m.delay(p, now+int64(delay))
			return
		}
		e.receivePacket(p.data, p.src, p.segment, now, trace.Enabled(trace.Wire))
	})
	e.noteDeadline(m.deadline())
}

// pass puts a packet that is not lost on its way.
func (m *impairer) pass(p latePacket, f fate, put func(p latePacket, delay time.Duration)) {
	held := &m.held[0]
	if p.arrives {
		held = &m.held[1]
	}
	if f.corrupt {
		m.damage(p.data)
	}
	if f.hold && held.data == nil {
		*held = p
		held.data = slices.Clone(p.data)
		return
	}
	put(p, f.delay)
	if f.double {
		put(p, f.delay+m.upTo(f.late))
	}
	if last := *held; last.data != nil {
		held.data = nil
		put(last, f.delay)
	}
}

// delay keeps a packet until it is due.
func (m *impairer) delay(p latePacket, due int64) {
	p.due, p.data = due, slices.Clone(p.data)
	at, _ := slices.BinarySearchFunc(m.late, due, func(o latePacket, due int64) int { return cmp.Compare(due, o.due) })
	m.late = slices.Insert(m.late, at, p)
}

// release lets the late packets go that are due.
func (m *impairer) release(e *endpoint, now int64) {
	for last := len(m.late) - 1; last >= 0 && m.late[last].due <= now; last = len(m.late) - 1 {
		p := m.late[last]
		m.late = m.late[:last]
		if p.arrives {
			e.receivePacket(p.data, p.src, p.segment, now, trace.Enabled(trace.Wire))
			continue
		}
		e.tx.flush([]udp.Message{{Dst: &p.dst, Iov: []udp.Iovec{udp.IovecOf(p.data)}}}, &e.port)
	}
}

// deadline is when the next late packet is due, 0 if there is none. A nil impairer has
// none.
func (m *impairer) deadline() int64 {
	if m == nil || len(m.late) == 0 {
		return 0
	}
	return m.late[len(m.late)-1].due
}

// Inject implements verbs.Injector. It is for all contexts that share the socket.
func (c *Context) Inject(faults verbs.Faults) error {
	ep, err := c.endpoint()
	if err != nil {
		return err
	}
	ep.mu.Lock()
	defer ep.mu.Unlock()
	if was := ep.tx.impair; was != nil { // what is late comes yet, now
		was.release(ep, objects.Clock()+int64(time.Hour))
		ep.apply()
	}
	ep.tx.impair = newImpairer(faults)
	return nil
}
