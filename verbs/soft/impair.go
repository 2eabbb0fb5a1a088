package soft

import (
	"math/rand/v2"
	"slices"
	"time"

	"ringcli/verbs"
	"ringcli/verbs/memory"
	"ringcli/verbs/objects"
	"ringcli/verbs/soft/udp"
)

// impairer loses, doubles, delays and damages packets on purpose. The endpoint's
// lock guards it.
type impairer struct {
	verbs.Impairment
	rand *rand.Rand
	held []byte // a packet held back, to follow the next one
	dst  udp.Sockaddr
	buf  []byte
	late []latePacket // the earliest last
}

// latePacket is a packet that leaves later.
type latePacket struct {
	due  int64
	dst  udp.Sockaddr
	data []byte
}

// send sends the transmitter's messages, one packet each, with faults.
func (m *impairer) send(t *transmitter, n *portCounters) {
	for i := range t.messages {
		msg := &t.messages[i]
		if m.rand.Float64() < m.Loss {
			n.impairedLost++
			continue
		}
		m.buf = m.buf[:0]
		for _, v := range msg.Iov {
			m.buf = append(m.buf, memory.Bytes(v.Addr, int(v.Len))...)
		}
		if m.rand.Float64() < m.Corrupt {
			bit := m.rand.IntN(len(m.buf) * 8)
			m.buf[bit/8] ^= 1 << (bit % 8)
		}
		if m.rand.Float64() < m.Reorder && len(m.held) == 0 {
			m.held = append(m.held, m.buf...)
			m.dst = *msg.Dst
			continue
		}
		m.put(t, msg.Dst, m.buf, m.Jitter, n)
		if m.rand.Float64() < m.Duplicate {
			m.put(t, msg.Dst, m.buf, m.Jitter+m.Late, n)
		}
		if len(m.held) > 0 {
			m.put(t, &m.dst, m.held, m.Jitter, n)
			m.held = m.held[:0]
		}
	}
}

// put sends a packet, at once or at any time up to latest.
func (m *impairer) put(t *transmitter, dst *udp.Sockaddr, b []byte, latest time.Duration, n *portCounters) {
	if latest <= 0 {
		t.flush([]udp.Message{{Dst: dst, Iov: []udp.Iovec{udp.IovecOf(b)}}}, n)
		return
	}
	p := latePacket{due: objects.Clock() + m.rand.Int64N(int64(latest)), dst: *dst, data: slices.Clone(b)}
	at, _ := slices.BinarySearchFunc(m.late, p.due, func(o latePacket, due int64) int { return int(due - o.due) })
	m.late = slices.Insert(m.late, at, p)
}

// release sends the late packets that are due.
func (m *impairer) release(t *transmitter, now int64, n *portCounters) {
	for last := len(m.late) - 1; last >= 0 && m.late[last].due <= now; last-- {
		p := m.late[last]
		m.late = m.late[:last]
		m.put(t, &p.dst, p.data, 0, n)
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
