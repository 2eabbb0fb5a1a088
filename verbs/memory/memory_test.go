package memory_test

import (
	"math"
	"os"
	"testing"

	"ringcli/verbs/memory"
)

func alloc(t *testing.T, n uint64) *memory.Block {
	t.Helper()
	b, err := memory.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Free(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func TestAlloc(t *testing.T) {
	page := uint64(os.Getpagesize())
	for _, n := range []uint64{0, 1, page - 1, page, page + 1, 3 << 20} {
		b := alloc(t, n)
		if b.Len() != int(n) || len(b.Bytes()) != int(n) || cap(b.Bytes()) != int(n) {
			t.Errorf("%d bytes: got length %d and a slice of %d, capacity %d", n, b.Len(), len(b.Bytes()), cap(b.Bytes()))
		}
		if b.Addr() == 0 || b.Addr()%page != 0 {
			t.Errorf("%d bytes: address %#x is not that of a page", n, b.Addr())
		}
		for i, x := range b.Bytes() {
			if x != 0 {
				t.Fatalf("%d bytes: byte %d is %d, want 0", n, i, x)
			}
		}
	}
}

func TestAllocTooMuch(t *testing.T) {
	before := memory.Live.Load()
	for _, n := range []uint64{math.MaxUint64, math.MaxInt64, 1 << 60} {
		if b, err := memory.Alloc(n); err == nil {
			t.Errorf("%d bytes: got a block at %#x", n, b.Addr())
		}
	}
	if got := memory.Live.Load(); got != before {
		t.Errorf("%d bytes live after failures, want %d", got, before)
	}
}

func TestLive(t *testing.T) {
	page := int64(os.Getpagesize())
	before := memory.Live.Load()
	a, b := alloc(t, 1), alloc(t, uint64(page)+1)
	if got := memory.Live.Load() - before; got != 3*page {
		t.Errorf("1 byte and a page plus one: %d bytes live, want %d", got, 3*page)
	}
	for range 2 { // the second time is harmless
		if err := a.Free(); err != nil {
			t.Fatal(err)
		}
	}
	if got := memory.Live.Load() - before; got != 2*page {
		t.Errorf("one of them freed: %d bytes live, want %d", got, 2*page)
	}
	if a.Len() != 0 || len(a.Bytes()) != 0 {
		t.Errorf("a freed block still has %d bytes", a.Len())
	}
	if err := b.Free(); err != nil {
		t.Fatal(err)
	}
	if got := memory.Live.Load(); got != before {
		t.Errorf("all freed: %d bytes live, want %d", got, before)
	}
	var none *memory.Block
	if err := none.Free(); err != nil {
		t.Errorf("freeing nothing: %v", err)
	}
}

func TestViews(t *testing.T) {
	b := alloc(t, 64)
	bytes := b.Bytes()
	if memory.Addr(bytes) != b.Addr() || memory.Addr(bytes[8:]) != b.Addr()+8 {
		t.Error("the address of a slice is not the address of its bytes")
	}
	view := memory.Bytes(b.Addr()+8, 8)
	view[0], view[7] = 0x11, 0x22
	if bytes[8] != 0x11 || bytes[15] != 0x22 {
		t.Error("a view by address is not the same memory")
	}
	words := memory.Slice[uint32](b.Addr()+8, 2)
	words[0] = 0
	if bytes[8] != 0 || len(words) != 2 {
		t.Error("a typed view is not the same memory")
	}
	if memory.Addr(words) != b.Addr()+8 {
		t.Error("the address of a typed slice is not the address of its memory")
	}
	raw := memory.AsBytes(words)
	if len(raw) != 8 || memory.Addr(raw) != b.Addr()+8 {
		t.Errorf("two uint32 as bytes: %d bytes at %#x", len(raw), memory.Addr(raw))
	}
}

func TestEmptyViews(t *testing.T) {
	if memory.Bytes(0, 0) != nil || memory.Slice[int64](0, 0) != nil || memory.AsBytes([]float32(nil)) != nil {
		t.Error("a view of nothing is not empty")
	}
	if memory.Addr[byte](nil) != 0 || memory.Addr([]int8(nil)) != 0 {
		t.Error("nothing has an address")
	}
}
