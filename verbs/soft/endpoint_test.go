package soft

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"ringcli/verbs"
	"ringcli/verbs/memory"
	"ringcli/verbs/objects"
	"ringcli/verbs/soft/wire"
)

func fill(b []byte, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
}

// Nobody polls at b: its endpoint's background goroutine must answer.
func TestBackgroundProgress(t *testing.T) {
	const n = 1<<20 + 3
	a, b := pair(t, n)
	for i, op := range []verbs.Opcode{verbs.OpWrite, verbs.OpRead} {
		time.Sleep(2 * objects.LongestUntilTakeOver) // b's goroutine has gone to sleep on its socket
		from, to := a, b
		if op == verbs.OpRead {
			from, to = b, a
		}
		fill(from.mem.Bytes(), uint64(i))
		if _, err := a.qp.PostSend(request(op, a, b, n)); err != nil {
			t.Fatal(err)
		}
		a.wait(t, 1)
		if !bytes.Equal(a.mem.Bytes(), b.mem.Bytes()) {
			t.Errorf("%s from %p to %p: bytes differ", op, from, to)
		}
	}
}

// An ACK that has come counts before the timer that waited for it, also behind much else.
func TestTimerLooksAtTheSocketFirst(t *testing.T) {
	a, b := pair(t, 4096)
	junk, _, to := besides(t, b, a)
	for _, e := range []*end{a, b} { // the test alone makes progress, by its own clock
		ep := e.qp.(*qp).ep
		ep.mu.Lock()
		defer ep.mu.Unlock()
	}
	q, peer := a.qp.(*qp), b.qp.(*qp)
	if err := q.rc.PostSend(&request(verbs.OpWrite, a, b, 64)[0], &q.ep.out); err != nil {
		t.Fatal(err)
	}
	now := objects.Clock()
	q.ep.sendFor(q, now, false)
	for range 100 { // more than one look at the socket takes
		if _, err := junk.WriteToUDPAddrPort([]byte("no packet"), to); err != nil {
			t.Fatal(err)
		}
	}
	for peer.ep.progressAll(now) {
	}
	if peer.counts.AckPkts != 1 {
		t.Fatalf("%d ACKs were sent, want 1", peer.counts.AckPkts)
	}
	q.ep.progress(now + int64(time.Hour))
	if n := &q.counts; n.LocalAckTimeoutErr != 0 || n.LossProbes != 0 || !q.rc.Idle() {
		t.Errorf("%d timers ran out and %d probes were sent for an ACK that had come, the queue pair idle: %v", n.LocalAckTimeoutErr, n.LossProbes, q.rc.Idle())
	}
}

// Two contexts on one address share the socket; one more on the port of its own.
func TestEndpointsAreShared(t *testing.T) {
	addr := freshAddr()
	a := newEnd(t, verbs.OpenOptions{LocalAddr: addr}, 4096)
	b := newEnd(t, verbs.OpenOptions{LocalAddr: addr}, 4096)
	c := newEnd(t, verbs.OpenOptions{LocalAddr: addr, UDPPort: 24791}, 4096)
	ga, _ := a.gid()
	gb, _ := b.gid()
	gc, _ := c.gid()
	if ga.UDPPort != gb.UDPPort || gc.UDPPort != 24791 {
		t.Fatalf("ports %d, %d, %d; expected two alike and 24791", ga.UDPPort, gb.UDPPort, gc.UDPPort)
	}
	if err := connect(a, b); err != nil {
		t.Fatal(err)
	}
	fill(a.mem.Bytes(), 3)
	if _, err := a.qp.PostSend(request(verbs.OpWrite, a, b, 4096)); err != nil {
		t.Fatal(err)
	}
	a.wait(t, 1)
	if !bytes.Equal(a.mem.Bytes(), b.mem.Bytes()) {
		t.Error("bytes differ between two contexts of one endpoint")
	}
}

func TestOpenOnForeignAddress(t *testing.T) {
	d, err := verbs.Find("soft:lo")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Open(verbs.OpenOptions{LocalAddr: netip.MustParseAddr("192.0.2.1")}); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("opened lo on 192.0.2.1: %v", err)
	}
	if _, err := verbs.Find("soft:nosuch"); !errors.Is(err, verbs.ErrNoDevice) {
		t.Errorf("found soft:nosuch: %v", err)
	}
}

