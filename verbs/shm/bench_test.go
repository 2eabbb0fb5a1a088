package shm_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"ringcli/verbs"
	"ringcli/verbs/memory"
)

func benchEnds(b *testing.B, inArena bool, n uint64, r role) (*end, *peer) {
	b.Helper()
	e, err := newEnd(inArena, n)
	if err != nil {
		b.Fatal(err)
	}
	r.Arena, r.Bytes = inArena, n
	p := startPeer(b, e, r)
	b.Cleanup(func() {
		if err := p.end(); err != nil {
			b.Error(err)
		}
		if err := e.close(); err != nil {
			b.Error(err)
		}
	})
	return e, p
}

// await polls until completions of a kind have come, and returns how many.
func (e *end) await(b testing.TB, op verbs.WCOpcode) (n int) {
	for n == 0 {
		wcs, err := e.poll(10 * time.Second)
		if err != nil || len(wcs) == 0 {
			b.Fatalf("waited 10 s for %s: %v", op, err)
		}
		for _, wc := range wcs {
			if wc.Status != verbs.Success {
				b.Fatal(wc)
			}
			if wc.Opcode == op {
				n++
			}
		}
	}
	return n
}

// BenchmarkPingPong is SENDs of 8 bytes to another process and back: half of what
// it shows is one way.
func BenchmarkPingPong(b *testing.B) {
	e, _ := benchEnds(b, true, 4096, role{Receive: 8, Echo: true})
	send := []verbs.WorkRequest{{Opcode: verbs.OpSend, SGL: e.sge(0, 8)}}
	recv := []verbs.WorkRequest{{SGL: e.sge(64, 64)}}
	// The median of short windows is what two free cores do, on a machine that has
	// others to serve.
	const window = 64
	var windows []time.Duration
	begun := time.Now()
	for i := 0; b.Loop(); i++ {
		send[0].Flags = 0
		if i%window == 0 {
			send[0].Flags = verbs.FlagSignaled
			if now := time.Now(); i > 0 {
				windows, begun = append(windows, now.Sub(begun)), now
			}
		}
		if _, err := e.qp.PostRecv(recv); err != nil {
			b.Fatal(err)
		}
		if _, err := e.qp.PostSend(send); err != nil {
			b.Fatal(err)
		}
		e.await(b, verbs.WCRecv)
	}
	if len(windows) > 0 {
		slices.Sort(windows)
		oneWay := func(d time.Duration) float64 { return float64(d) / window / 2 }
		b.ReportMetric(oneWay(windows[len(windows)/2]), "ns/oneway-median")
		b.ReportMetric(oneWay(windows[0]), "ns/oneway-least")
	}
}

// BenchmarkWrite is WRITEs to another process, four under way, beside memcpy.
func BenchmarkWrite(b *testing.B) {
	for _, n := range []uint64{64 << 10, 1 << 20, 16 << 20} {
		for _, inArena := range []bool{true, false} {
			b.Run(fmt.Sprintf("%dK/arena=%v", n>>10, inArena), func(b *testing.B) {
				e, p := benchEnds(b, inArena, n, role{})
				wr := []verbs.WorkRequest{{Opcode: verbs.OpWrite, Flags: verbs.FlagSignaled, SGL: e.sge(0, uint32(n)), RKey: p.RKey, RemoteAddr: p.Addr}}
				b.SetBytes(int64(n))
				const ahead = 4
				under := 0
				for b.Loop() {
					if under == ahead {
						under -= e.await(b, verbs.WCWrite)
					}
					if _, err := e.qp.PostSend(wr); err != nil {
						b.Fatal(err)
					}
					under++
				}
				for under > 0 {
					under -= e.await(b, verbs.WCWrite)
				}
			})
		}
		b.Run(fmt.Sprintf("%dK/memcpy", n>>10), func(b *testing.B) {
			block, err := memory.Alloc(2 * n)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(n))
			for b.Loop() {
				copy(block.Bytes()[:n], block.Bytes()[n:])
			}
			if err := block.Free(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
