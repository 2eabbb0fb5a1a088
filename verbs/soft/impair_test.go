package soft

import (
	"bytes"
	"testing"
	"time"

	"ringcli/verbs"
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
