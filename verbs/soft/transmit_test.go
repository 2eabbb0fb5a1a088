package soft

import (
	"fmt"
	"strings"
	"testing"

	"ringcli/verbs/memory"
	"ringcli/verbs/soft/rc"
	"ringcli/verbs/soft/wire"
)

// TestTrains makes trains of messages, with and without an ACK behind them.
func TestTrains(t *testing.T) {
	a, _ := pair(t, 1<<20)
	q := a.qp.(*qp)
	e := q.ep
	if !e.conn.Features().GSO {
		t.Skip("this kernel has no UDP_SEGMENT")
	}
	for _, c := range []struct {
		bytes int
		ack   bool
		want  string // per message: what it begins with, and the bytes of its packets
	}{
		{64, false, "WRITE_ONLY: 96"},
		{64, true, "WRITE_ONLY: 96 20"},
		{4096 + 64, true, "WRITE_FIRST: 4128 80; ACKNOWLEDGE: 20"},
		{2*4096 + 64, true, "WRITE_FIRST: 4128 20; WRITE_MIDDLE: 4112 80"},
		{8*4096 + 64, false, "WRITE_FIRST: 4128 4112; WRITE_MIDDLE: 6x4112 80"},
		{8*4096 + 64, true, "WRITE_FIRST: 4128 20; WRITE_MIDDLE: 7x4112 80"},
		{32 * 4096, true, "WRITE_FIRST: 4128 4112; WRITE_MIDDLE: 15x4112 20; WRITE_MIDDLE: 15x4112"},
	} {
		out := rc.Output{Frags: []rc.Frag{{Addr: a.mem.Addr(), Len: 4096}, {Addr: a.mem.Addr(), Len: uint32(c.bytes % 4096)}}}
		packets := (c.bytes + 4095) / 4096
		for i := range packets {
			op, n, frag := wire.WriteMiddle, 4096, 0
			if i == packets-1 {
				op = wire.WriteLast
				if c.bytes%4096 > 0 {
					n, frag = c.bytes%4096, 1
				}
			}
			if i == 0 {
				op = wire.WriteFirst
				if packets == 1 {
					op = wire.WriteOnly
				}
			}
			p := headerOf(op)
			p.Len, p.FirstFrag, p.Frags = uint32(n), uint32(frag), 1
			out.Packets = append(out.Packets, p)
		}
		if c.ack {
			out.Packets = append(out.Packets, headerOf(wire.Acknowledge))
		}
		var counted portCounters
		e.mu.Lock()
		e.tx.build(q, &out, &counted)
		got := layout(&e.tx)
		e.mu.Unlock()
		if got != c.want {
			t.Errorf("%d bytes, ACK %v:\n%s, expected\n%s", c.bytes, c.ack, got, c.want)
		}
		if counted.txPackets != uint64(len(out.Packets)) {
			t.Errorf("%d bytes, ACK %v: %d packets counted, expected %d", c.bytes, c.ack, counted.txPackets, len(out.Packets))
		}
	}
}

func headerOf(op wire.Opcode) rc.Packet {
	p := rc.Packet{HeaderLen: uint8(op.HeaderLen())}
	wire.BTH(p.Header[:]).Encode(&wire.BTHFields{Opcode: op})
	return p
}

// layout describes the messages of a transmitter.
func layout(t *transmitter) string {
	var all []string
	for _, m := range t.messages {
		bytes := 0
		for _, v := range m.Iov {
			bytes += int(v.Len)
		}
		text := wire.BTH(memory.Bytes(m.Iov[0].Addr, wire.BTHLen)).Opcode().String() + ":"
		full := 0
		if m.SegmentSize > 0 {
			full, bytes = bytes/m.SegmentSize, bytes%m.SegmentSize
		}
		switch {
		case full == 1:
			text += fmt.Sprintf(" %d", m.SegmentSize)
		case full > 1:
			text += fmt.Sprintf(" %dx%d", full, m.SegmentSize)
		}
		if bytes > 0 {
			text += fmt.Sprintf(" %d", bytes)
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}
