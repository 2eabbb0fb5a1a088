package transport_test

import (
	"fmt"
	"testing"

	"ringcli/verbs/transport"
)

func BenchmarkWrite(b *testing.B) {
	for _, device := range []string{"shm", "soft:lo"} {
		for _, size := range []uint64{8, 8192, 1 << 20, 16 << 20} {
			b.Run(fmt.Sprintf("%s/%d", device, size), func(b *testing.B) {
				server, client := pair(b, transport.Options{Device: device})
				from, to := alloc(b, server, size), alloc(b, client, size)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					if err := server.Write(b.Context(), from.All(), to.Remote(), false).Wait(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// What a copy takes, to lay beside writes of shared memory.
func BenchmarkMemcpy(b *testing.B) {
	from, to := make([]byte, 16<<20), make([]byte, 16<<20)
	fill(from, 1)
	fill(to, 2)
	b.SetBytes(int64(len(to)))
	for b.Loop() {
		copy(to, from)
	}
}
