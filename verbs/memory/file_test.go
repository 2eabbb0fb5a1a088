package memory_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"ringcli/verbs/memory"
)

func memfd(t *testing.T, size uint64) int {
	t.Helper()
	fd, err := unix.MemfdCreate("memory-test", unix.MFD_CLOEXEC)
	if err != nil {
		t.Skipf("memfd_create: %v", err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		t.Fatal(err)
	}
	return fd
}

func mapFile(t *testing.T, fd int, n uint64, writable bool) *memory.Block {
	t.Helper()
	b, err := memory.MapFile(fd, 0, n, writable)
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

func TestMapFileIsShared(t *testing.T) {
	size, _ := memory.RoundUp(5000)
	fd := memfd(t, size)
	owner, reader := mapFile(t, fd, 5000, true), mapFile(t, fd, 5000, false)
	if owner.Addr() == reader.Addr() || owner.Len() != 5000 || reader.Len() != 5000 {
		t.Fatalf("views at %#x and %#x with %d and %d bytes", owner.Addr(), reader.Addr(), owner.Len(), reader.Len())
	}
	owner.Bytes()[4999] = 7
	if got := reader.Bytes()[4999]; got != 7 {
		t.Errorf("the reader sees %d, want 7", got)
	}
}

func TestMapFileOfNoFile(t *testing.T) {
	before := memory.Live.Load()
	if b, err := memory.MapFile(-1, 0, 10, true); err == nil {
		t.Errorf("a view of no file at %#x", b.Addr())
	}
	if got := memory.Live.Load(); got != before {
		t.Errorf("%d bytes live after a failure, want %d", got, before)
	}
}

func TestBlank(t *testing.T) {
	size, _ := memory.RoundUp(1)
	fd := memfd(t, size)
	owner, view := mapFile(t, fd, size, true), mapFile(t, fd, size, false)
	owner.Bytes()[0] = 9
	addr := view.Addr()
	if err := view.Blank(); err != nil {
		t.Fatal(err)
	}
	if view.Addr() != addr || view.Bytes()[0] != 0 {
		t.Errorf("blanked: byte %d at %#x, want 0 at %#x", view.Bytes()[0], view.Addr(), addr)
	}
	view.Bytes()[0] = 1
	if got := owner.Bytes()[0]; got != 9 {
		t.Errorf("a write to the blanked view reached the file: %d, want 9", got)
	}
	var none *memory.Block
	if err := none.Blank(); err != nil {
		t.Errorf("blanking nothing: %v", err)
	}
}

func TestRoundUp(t *testing.T) {
	page := uint64(unix.Getpagesize())
	for n, want := range map[uint64]uint64{0: page, 1: page, page: page, page + 1: 2 * page} {
		if got, ok := memory.RoundUp(n); !ok || got != want {
			t.Errorf("%d bytes: pages of %d bytes (%t), want %d", n, got, ok, want)
		}
	}
	if got, ok := memory.RoundUp(1 << 63); ok {
		t.Errorf("2^63 bytes round up to %d", got)
	}
}
