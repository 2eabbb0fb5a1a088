package soft

import (
	"errors"
	"log/slog"

	"golang.org/x/sys/unix"

	"ringcli/trace"
	"ringcli/verbs/memory"
	"ringcli/verbs/soft/rc"
	"ringcli/verbs/soft/udp"
	"ringcli/verbs/soft/wire"
)

const (
	// edges is the room for a packet's headers, pad and ICRC.
	edges = wire.MaxHeaderLen + 3 + wire.ICRCLen
	// copyBelow is the longest payload in bytes that is copied between its edges:
	// a piece less for the kernel, which a longer copy would cost more than.
	copyBelow = 256
)

// transmitter turns packets into messages for the socket: trains of equal size
// with one UDP_SEGMENT send each. The endpoint's lock guards it.
type transmitter struct {
	conn *udp.Conn
	// glue holds what is not payload, and short payloads: one packet's ICRC and
	// the next one's headers lie side by side, so that a train has two pieces a
	// packet.
	glue     []byte
	messages []udp.Message
	iovecs   []udp.Iovec
	impair   *impairer // nil: packets are let alone
}

func (t *transmitter) init(conn *udp.Conn) {
	t.conn = conn
	t.glue = make([]byte, 0, (mostBudget+8)*(edges+copyBelow))
	t.messages = make([]udp.Message, 0, mostBudget+8)
	t.iovecs = make([]udp.Iovec, 0, (mostBudget+8)*4)
}

// send makes the ICRCs of the packets and gives them to the socket. What the
// socket does not take is lost, as on any wire: retransmission brings it.
func (t *transmitter) send(q *qp, out *rc.Output, n *portCounters) {
	if len(out.Packets) == 0 {
		return
	}
	if trace.Enabled(trace.Wire) {
		for i := range out.Packets {
			p := &out.Packets[i]
			tracePacket(packetSent, "packet sent", q, p.Header[:p.HeaderLen], int(p.Len))
		}
	}
	impaired := t.impair.touches(q.peer.Addr())
	t.build(q, out, impaired, n)
	if impaired {
		t.impair.send(t, q.peer.Addr(), n)
		return
	}
	t.flush(t.messages, n)
}

// build makes messages of the packets, of which the last may be an ACK; one of each if they are
// impaired.
func (t *transmitter) build(q *qp, out *rc.Output, impaired bool, n *portCounters) {
	if n := len(out.Packets) * (edges + copyBelow); cap(t.glue) < n { // it must not move while iovecs point into it
		t.glue = make([]byte, 0, n)
	}
	t.messages, t.iovecs, t.glue = t.messages[:0], t.iovecs[:0], t.glue[:0]
	most := t.conn.Features().MaxSegments
	if impaired {
		most = 1
	}
	packets, ack, requests := out.Packets, (*rc.Packet)(nil), 0
	if last := len(packets) - 1; last > 0 && opcode(&packets[last]) == wire.Acknowledge {
		packets, ack = packets[:last], &packets[last]
		for requests < last && opcode(&packets[last-1-requests]).Flags()&wire.IsRequest != 0 {
			requests++
		}
	}
	for len(packets) > 0 {
		var acked bool
		if packets, acked = t.train(q, out, packets, ack, requests, most, n); acked {
			ack = nil
		}
	}
	if ack != nil {
		t.train(q, out, out.Packets[len(out.Packets)-1:], nil, 0, most, n)
	}
}

func opcode(p *rc.Packet) wire.Opcode { return wire.BTH(p.Header[:]).Opcode() }

