package soft

import (
	"testing"

	"ringcli/verbs"
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
