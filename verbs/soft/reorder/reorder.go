// Package reorder keeps the packets that come before others that are missing, so that
// what was lost or late is all that a peer need send again. To the specification it is
// a network that had kept them: a queue pair sees every packet in the order of PSNs.
package reorder

import (
	"ringcli/verbs/soft/rc"
	"ringcli/verbs/soft/wire"
)

// size is how far ahead a packet may be, in PSNs: two windows of a soft peer. It is a
// power of two.
const size = 512

// Packets are those of one queue pair. The zero value keeps none. Memory is taken when
// a packet first comes early, and kept.
type Packets struct {
	requests, responses buffer
}

// Any reports whether any packet is kept.
func (k *Packets) Any() bool { return k.requests.count+k.responses.count > 0 }

// Clear forgets all.
func (k *Packets) Clear() {
	k.requests.clear()
	k.responses.clear()
}

// Stepped is to be called after q.Step(p) of a packet of bytes b if it was early or if
// Any: it keeps the packet, or steps those that are next. p is overwritten. carry
// carries out the orders in out.
func (k *Packets) Stepped(q *rc.QP, p *wire.Packet, b []byte, bad error, early bool, now int64, out *rc.Output, carry func()) {
	response := p.Flags&wire.IsResponse != 0
	kept := &k.requests
	if response {
		kept = &k.responses
	}
	next := func() uint32 {
		request, answer := q.Next()
		if response {
			return answer
		}
		return request
	}
	if early {
		still := kept.next == next() && kept.count > 0
		kept.moveTo(next())
		if kept.keep(p.PSN, b, bad); still {
			return // what is missing is known
		}
	}
	for {
		kept.moveTo(next())
		s := kept.first()
		if s == nil || wire.Parse(p, s.data) != s.bad || q.Step(p, s.bad, now, out) { //nolint:errorlint // Parse returns its sentinels as they are
			carry()
			return
		}
		carry()
		kept.drop(s)
	}
}

// buffer is a window of PSNs from next on.
type buffer struct {
	next  uint32
	count int
	slots []slot // by PSN, modulo size
}

type slot struct {
	used bool
	psn  uint32
	bad  error
	data []byte
}

func (b *buffer) clear() {
	b.count = 0
	for i := range b.slots {
		b.slots[i].used = false
	}
}

// moveTo forgets what comes before psn.
func (b *buffer) moveTo(psn uint32) {
	if n := wire.PSNDiff(psn, b.next); n < 0 || n >= size {
		b.clear()
	}
	for b.next != psn && b.count > 0 {
		b.drop(&b.slots[b.next%size])
		b.next = wire.PSNAdd(b.next, 1)
	}
	b.next = psn
}

func (b *buffer) keep(psn uint32, data []byte, bad error) {
	if wire.PSNDiff(psn, b.next) >= size {
		return
	}
	if b.slots == nil {
		b.slots = make([]slot, size)
	}
	s := &b.slots[psn%size]
	if !s.used {
		b.count++
	}
	s.used, s.psn, s.bad, s.data = true, psn, bad, append(s.data[:0], data...)
}

// first returns the earliest packet, or nil.
func (b *buffer) first() *slot {
	if b.count == 0 {
		return nil
	}
	for psn := b.next; ; psn = wire.PSNAdd(psn, 1) {
		if s := &b.slots[psn%size]; s.used {
			return s
		}
	}
}

func (b *buffer) drop(s *slot) {
	if s.used {
		s.used = false
		b.count--
	}
}
