package memfd

import (
	"context"
	"fmt"
	"testing"

	"ringcli/verbs/memory"
)

func benchPeer(b *testing.B) *Peer {
	b.Helper()
	h, err := Listen(randomKey())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = h.Close() })
	p, err := h.Dial(context.Background(), h.key)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = p.Close() })
	return p
}

func benchArena(b *testing.B, n uint64) *Arena {
	b.Helper()
	a, err := Create(n)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = a.Free() })
	return a
}

func BenchmarkMapKnown(b *testing.B) {
	p, a := benchPeer(b), benchArena(b, 4096)
	for b.Loop() {
		if _, _, err := p.Map(context.Background(), a.ID(), false); err != nil {
			b.Fatal(err)
		}
	}
}

// A new arena, asked for and freed: the cost of a buffer's first use.
func BenchmarkMapNew(b *testing.B) {
	p := benchPeer(b)
	for b.Loop() {
		a := benchArena(b, 4096)
		if _, _, err := p.Map(context.Background(), a.ID(), false); err != nil {
			b.Fatal(err)
		}
		if err := a.Free(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFind(b *testing.B) {
	for range 63 {
		benchArena(b, 4096)
	}
	a := benchArena(b, 4096)
	for b.Loop() {
		if _, _, ok := Find(a.Addr()+8, 8); !ok {
			b.Fatal("not found")
		}
	}
}

func BenchmarkReadMemory(b *testing.B) {
	p := benchPeer(b)
	if !p.CanReadMemory() {
		b.Skip("process_vm_readv is not allowed here")
	}
	for _, n := range []int{8, 4 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			src, dst := benchArena(b, uint64(n)), benchArena(b, uint64(n))
			b.SetBytes(int64(n))
			for b.Loop() {
				if err := p.ReadMemory(memory.Bytes(dst.Addr(), n), src.Addr()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
