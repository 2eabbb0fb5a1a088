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
