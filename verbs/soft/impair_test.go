package soft

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"ringcli/verbs"
	"ringcli/verbs/soft/rc"
	"ringcli/verbs/soft/wire"
)

// Faults are those of the direction and the peer that they are for, they can change at any
// time, and what was late comes when they end.
func TestInject(t *testing.T) {
	const n = 20 * 4096
	a, b := newEnd(t, verbs.OpenOptions{LocalAddr: freshAddr()}, n), newEnd(t, verbs.OpenOptions{LocalAddr: freshAddr()}, n)
	if err := connect(a, b); err != nil {
		t.Fatal(err)
	}
	lost := func(e *end) uint64 { return counters(t, e)["impaired_lost"] }
	round := 0
	transfer := func() {
		t.Helper()
		round++
		fill(a.mem.Bytes(), uint64(round))
		if _, err := a.qp.PostSend(request(verbs.OpWrite, a, b, n)); err != nil {
			t.Fatal(err)
		}
		a.wait(t, 1)
		if !bytes.Equal(a.mem.Bytes(), b.mem.Bytes()) {
			t.Error("bytes differ")
		}
	}
	for _, c := range []struct {
		on    *end
		text  string
		other bool // it is for another peer
		loses bool
		least time.Duration
	}{
		{on: a, text: "soft: loss 30%", loses: true},
		{on: a, text: "soft: down at 0s for 150ms in", loses: true, least: 150 * time.Millisecond}, // ACKs
		{on: b, text: "soft: loss 30% in", loses: true},
		{on: b, text: "soft: loss 100% out to 1", other: true},
		{on: a, text: "soft: delay 30ms", least: 30 * time.Millisecond},
		{on: b, text: "soft: delay 30ms in", least: 30 * time.Millisecond},
		{on: a, text: "soft: down at 0s for 150ms", loses: true, least: 150 * time.Millisecond},
		{on: b, text: "soft: reorder 20% in, duplicate 20% in, corrupt 5% in"},
		{on: a, text: "off"},
	} {
		f, err := verbs.ParseFaults(c.text)
		if err != nil {
			t.Fatal(err)
		}
		for i := range f.List {
			if c.other {
				f.List[i].Addr = freshAddr()
			}
		}
		before := lost(c.on)
		for tries := 1; ; tries++ {
			begun := time.Now()
			if err := c.on.ctx.(verbs.Injector).Inject(f); err != nil {
				t.Fatal(err)
			}
			transfer()
			got := lost(c.on) - before
			if got == 0 && c.loses && tries < 10 {
				continue // on a busy machine the time may be over before the first packet
			}
			if took := time.Since(begun); took < c.least {
				t.Errorf("%s: it took %s: expected %s at least", c.text, took, c.least)
			}
			if (got > 0) != c.loses {
				t.Errorf("%s: %d packets were lost on purpose", c.text, got)
			}
			break
		}
		if err := c.on.ctx.(verbs.Injector).Inject(verbs.Faults{}); err != nil {
			t.Fatal(err)
		}
	}
}

// A fault for one peer leaves the trains to the others alone: packets sent one by one would make
// this end a slow sender to all of them on a busy machine.
func TestInjectLeavesOthersTrains(t *testing.T) {
	a, _ := pair(t, 1<<20)
	q := a.qp.(*qp)
	if !q.ep.conn.Features().GSO {
		t.Skip("this kernel has no UDP_SEGMENT")
	}
	for _, c := range []struct {
		peer     netip.Addr
		messages int
	}{{freshAddr(), 1}, {q.peer.Addr(), 4}} {
		f, err := verbs.ParseFaults("soft: duplicate 1% to 1")
		if err != nil {
			t.Fatal(err)
		}
		f.List[0].Addr = c.peer
		if err := a.ctx.(verbs.Injector).Inject(f); err != nil {
			t.Fatal(err)
		}
		out := rc.Output{Frags: []rc.Frag{{Addr: a.mem.Addr(), Len: 1024}}}
		for range 4 {
			p := headerOf(wire.WriteMiddle)
			p.Len, p.Frags = 1024, 1
			out.Packets = append(out.Packets, p)
		}
		q.ep.mu.Lock()
		q.ep.tx.send(q, &out, &portCounters{})
		got := len(q.ep.tx.messages)
		q.ep.mu.Unlock()
		if got != c.messages {
			t.Errorf("4 packets of 1 KiB to %v, a fault for packets to %v: %d messages, expected %d", q.peer.Addr(), c.peer, got, c.messages)
		}
	}
}
