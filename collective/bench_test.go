package collective

import (
	"fmt"
	"testing"

	"ringcli/collective/reduce"
	"ringcli/ring"
)

// BenchmarkAllReduce is over ranks that are goroutines of one process on device
// soft:lo. busbw is as nccl-tests has it.
func BenchmarkAllReduce(b *testing.B) {
	for _, n := range []int{2, 4} {
		w := newWorld(b, n, ring.Options{}, nil)
		for _, bytes := range []int{8, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20} {
			k := newKit(w, bytes/4+2, reduce.Float32, reduce.Sum)
			for _, protocol := range []Protocol{Eager, RendezvousWrite, RendezvousRead, ReceiverInitiated} {
				b.Run(fmt.Sprintf("ranks=%d/bytes=%d/%s", n, bytes, protocol), func(b *testing.B) {
					k.runs(1, bytes/4, CallOptions{Protocol: protocol})
					b.ResetTimer()
					k.runs(b.N, bytes/4, CallOptions{Protocol: protocol})
					seconds := b.Elapsed().Seconds() / float64(b.N)
					b.ReportMetric(2*float64(n-1)/float64(n)*float64(bytes)/seconds/1e9, "busGB/s")
				})
			}
			w.must(func(rank int, _ *Comm) error { return k.send[rank].Free() })
			w.must(func(rank int, _ *Comm) error { return k.recv[rank].Free() })
		}
		w.close()
	}
}
