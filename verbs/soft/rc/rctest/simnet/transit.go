package simnet

import (
	"bytes"
	"fmt"
	"strings"

	"ringcli/verbs/soft/rc"
	"ringcli/verbs/soft/wire"
)

// packet is a UDP payload on its way.
type packet struct {
	src, dst *Node
	data     []byte
	damaged  bool  // where the ICRC covers it
	last     int64 // when the last byte comes to a port that the packet has yet to pass; 0: none
}

// maxSoftID is the greatest IP ID that a soft peer sends: its place in a train of
// segments.
const maxSoftID = 127

// icrcBlind is the byte of the BTH that the ICRC leaves out.
const icrcBlind = 4

func (n *Net) buffer(size int) []byte {
	if last := len(n.spare) - 1; last >= 0 && cap(n.spare[last]) >= size {
		b := n.spare[last]
		n.spare = n.spare[:last]
		return b[:size]
	}
	return make([]byte, size, max(size, 4096+wire.MaxHeaderLen+wire.ICRCLen))
}

// transmit encodes the packets that a queue pair emitted and sends them.
func (n *Net) transmit(q *QP, out *rc.Output) {
	for i := range out.Packets {
		p := &out.Packets[i]
		header := p.Header[:p.HeaderLen]
		size := len(header) + int(p.Len) + int(p.Pad) + wire.ICRCLen
		crc := q.tx.Start(uint16(i%(maxSoftID+1)), size, header)
		b := n.buffer(size)
		at := copy(b, header)
		for _, f := range out.Frags[p.FirstFrag : p.FirstFrag+uint32(p.Frags)] {
			piece := q.Node.Memory.Bytes(f.Addr, int(f.Len))
			crc = wire.Update(crc, piece)
			at += copy(b[at:], piece)
		}
		at += copy(b[at:], []byte{0, 0, 0}[:p.Pad])
		if at != size-wire.ICRCLen {
			panic(fmt.Sprintf("simnet: a packet of %d bytes says that it has %d", at+wire.ICRCLen, size))
		}
		wire.PutICRC(b[at:], wire.UpdatePad(crc, int(p.Pad)))
		n.send(q.Node, q.peer.Node, b)
	}
}

// send puts one packet on the wire and decides its fate. It owns b.
func (n *Net) send(src, dst *Node, b []byte) {
	n.Stats.Sent++
	leave := n.now
	if n.opts.Bandwidth > 0 {
		leave = max(leave, src.free)
		src.free = leave + int64(float64(len(b))/n.opts.Bandwidth*1e9)
		leave = src.free
	}
	f := &n.opts.Faults
	copies := 1
	var fate []string
	var last int64
	lost := false
	if n.opts.Between != nil {
		leave, last, lost = n.opts.Between.Leave(n.now, src, dst, len(b))
		leave -= int64(n.opts.Latency)
	}
	switch {
	case lost, n.opts.Drop != nil && n.opts.Drop(b), n.chance(f.Loss):
		n.Stats.Lost++
		copies = 0
		fate = append(fate, "lost")
	case n.chance(f.Duplicate):
		n.Stats.Duplicated++
		copies = 2
		fate = append(fate, "doubled")
	}
	for range copies {
		p := &packet{src: src, dst: dst, data: n.buffer(len(b)), last: last}
		copy(p.data, b)
		at := leave + int64(n.opts.Latency)
		if n.chance(f.Reorder) {
			n.Stats.Delayed++
			at += n.rand.Int64N(10 * int64(n.opts.Latency))
			fate = append(fate, "delayed")
		}
		if f.Jitter > 0 {
			at += n.rand.Int64N(int64(f.Jitter))
		}
		if n.chance(f.Corrupt) {
			n.Stats.Corrupted++
			n.corrupt(p.data)
			p.damaged = !bytes.Equal(p.data[:icrcBlind], b[:icrcBlind]) || !bytes.Equal(p.data[icrcBlind+1:], b[icrcBlind+1:])
			fate = append(fate, "damaged")
		}
		n.events.Push(at, event{packet: p})
	}
	if n.opts.Trace != nil {
		n.opts.Trace(Event{At: n.now, Src: src, Dst: dst, Packet: b, Fate: strings.Join(fate, ", ")})
	}
	n.spare = append(n.spare, b)
}

func (n *Net) chance(p float64) bool { return p > 0 && n.rand.Float64() < p }

func (n *Net) corrupt(b []byte) {
	for range 1 + n.rand.IntN(8) {
		bit := n.rand.IntN(len(b) * 8)
		b[bit/8] ^= 1 << (bit % 8)
	}
}

// arrive does what an endpoint does with a datagram: parse, find the queue pair,
// check the sender, verify the ICRC.
func (n *Net) arrive(p *packet) {
	q, bad := n.accept(p)
	if q == nil {
		n.Stats.Detected++
	} else {
		if p.damaged {
			n.Stats.Undetected++
		}
		early := q.rc.Step(&n.parsed, bad, n.now, &q.out)
		q.publish()
		if n.opts.KeepEarly && (early || q.early.Any()) {
			q.early.Stepped(q.rc, &n.parsed, p.data, bad, early, n.now, &q.out, q.publish)
		}
		q.wake(n.now + int64(n.opts.Turnaround))
	}
	n.spare = append(n.spare, p.data)
}

func (n *Net) accept(p *packet) (*QP, error) {
	bad := wire.Parse(&n.parsed, p.data)
	if bad != nil && bad != wire.ErrPad { //nolint:errorlint // Parse returns its sentinels as they are
		return nil, nil
	}
	q := p.dst.qps[n.parsed.DestQPN]
	if q == nil || q.peer == nil || q.peer.Node != p.src {
		return nil, nil
	}
	if !q.rx.VerifyBelow(p.data, 0, maxSoftID+1) {
		return nil, nil
	}
	return q, bad
}