// train appends one message of the first packets, those that share a size and at
// most most of them, and returns the others. A last, shorter one may follow: the ACK,
// if there is one, where it costs no message more. It may pass the requests, which are
// the last of the packets, but no READ response: responses leave in the order of their
// PSNs, and an ACK that passes one tells the peer that it is lost (implied NAK).
func (t *transmitter) train(q *qp, out *rc.Output, packets []rc.Packet, ack *rc.Packet, requests, most int, n *portCounters) (rest []rc.Packet, acked bool) {
	size := wireSize(&packets[0])
	first := len(t.iovecs)
	taken, bytes := 0, 0
	fits := func(p *rc.Packet) bool {
		return taken < most && bytes+wireSize(p) <= udp.MaxBytes && len(t.iovecs)-first+int(p.Frags)+2 <= udp.MaxPieces
	}
	take := func(p *rc.Packet) {
		s := wireSize(p)
		t.append(q, out, p, uint16(taken), s)
		taken++
		bytes += s
	}
	for len(packets) > 0 && wireSize(&packets[0]) == size && (taken == 0 || fits(&packets[0])) {
		take(&packets[0])
		packets = packets[1:]
	}
	// What follows the first packet of a message is shorter, and may be one train with
	// or without its own first.
	if len(packets) > requests {
		ack = nil
	}
	last := ack
	if left := len(packets); left == 1 || left > 0 && (ack == nil || left*wireSize(&packets[0]) > udp.MaxBytes) {
		last = &packets[0]
	}
	if last != nil && wireSize(last) <= size && fits(last) {
		take(last)
		if acked = last == ack; !acked {
			packets = packets[1:]
		}
	}
	m := udp.Message{Dst: &q.dst, Iov: t.iovecs[first:len(t.iovecs):len(t.iovecs)]}
	if taken > 1 {
		m.SegmentSize = size
	}
	t.messages = append(t.messages, m)
	n.txPackets += uint64(taken)
	n.txBytes += uint64(bytes)
	return packets, acked
}

// wireSize is a packet's UDP payload in bytes: BTH to ICRC.
func wireSize(p *rc.Packet) int {
	return int(p.HeaderLen) + int(p.Len) + int(p.Pad) + wire.ICRCLen
}

// append adds one packet's pieces and makes its ICRC. id is the IP ID that it
// will have: its place in the train.
func (t *transmitter) append(q *qp, out *rc.Output, p *rc.Packet, id uint16, size int) {
	header := p.Header[:p.HeaderLen]
	crc := q.tx.Start(id, size, header)
	t.piece(header, id > 0)
	short := p.Len <= copyBelow
	for _, f := range out.Frags[p.FirstFrag : p.FirstFrag+uint32(p.Frags)] {
		payload := memory.Bytes(f.Addr, int(f.Len))
		if short { // summed as copied: the owner may be writing to it
			at := len(t.glue)
			t.piece(payload, true)
			payload = t.glue[at:]
		} else {
			t.iovecs = append(t.iovecs, udp.Iovec{Addr: f.Addr, Len: uint64(f.Len)})
		}
		crc = wire.Update(crc, payload)
	}
	var trailer [3 + wire.ICRCLen]byte
	pad := int(p.Pad)
	wire.PutICRC(trailer[pad:], wire.UpdatePad(crc, pad))
	t.piece(trailer[:pad+wire.ICRCLen], short)
}

// piece copies bytes to the glue, as part of the piece before them if they follow
// it.
func (t *transmitter) piece(b []byte, follows bool) {
	at := len(t.glue)
	t.glue = append(t.glue, b...)
	if follows {
		t.iovecs[len(t.iovecs)-1].Len += uint64(len(b))
		return
	}
	t.iovecs = append(t.iovecs, udp.IovecOf(t.glue[at:]))
}

// flush sends messages. A full send buffer is given a moment; then they count as
// lost.
func (t *transmitter) flush(messages []udp.Message, n *portCounters) {
	const patience = 100
	for try := 0; len(messages) > 0; try++ {
		sent, err := t.conn.Send(messages)
		messages = messages[sent:]
		if err == nil {
			return
		}
		if sent > 0 {
			try = 0
		}
		if !errors.Is(err, unix.EAGAIN) || try == patience {
			n.txDropped += uint64(len(messages))
			trace.Warn(trace.Wire, "send failed", slog.String("error", err.Error()))
			return
		}
	}
}
