package soft

import (
	"encoding/binary"
	"errors"
	"runtime"
	"slices"

	"ringcli/verbs"
	"ringcli/verbs/soft/udp"
	"ringcli/verbs/soft/wire"
)

// Probes tell which packets of a path arrive once a queue pair has failed. They are packets
// like those of data, as long as those of a path MTU can be at most, for queue pair 0, which
// no device has: whoever does not know them counts a packet of an unknown queue pair.

const (
	probeMark = wire.BTHLen   // 8 bytes
	probeMTU  = probeMark + 8 // 4 bytes
	probeRest = probeMTU + 4  // of the shortest
	probeMore = 16 + 4        // RETH and immediate data, which a packet has at most besides
	probeKeep = 256           // marks and path MTUs that are remembered: those of 40 edges at a time
	probeMost = 1 << 10       // the most packets of one that are counted
)

// probes are those that came, the oldest overwritten first. The endpoint's lock guards it.
type probes struct {
	came [probeKeep]struct {
		mark  uint64
		mtu   uint32
		count int
	}
	next int
}

// take notes a packet if it is a probe.
func (p *probes) take(b []byte) bool {
	if len(b) < probeRest || wire.BTH(b).DestQPN() != 0 {
		return false
	}
	mark, mtu := binary.BigEndian.Uint64(b[probeMark:]), binary.BigEndian.Uint32(b[probeMTU:])
	for i := range p.came {
		if c := &p.came[i]; c.mark == mark && c.mtu == mtu && c.count > 0 {
			c.count = min(c.count+1, probeMost)
			return true
		}
	}
	c := &p.came[p.next%probeKeep]
	c.mark, c.mtu, c.count = mark, mtu, 1
	p.next++
	return true
}

var _ verbs.Prober = (*qp)(nil)

func (q *qp) Probe(mark uint64, mtus []int, each int) error {
	if err := q.Live(); err != nil {
		return err
	}
	q.ep.mu.Lock()
	defer q.ep.mu.Unlock()
	t := &q.ep.tx
	for range each {
		for _, mtu := range mtus {
			b := make([]byte, max(probeRest, wire.BTHLen+probeMore+mtu)+wire.ICRCLen)
			wire.BTH(b).Encode(&wire.BTHFields{Opcode: wire.SendOnly, PKey: wire.DefaultPKey})
			binary.BigEndian.PutUint64(b[probeMark:], mark)
			binary.BigEndian.PutUint32(b[probeMTU:], uint32(mtu))
			messages := []udp.Message{{Dst: &q.dst, Iov: []udp.Iovec{udp.IovecOf(b)}}}
			if t.impair.touches(q.peer.Addr()) {
				t.messages = messages
				t.impair.send(t, q.peer.Addr(), &q.ep.port)
			} else if _, err := t.conn.Send(messages); errors.Is(err, udp.ErrClosed) {
				return err
			}
			runtime.KeepAlive(b)
		}
	}
	return nil
}

func (q *qp) Probed(mark uint64) (mtus []int) {
	q.ep.mu.Lock()
	defer q.ep.mu.Unlock()
	for _, c := range q.ep.probes.came {
		if c.mark == mark {
			mtus = append(mtus, slices.Repeat([]int{int(c.mtu)}, c.count)...)
		}
	}
	slices.Sort(mtus)
	return mtus
}
