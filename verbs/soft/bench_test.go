package soft

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"ringcli/verbs"
	"ringcli/verbs/soft/udp"
	"ringcli/verbs/soft/udp/udptest"
)

// BenchmarkWrite is one 1 MiB WRITE after the other; the peer's background
// goroutine receives.
func BenchmarkWrite(b *testing.B) {
	const n = 1 << 20
	from, to := pair(b, n)
	wr := request(verbs.OpWrite, from, to, n)
	b.SetBytes(n)
	for b.Loop() {
		if _, err := from.qp.PostSend(wr); err != nil {
			b.Fatal(err)
		}
		from.wait(b, 1)
	}
}

// BenchmarkEmptyPoll is what a poll costs when nothing has come.
func BenchmarkEmptyPoll(b *testing.B) {
	from, _ := pair(b, 4096)
	var wc [1]verbs.Completion
	for b.Loop() {
		if _, err := from.cq.Poll(wc[:]); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRoundTrip is a 64-byte WRITE_IMM there and one back, both ends driven
// by one goroutine: what the two cost without any waiting.
func BenchmarkRoundTrip(b *testing.B) {
	x, y := pair(b, 4096)
	there, back := request(verbs.OpWriteImm, x, y, 64), request(verbs.OpWriteImm, y, x, 64)
	recv := []verbs.WorkRequest{{ID: 9}}
	leg := func(from, to *end, wr []verbs.WorkRequest) {
		if _, err := to.qp.PostRecv(recv); err != nil {
			b.Fatal(err)
		}
		if _, err := from.qp.PostSend(wr); err != nil {
			b.Fatal(err)
		}
		for {
			n, err := to.cq.Poll(to.wc[:])
			if err != nil {
				b.Fatal(err)
			}
			for _, c := range to.wc[:n] {
				if c.Opcode == verbs.WCRecvWriteImm {
					return
				}
			}
		}
	}
	for b.Loop() {
		leg(x, y, there)
		leg(y, x, back)
	}
}

// BenchmarkBesideRawUDP is the bandwidth of 1 MiB WRITEs by that of udptest, which
// has the same packets without CRC or protocol, in interleaved rounds of some
// dozens of milliseconds: an iteration is a round. A goroutine receives.
func BenchmarkBesideRawUDP(b *testing.B) {
	const bytes, messages = 1 << 20, 100
	from, to := pair(b, bytes)
	wr := request(verbs.OpWrite, from, to, bytes)
	var ports [2]netip.AddrPort
	for i := range ports {
		c, err := udp.Listen(netip.AddrPortFrom(freshAddr(), 0))
		if err != nil {
			b.Fatal(err)
		}
		ports[i] = c.LocalAddr()
		if err := c.Close(); err != nil {
			b.Fatal(err)
		}
	}
	var ratios []float64
	for b.Loop() {
		begun := time.Now()
		for range messages {
			if _, err := from.qp.PostSend(wr); err != nil {
				b.Fatal(err)
			}
			from.wait(b, 1)
		}
		ours := time.Since(begun)
		received := make(chan error, 1)
		go func() {
			_, err := udptest.Bandwidth(b.Context(), udptest.Receiver, ports[1], ports[0], bytes, messages)
			received <- err
		}()
		result, err := udptest.Bandwidth(b.Context(), udptest.Sender, ports[0], ports[1], bytes, messages)
		if other := <-received; err != nil || other != nil {
			b.Fatal(err, other)
		}
		var raw time.Duration
		for _, d := range result.Durations {
			raw += d
		}
		ratios = append(ratios, raw.Seconds()/ours.Seconds())
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "of-raw-UDP")
}
