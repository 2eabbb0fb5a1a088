package soft

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
	"time"

	"ringcli/verbs"
	"ringcli/verbs/soft/udp"
	"ringcli/verbs/soft/wire"
)

// Probes of all sizes come to the peer, whatever state the queue pairs are in, and harm
// nobody.
func TestProbe(t *testing.T) {
	a, b := pair(t, 1<<16)
	for _, e := range []*end{a, b} {
		if err := e.qp.Modify(verbs.QPAttr{State: verbs.StateErr}, verbs.AttrState); err != nil {
			t.Fatal(err)
		}
	}
	sizes := []int{0, 256, 512, 1024, 2048, 4096}
	if err := a.qp.(verbs.Prober).Probe(7, sizes, 1); err != nil {
		t.Fatal(err)
	}
	p := b.qp.(verbs.Prober)
	for begun := time.Now(); !slices.Equal(p.Probed(7), sizes); time.Sleep(time.Millisecond) {
		if time.Since(begun) > 5*time.Second {
			t.Fatalf("%v came: expected %v", p.Probed(7), sizes)
		}
	}
	if came := p.Probed(8); len(came) > 0 {
		t.Errorf("of another mark came %v", came)
	}
	counters, err := b.ctx.Counters(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range counters {
		if (c.Name == "unknown_qp" || c.Name == "malformed_packets") && c.Value > 0 {
			t.Errorf("%s is %d", c.Name, c.Value)
		}
	}
}

// TestProbesOfManyEdges: all ranks probe all edges at once, several packets of each size, and none
// makes the endpoint forget those of another.
func TestProbesOfManyEdges(t *testing.T) {
	var p probes
	const marks, each = 12, 4
	sizes := []int{0, 256, 512, 1024, 2048, 4096}
	for range each {
		for mark := range uint64(marks) {
			for _, mtu := range sizes {
				b := make([]byte, probeRest)
				binary.BigEndian.PutUint64(b[probeMark:], mark)
				binary.BigEndian.PutUint32(b[probeMTU:], uint32(mtu))
				p.take(b)
			}
		}
	}
	q := &qp{ep: &endpoint{probes: p}}
	for mark := range uint64(marks) {
		if came := q.Probed(mark); len(came) != each*len(sizes) || !slices.Equal(slices.Compact(came), sizes) {
			t.Errorf("of mark %d %v came: expected %d of each of %v", mark, came, each, sizes)
		}
	}
}

// TestFloodOfProbes: anybody can send what looks like a probe, so the kernel keeps out a flood
// of them, too.
func TestFloodOfProbes(t *testing.T) {
	a, _ := pair(t, 1<<16)
	ep := a.ctx.(*Context).ep.Load()
	b := make([]byte, probeRest+wire.ICRCLen)
	wire.BTH(b).Encode(&wire.BTHFields{Opcode: wire.SendOnly, PKey: wire.DefaultPKey})
	ep.mu.Lock()
	defer ep.mu.Unlock()
	for range floodRate + 1 {
		ep.receivePacket(b, netip.MustParseAddrPort("127.0.0.1:4791"), 0, 1, false)
	}
	if !ep.flood.filtered {
		t.Errorf("%d probes within a moment: expected that the kernel takes those of peers only", floodRate+1)
	}
}

// TestFilterIsLifted: with its last queue pair an endpoint takes again what comes from anybody,
// and with more peers than the kernel is told of, too.
func TestFilterIsLifted(t *testing.T) {
	a, _ := pair(t, 1<<16)
	q := a.qp.(*qp)
	ep := q.ep
	ep.mu.Lock()
	ep.flood.filtered = true
	for i := range udp.MaxAdmitted {
		ep.qps[uint32(1<<24+i)] = &qp{peer: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), 4791)}
	}
	ep.admitPeers()
	if !ep.flood.many {
		t.Errorf("%d peers: expected that the kernel keeps out nobody", udp.MaxAdmitted+1)
	}
	for i := range udp.MaxAdmitted {
		delete(ep.qps, uint32(1<<24+i))
	}
	ep.admitPeers()
	if !ep.flood.filtered || ep.flood.many {
		t.Errorf("one peer: %+v: expected that the kernel keeps out the others", ep.flood)
	}
	ep.mu.Unlock()
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	ep.mu.Lock()
	defer ep.mu.Unlock()
	if ep.flood.filtered {
		t.Error("no queue pair: expected that everything is let in")
	}
}

// TestProbeThatCannotLeave: a packet that the own host does not let out does not arrive. A
// firewall gives EPERM; from a loopback address to another network it is EINVAL.
func TestProbeThatCannotLeave(t *testing.T) {
	a, b := pair(t, 1<<16)
	q := a.qp.(*qp)
	q.ep.mu.Lock()
	q.dst = udp.NewSockaddr(netip.MustParseAddrPort("192.0.2.1:4791"))
	q.ep.mu.Unlock()
	if err := q.Probe(9, []int{0}, 1); err != nil {
		t.Errorf("%v: expected that it does not arrive", err)
	}
	if came := b.qp.(verbs.Prober).Probed(9); len(came) > 0 {
		t.Errorf("%v came", came)
	}
}
