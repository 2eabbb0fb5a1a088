package transport_test

import (
	"fmt"
	"testing"

	"ringcli/verbs/transport"
)

func BenchmarkWrite(b *testing.B) {
	for _, device := range []string{"shm", "soft:lo"} {
		for _, size := range []uint64{8, 8192, 1 << 20} {
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
