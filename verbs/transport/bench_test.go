package transport_test

import (
	"fmt"
	"testing"

	"ringcli/verbs/transport"
)

// pair are two ends that are connected, each on a loop of its own or on a given one.
func pair(t testing.TB, o transport.Options) (a, b *transport.Transport) {
	t.Helper()
	var ends [2]*transport.Transport
	var urls [2]string
	for i := range ends {
		end, err := transport.New(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := end.Close(); err != nil {
				t.Error(err)
			}
		})
		if urls[i], err = end.Bind(); err != nil {
			t.Fatal(err)
		}
		ends[i] = end
	}
	for i, end := range ends {
		if err := end.Connect(t.Context(), urls[1-i]); err != nil {
			t.Fatal(err)
		}
	}
	return ends[0], ends[1]
}

func alloc(t testing.TB, end *transport.Transport, n uint64) *transport.Memory {
	t.Helper()
	m, err := end.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

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
