package soft

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"ringcli/verbs"
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
		e.tx.build(q, &out, false, &counted)
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

// TestTrainsKeepOrder: responses leave in the order of their PSNs, whatever rides
// with them: an ACK that overtook a READ response would tell the peer that it is lost.
func TestTrainsKeepOrder(t *testing.T) {
	a, _ := pair(t, 1<<20)
	q := a.qp.(*qp)
	e := q.ep
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		out := rc.Output{Frags: []rc.Frag{{Addr: a.mem.Addr(), Len: 4096}}}
		psn := uint32(0)
		add := func(op wire.Opcode, n int) {
			p := rc.Packet{HeaderLen: uint8(op.HeaderLen())}
			wire.BTH(p.Header[:]).Encode(&wire.BTHFields{Opcode: op, PSN: psn})
			if n > 0 {
				p.Len, p.Frags = uint32(n), 1
			}
			out.Packets = append(out.Packets, p)
			psn++
		}
		for range rnd.IntN(4) {
			if rnd.IntN(4) == 0 {
				add(wire.AtomicAck, 0)
				continue
			}
			for _, op := range series(1+rnd.IntN(40), wire.ReadRespOnly, wire.ReadRespFirst, wire.ReadRespMiddle, wire.ReadRespLast) {
				add(op, 4096)
			}
		}
		for range rnd.IntN(3) {
			for _, op := range series(1+rnd.IntN(20), wire.WriteOnly, wire.WriteFirst, wire.WriteMiddle, wire.WriteLast) {
				add(op, 4096)
			}
		}
		if rnd.IntN(3) > 0 {
			add(wire.Acknowledge, 0)
		}
		e.mu.Lock()
		e.tx.build(q, &out, false, &portCounters{})
		next := [2]uint32{} // of requests, of responses
		packets := 0
		for _, m := range e.tx.messages {
			var all []byte
			for _, v := range m.Iov {
				all = append(all, memory.Bytes(v.Addr, int(v.Len))...)
			}
			size := m.SegmentSize
			if size == 0 {
				size = len(all)
			}
			for b := range slices.Chunk(all, size) {
				h := wire.BTH(b)
				kind := 0
				if h.Opcode().Flags()&wire.IsResponse != 0 {
					kind = 1
				}
				if h.PSN() < next[kind] {
					t.Errorf("%s of PSN %d leaves after PSN %d: %s", h.Opcode(), h.PSN(), next[kind]-1, layout(&e.tx))
				}
				next[kind] = h.PSN() + 1
				packets++
			}
		}
		e.mu.Unlock()
		if packets != len(out.Packets) {
			t.Fatalf("%d packets of %d in the messages", packets, len(out.Packets))
		}
		if t.Failed() {
			return
		}
	}
}

// TestCleanWire: two that READ and WRITE at the same time over a wire that loses
// nothing have nothing to complain of. A timer may run out where the peer gets no CPU.
func TestCleanWire(t *testing.T) {
	const n, rounds = 128 << 10, 200
	a, b := pair(t, 2*n)
	var both sync.WaitGroup
	for _, ends := range [][2]*end{{a, b}, {b, a}} {
		both.Go(func() {
			me, peer := ends[0], ends[1]
			for i := range rounds {
				// Of different lengths, so that trains end in different ways.
				wrs := slices.Concat(request(verbs.OpRead, me, peer, uint32(n-i)), request(verbs.OpFetchAdd, me, peer, 8),
					request(verbs.OpRead, me, peer, uint32(300*i)), request(verbs.OpWrite, me, peer, uint32(40*i)))
				for j := range wrs {
					wrs[j].SGL[0].Addr += n // the peer writes to the lower half, this end to the upper
				}
				if _, err := me.qp.PostSend(wrs); err != nil {
					t.Error(err)
					return
				}
				if c, err := me.await(len(wrs)); err != nil {
					t.Errorf("%v: %v", c, err)
					return
				}
			}
		})
	}
	both.Wait()
	for _, e := range []*end{a, b} {
		c := counters(t, e)
		if c["sent_responses"] == 0 || c["sent_acks"] == 0 {
			t.Errorf("no responses or no ACKs: %v", c)
		}
		if c["retransmitted_requests"] != c["retransmitted_by_timer"] {
			t.Errorf("requests were sent again, and not by a timer: %v", c)
		}
		for _, name := range []string{"implied_nak_seq_err", "packet_seq_err", "out_of_sequence", "sent_naks", "icrc_error", "send_dropped"} {
			if c[name] != 0 {
				t.Errorf("%s is %d on a wire that loses nothing: %v", name, c[name], c)
			}
		}
		if peer := counters(t, a); e == b && peer["retransmitted_by_timer"]+c["retransmitted_by_timer"] == 0 && peer["duplicate_request"]+c["duplicate_request"] != 0 {
			t.Errorf("duplicates, though nothing was sent again: %v and %v", peer, c)
		}
	}
}

func counters(t *testing.T, e *end) map[string]uint64 {
	t.Helper()
	list, err := e.ctx.Counters(1)
	if err != nil {
		t.Fatal(err)
	}
	c := make(map[string]uint64)
	for _, n := range list {
		c[n.Name] = n.Value
	}
	return c
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
