package fabric

import (
	"time"

	"ringcli/verbs/soft/rc/rctest/simnet"
)

// Network carries messages. Those from one node to another come in order.
type Network interface {
	Now() float64 // ns
	// Send has a node write so many bytes into another's memory now.
	Send(from, to, bytes int, tag uint64)
	// Wake calls Handler.Woke of a node at a time.
	Wake(at float64, node int)
	// Run lets events happen until there are none, or so much time has passed. It reports
	// whether there are none.
	Run(h Handler, limit time.Duration) (quiet bool)
	// Messages and bytes that were sent.
	Sent() (messages, bytes uint64)
}

// Handler is what the nodes do.
type Handler interface {
	Arrived(from, to, bytes int, tag uint64) // all of a message, at its receiver
	Acked(from, to int, tag uint64)          // its sender knows of it
	Woke(node int)
}

// Messages is a network with an event or two for a message.
type Messages struct {
	*Ports
	now    float64
	events simnet.Queue[float64, event]
	sent   uint64
	bytes  uint64
}

// ackBytes are those of an acknowledgement, which queues at its sender's port behind data: BTH,
// AETH and ICRC.
const ackBytes = 12 + 4 + 4

type kind uint8

const (
	reaches kind = iota // the first byte is at the receiver's port
	arrives
	acked
	wakes
)

type event struct {
	last     float64 // when the last byte is there
	tag      uint64
	from, to int32
	bytes    int32
	kind     kind
}

// NewMessages returns a network of messages over ports.
func NewMessages(p *Ports) *Messages { return &Messages{Ports: p} }

func (m *Messages) Now() float64 { return m.now }

func (m *Messages) Sent() (messages, bytes uint64) { return m.sent, m.bytes }

func (m *Messages) Send(from, to, bytes int, tag uint64) {
	m.sent++
	m.bytes += uint64(bytes)
	first, last, _ := m.Leave(m.now, from, to, m.Wire(bytes))
	if m.Lossy(from, to) {
		panic("fabric: a pair that loses packets needs Packets")
	}
	m.events.Push(first, event{last: last, kind: reaches, from: int32(from), to: int32(to), bytes: int32(bytes), tag: tag})
}

func (m *Messages) Wake(at float64, node int) {
	m.events.Push(at, event{kind: wakes, to: int32(node)})
}

func (m *Messages) Run(h Handler, limit time.Duration) bool {
	end := m.now + float64(limit)
	for {
		if at, ok := m.events.Next(); !ok || at > end {
			return !ok
		}
		var e event
		m.now, e = m.events.Pop()
		switch e.kind {
		case reaches:
			e.kind = arrives
			m.events.Push(m.Reach(m.now, e.last, int(e.to), m.Wire(int(e.bytes))), e)
		case arrives:
			_, left := m.send[e.to].pass(ackBytes+m.o.Around, m.now, m.now)
			e.kind = acked
			m.events.Push(left+m.Latency(int(e.to), int(e.from)), e)
			h.Arrived(int(e.from), int(e.to), int(e.bytes), e.tag)
		case acked:
			h.Acked(int(e.from), int(e.to), e.tag)
		case wakes:
			h.Woke(int(e.to))
		}
	}
}
