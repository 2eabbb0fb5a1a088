package udp

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	loopback4 = netip.MustParseAddrPort("127.0.0.1:0")
	loopback6 = netip.MustParseAddrPort("[::1]:0")
)

// without are the features that a Conn shall not use.
type without struct{ GSO, GRO, MMsg bool }

// features are the others.
func features(o without) Features {
	f := probed()
	f.GSO, f.GRO, f.MMsg = f.GSO && !o.GSO, f.GRO && !o.GRO, f.MMsg && !o.MMsg
	return f
}

// listening opens a Conn for the test, and skips the test where the host has no
// IPv6.
func listening(t testing.TB, local netip.AddrPort, o without) *Conn {
	t.Helper()
	c, err := listen(local, features(o))
	if err != nil {
		if local.Addr().Is6() {
			t.Skipf("no IPv6 here: %v", err)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// datagram is a copy of one received datagram.
type datagram struct {
	data []byte
	src  netip.AddrPort
}

// receive gathers datagrams until there are n, for ten seconds at most, and the
// number of entries in which they came.
func receive(t testing.TB, c *Conn, n int) (got []datagram, entries int) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for len(got) < n && time.Now().Before(deadline) {
		batch, err := c.Recv()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range batch {
			entries++
			for data := r.Data; len(data) > 0; data = data[min(r.SegmentSize, len(data)):] {
				got = append(got, datagram{bytes.Clone(data[:min(r.SegmentSize, len(data))]), r.Src})
			}
		}
	}
	return got, entries
}

func random(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

// TestTrain sends trains in pieces that cross the borders of segments, with
// every combination of features, and expects the same datagrams each time.
func TestTrain(t *testing.T) {
	for _, local := range []netip.AddrPort{loopback4, loopback6} {
		for off := range 8 {
			o := without{GSO: off&1 != 0, GRO: off&2 != 0, MMsg: off&4 != 0}
			t.Run(fmt.Sprintf("%v %+v", local.Addr(), o), func(t *testing.T) { testTrain(t, local, o) })
		}
	}
}

func testTrain(t *testing.T, local netip.AddrPort, o without) {
	from, to := listening(t, local, o), listening(t, local, o)
	if f := from.Features(); o.GSO && f.GSO || o.GRO && f.GRO || o.MMsg && f.MMsg {
		t.Errorf("features %+v in spite of being without %+v", f, o)
	}
	dst := NewSockaddr(to.LocalAddr())

	const segment = 4112
	data := random(15*segment - 1000)
	var iov []Iovec
	for rest := data; len(rest) > 0; {
		n := min(1+rand.IntN(5000), len(rest))
		iov = append(iov, IovecOf(rest[:n]))
		rest = rest[n:]
	}
	single := random(64)
	msgs := []Message{
		{Dst: &dst, Iov: []Iovec{IovecOf(single)}},
		{Dst: &dst, Iov: iov, SegmentSize: segment},
		{Dst: &dst, Iov: []Iovec{IovecOf(single)}, SegmentSize: 64},
		{Dst: &dst, Iov: []Iovec{IovecOf(single)}, SegmentSize: 1},
		{Dst: &dst, Iov: []Iovec{IovecOf(single)}, SegmentSize: 9000},
	}
	sent, err := from.Send(msgs)
	if sent != len(msgs) || err != nil {
		t.Fatalf("sent %d of %d messages: %v", sent, len(msgs), err)
	}

	var want [][]byte
	for _, m := range []struct {
		data    []byte
		segment int
	}{{single, 64}, {data, segment}, {single, 64}, {single, 1}, {single, 64}} {
		for rest := m.data; len(rest) > 0; rest = rest[min(m.segment, len(rest)):] {
			want = append(want, rest[:min(m.segment, len(rest))])
		}
	}
	got, entries := receive(t, to, len(want))
	if len(got) != len(want) {
		t.Fatalf("%d datagrams arrived, expected %d", len(got), len(want))
	}
	for i := range want {
		if !bytes.Equal(got[i].data, want[i]) {
			t.Fatalf("datagram %d: %d bytes, expected %d, or their content differs", i, len(got[i].data), len(want[i]))
		}
		if got[i].src != from.LocalAddr() {
			t.Fatalf("datagram %d came from %v, expected %v", i, got[i].src, from.LocalAddr())
		}
	}
	if from.Features().GSO && to.Features().GRO && entries != len(msgs) {
		t.Errorf("%d messages came in %d pieces; with GSO and GRO loopback carries each whole", len(msgs), entries)
	}
	if batch, err := to.Recv(); len(batch) != 0 || err != nil {
		t.Errorf("nothing more should arrive: got %d entries, %v", len(batch), err)
	}
}