// Damaged packets are counted, dropped and repeated; the data comes whole.
func TestCorruptionIsRepaired(t *testing.T) {
	const n = 256 << 10
	a := newEnd(t, verbs.OpenOptions{LocalAddr: freshAddr()}, n)
	b := newEnd(t, verbs.OpenOptions{LocalAddr: freshAddr()}, n)
	for _, e := range []*end{a, b} {
		InjectForTest(t, e.ctx, "soft: corrupt 1%, loss 1%, duplicate 1%, reorder 1%, seed 1")
	}
	if err := connect(a, b); err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		fill(a.mem.Bytes(), uint64(i))
		if _, err := a.qp.PostSend(request(verbs.OpWrite, a, b, n)); err != nil {
			t.Fatal(err)
		}
		a.wait(t, 1)
		if !bytes.Equal(a.mem.Bytes(), b.mem.Bytes()) {
			t.Fatalf("round %d: bytes differ", i)
		}
	}
	counters, err := b.ctx.Counters(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range counters {
		if (c.Name == "icrc_error" || c.Name == "out_of_sequence") && c.Value == 0 {
			t.Errorf("%s is 0 after 8 lossy transfers", c.Name)
		}
	}
}

// Opening and closing a thousand times leaves nothing behind.
func TestOpenCloseLeavesNothing(t *testing.T) {
	rounds := 1000
	if testing.Short() {
		rounds = 50
	}
	count := func() (int, int, int64) {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(fds), runtime.NumGoroutine(), memory.Live.Load()
	}
	x, y := freshAddr(), freshAddr()
	cycle := func() {
		a, err := tryEnd(verbs.OpenOptions{LocalAddr: x}, 4096)
		if err != nil {
			t.Fatal(err)
		}
		b, err := tryEnd(verbs.OpenOptions{LocalAddr: y}, 4096)
		if err != nil {
			t.Fatal(err)
		}
		if err := connect(a, b); err != nil {
			t.Fatal(err)
		}
		for range 2 { // closing twice is harmless
			if err := errors.Join(a.close(), b.close()); err != nil {
				t.Fatal(err)
			}
		}
	}
	cycle()
	fds, goroutines, live := count()
	for range rounds {
		cycle()
	}
	f, g, l := count()
	for deadline := time.Now().Add(10 * time.Second); g > goroutines && time.Now().Before(deadline); f, g, l = count() {
		time.Sleep(time.Millisecond) // goroutines end a moment after they are done
	}
	if f != fds || g > goroutines || l != live {
		t.Errorf("after %d cycles: %d descriptors, %d goroutines, %d bytes mapped; before: %d, %d, %d", rounds, f, g, l, fds, goroutines, live)
	}
	if n := len(endpoints.byAddr); n != 0 {
		t.Errorf("%d endpoints are left", n)
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	a, b := pair(t, 1<<20)
	wr := request(verbs.OpWriteImm, a, b, 1<<20)
	recv := []verbs.WorkRequest{{ID: 9}}
	round := func() {
		if _, err := b.qp.PostRecv(recv); err != nil {
			t.Fatal(err)
		}
		if _, err := a.qp.PostSend(wr); err != nil {
			t.Fatal(err)
		}
		a.wait(t, 1)
		b.wait(t, 1)
	}
	for range 10 {
		round()
	}
	if n := testing.AllocsPerRun(50, round); n != 0 {
		t.Errorf("%.1f allocations for a message of 256 packets; expected none", n)
	}
}

func TestIDTracker(t *testing.T) {
	var tr idTracker
	for _, c := range []struct {
		id   uint16
		want bool
	}{
		{40000, true},  // the first is believed
		{40001, true},  // near
		{100, false},   // far: doubted
		{40002, true},  // the flow goes on where it was
		{100, false},   // doubted anew
		{103, true},    // confirmed: the counter has moved
		{65500, true},  // near, across the wrap
		{30000, false}, // far
		{50000, false}, // far from both
	} {
		if got := tr.plausible(c.id); got != c.want {
			t.Errorf("ID %d after %d: %v, expected %v", c.id, tr.last, got, c.want)
		}
	}
}

func TestSoftIDsCoverATrain(t *testing.T) {
	a, _ := pair(t, 4096)
	if f := a.qp.(*qp).ep.conn.Features(); f.MaxSegments > softIDs {
		t.Errorf("trains of %d segments, but soft peers accept IDs below %d", f.MaxSegments, softIDs)
	}
	if mostBudget > softIDs {
		t.Errorf("budget %d exceeds %d", mostBudget, softIDs)
	}
	if !pkeyMatches(wire.DefaultPKey) || !pkeyMatches(0x7fff) || pkeyMatches(0x8001) {
		t.Error("P_Key matching: expected full and limited members of the default partition alone")
	}
}
