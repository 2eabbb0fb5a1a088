package verbstest

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"
	"time"

	"ringcli/verbs"
)

func testAtomics(t *testing.T, h Harness) {
	r := open(t, h, 4096, rightsAll)
	if r.a.dev.AtomicCap == verbs.AtomicNone {
		t.Skip("the device has no atomics")
	}
	t.Run("Values", func(t *testing.T) { testAtomicValues(t, h) })
	t.Run("Concurrent", func(t *testing.T) { testAtomicConcurrent(t, h) })
}

// atomic runs one atomic on the 8 bytes at an offset of b, and returns what they
// were and what they are now, in host order.
func (l *pair) atomic(op verbs.Opcode, off int, compareAdd, swap uint64) (before, after uint64) {
	l.t.Helper()
	wr := l.b.remote(request(op, 1, l.a.sge(1000, 8)), off)
	wr.CompareAdd, wr.Swap = compareAdd, swap
	l.post(l.a, wr)
	wc := l.a.send.one(1, verbs.Success, "%s", op)
	if want := map[verbs.Opcode]verbs.WCOpcode{verbs.OpCompSwap: verbs.WCCompSwap, verbs.OpFetchAdd: verbs.WCFetchAdd}[op]; wc.Opcode != want {
		l.t.Fatalf("%s completed as %s", op, wc.Opcode)
	}
	return binary.NativeEndian.Uint64(l.a.buf.Bytes()[1000:]), binary.NativeEndian.Uint64(l.b.buf.Bytes()[off:])
}

func testAtomicValues(t *testing.T, h Harness) {
	l := connect(t, h)
	const off = 64
	for _, c := range []struct {
		op               verbs.Opcode
		held             uint64
		compareAdd, swap uint64
		want             uint64
	}{
		{verbs.OpFetchAdd, 5, 7, 0, 12},
		{verbs.OpFetchAdd, 5, 0, 99, 5},
		{verbs.OpFetchAdd, math.MaxUint64, 3, 0, 2},
		{verbs.OpFetchAdd, 0x0102030405060708, 0x1000000000000000, 0, 0x1102030405060708},
		{verbs.OpFetchAdd, 10, math.MaxUint64, 0, 9},
		{verbs.OpCompSwap, 5, 5, 0xfedcba9876543210, 0xfedcba9876543210},
		{verbs.OpCompSwap, 5, 6, 77, 5},
		{verbs.OpCompSwap, 0, 0, 0, 0},
		{verbs.OpCompSwap, 0x0102030405060708, 0x0807060504030201, 1, 0x0102030405060708},
	} {
		target := l.b.buf.Bytes()[off-8 : off+16]
		blank(target)
		binary.NativeEndian.PutUint64(target[8:], c.held)
		before, after := l.atomic(c.op, off, c.compareAdd, c.swap)
		if before != c.held || after != c.want {
			t.Errorf("%s of %#x with %#x, %#x: brought %#x and left %#x, want %#x left",
				c.op, c.held, c.compareAdd, c.swap, before, after, c.want)
		}
		l.ok(untouchedIn(target[:8]), "before the target")
		l.ok(untouchedIn(target[16:]), "behind the target")
	}
}

// Two queue pairs add to one number at once, each from its own goroutine: the
// sum is exact, and no two saw the same value.
func testAtomicConcurrent(t *testing.T, h Harness) {
	n := 400
	if h.Impaired {
		n = 100
	}
	r := open(t, h, 1<<20, rightsAll)
	pairs := []*pair{r.connect(r.a, r.b), r.connect(r.a, r.b)}
	done := make(chan error, len(pairs))
	for i, l := range pairs {
		go func() { done <- fetchAdds(l, n, (i+1)*8192, h.Deadline) }()
	}
	for range pairs {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if got := binary.NativeEndian.Uint64(r.b.buf.Bytes()); got != uint64(n*len(pairs)) {
		t.Errorf("%d times %d FETCH_ADDs of 1 sum up to %d", len(pairs), n, got)
	}
	seen := make(map[uint64]bool)
	for i := range pairs {
		for j := range n {
			v := binary.NativeEndian.Uint64(r.a.buf.Bytes()[(i+1)*8192+8*j:])
			if seen[v] {
				t.Fatalf("two FETCH_ADDs brought %d", v)
			}
			seen[v] = true
		}
	}
}

// fetchAdds adds 1 to b's first number n times, and stores the results at an
// offset of a.
func fetchAdds(l *pair, n, results int, limit time.Duration) error {
	const window = 8
	var wc [window]verbs.Completion
	posted, done := 0, 0
	for deadline := time.Now().Add(limit); done < n; {
		for posted < n && posted < done+window {
			wr := l.b.remote(request(verbs.OpFetchAdd, uint64(posted), l.a.sge(results+8*posted, 8)), 0)
			wr.CompareAdd = 1
			if _, err := l.a.qp.PostSend([]verbs.WorkRequest{wr}); err != nil {
				return err
			}
			posted++
		}
		got, err := l.a.send.cq.Poll(wc[:])
		if err != nil {
			return err
		}
		for _, c := range wc[:got] {
			if c.Status != verbs.Success {
				return c.Status.Err()
			}
		}
		if done += got; got == 0 {
			time.Sleep(20 * time.Microsecond)
			if time.Now().After(deadline) {
				return errors.New("waited for FETCH_ADDs in vain")
			}
		}
	}
	return nil
}
