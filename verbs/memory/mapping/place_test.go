package mapping

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"ringcli/verbs/memory"
)

var page = uint64(unix.Getpagesize())

// mapped maps pages of a descriptor, or of none, until the test ends.
func mapped(t *testing.T, fd int, offset, pages uint64, prot, flags int) []byte {
	t.Helper()
	b, err := unix.Mmap(fd, int64(offset), int(pages*page), prot, flags)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(b) })
	return b
}

const readWrite = unix.PROT_READ | unix.PROT_WRITE

func private(t *testing.T, pages uint64) []byte {
	return mapped(t, -1, 0, pages, readWrite, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
}

func memfd(t *testing.T, pages uint64) int {
	t.Helper()
	fd, err := unix.MemfdCreate("mapping test", unix.MFD_CLOEXEC)
	if err != nil {
		t.Skipf("memfd_create: %v", err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Ftruncate(fd, int64(pages*page)); err != nil {
		t.Fatal(err)
	}
	return fd
}

func find(t *testing.T, addr, n uint64) *Place {
	t.Helper()
	p, err := Find(addr, n)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// withoutMapFiles has a test do without what takes privileges.
func withoutMapFiles(t *testing.T) {
	old := mapFiles
	t.Cleanup(func() { mapFiles = old })
	mapFiles = t.TempDir()
}

// TestOpen: each kind of shared memory is opened, by each way that there is, and what is
// written by the one mapping is read by the other.
func TestOpen(t *testing.T) {
	for _, privileged := range []bool{true, false} {
		for _, c := range []struct {
			name    string
			file    func(t *testing.T) (fd int, done func())
			without string // of the error where map_files does not help
		}{
			{"a memfd whose descriptor is open", func(t *testing.T) (int, func()) { return memfd(t, 4), func() {} }, ""},
			{"a memfd whose descriptor is closed", func(t *testing.T) (int, func()) {
				fd := memfd(t, 4)
				return fd, func() { _ = unix.Close(fd) }
			}, "keep a descriptor of it open"},
			{"a file that has a name", func(t *testing.T) (int, func()) {
				f := file(t, 4)
				return int(f.Fd()), func() { _ = f.Close() }
			}, ""},
			{"a file that is removed", func(t *testing.T) (int, func()) {
				f := file(t, 4)
				return int(f.Fd()), func() { _ = f.Close(); _ = os.Remove(f.Name()) }
			}, "no name any more"},
			{"a removed file that is open", func(t *testing.T) (int, func()) {
				f := file(t, 4)
				return int(f.Fd()), func() { _ = os.Remove(f.Name()) }
			}, ""},
			{"shared and anonymous", func(*testing.T) (int, func()) { return -1, func() {} }, "/dev/zero"},
		} {
			t.Run(fmt.Sprintf("%s, privileged %v", c.name, privileged), func(t *testing.T) {
				fd, done := c.file(t)
				flags, offset := unix.MAP_SHARED, page
				if fd < 0 {
					flags, offset = flags|unix.MAP_ANONYMOUS, 0
				}
				b := mapped(t, fd, offset, 3, readWrite, flags)
				done()
				if !privileged {
					withoutMapFiles(t)
				} else if err := readable(b); err != nil {
					t.Skipf("%s: %v", mapFiles, err)
				}
				p := find(t, memory.Addr(b)+page+7, 99) // a part of it, of no whole page
				if !p.Shared || p.Offset != offset+page || p.Addr != memory.Addr(b)+page || p.Size != page {
					t.Errorf("found %+v", p)
				}
				got, err := p.Open()
				if c.without != "" && !privileged {
					if err == nil || !strings.Contains(err.Error(), c.without) {
						t.Errorf("opened: %v, want %q", err, c.without)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = unix.Close(got) }()
				view, err := memory.MapFile(got, p.Offset, p.Size, true)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = view.Free() }()
				b[page+7], view.Bytes()[8] = 5, 6
				if view.Bytes()[7] != 5 || b[page+8] != 6 {
					t.Errorf("the view has %d and the memory %d", view.Bytes()[7], b[page+8])
				}
			})
		}
	}
}

// readable says why map_files cannot be used.
func readable(b []byte) error {
	lo := memory.Addr(b)
	fd, err := unix.Open(fmt.Sprintf("%s/%x-%x", mapFiles, lo, lo+uint64(len(b))), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

func file(t *testing.T, pages uint64) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "a file with blanks"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if err := f.Truncate(int64(pages * page)); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestOpenIsTheFile: another file by the same name is not taken for it.
func TestOpenIsTheFile(t *testing.T) {
	withoutMapFiles(t)
	f := file(t, 2)
	b := mapped(t, int(f.Fd()), 0, 2, readWrite, unix.MAP_SHARED)
	_ = f.Close()
	if err := os.Rename(f.Name(), f.Name()+" of before"); err != nil {
		t.Fatal(err)
	}
	p := find(t, memory.Addr(b), 10)
	p.areas[0].name = f.Name()
	if err := os.WriteFile(f.Name(), make([]byte, 2*page), 0o600); err != nil {
		t.Fatal(err)
	}
	if fd, err := p.Open(); err == nil || !strings.Contains(err.Error(), "another file") {
		t.Errorf("descriptor %d, %v", fd, err)
	}
}

// TestMove: memory is where it was and holds what it held, before and after, and in between
// its file is it.
func TestMove(t *testing.T) {
	all := private(t, 5)
	for i := range all {
		all[i] = byte(i * 7)
	}
	want := bytes.Clone(all)
	b := all[page : 4*page] // from the middle of a mapping
	p := find(t, memory.Addr(b), 3*page)
	if err := p.Movable(); err != nil || p.Shared {
		t.Fatal(p.Shared, err)
	}
	before := memory.Live.Load()
	fd := memfd(t, 3)
	if err := p.Move(fd); err != nil {
		t.Fatal(err)
	}
	view, err := memory.MapFile(fd, 0, p.Size, true)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = view.Free() }()
	if !bytes.Equal(all, want) || !bytes.Equal(view.Bytes(), b) {
		t.Error("moved memory has changed")
	}
	b[0], view.Bytes()[1], want[page], want[page+1] = 101, 102, 101, 102
	if view.Bytes()[0] != 101 || b[1] != 102 {
		t.Error("the memory is not the file's")
	}
	if moved := find(t, memory.Addr(b), 3*page); !moved.Shared {
		t.Error("moved memory is not shared")
	}
	if err := p.Restore(); err != nil {
		t.Fatal(err)
	}
	if view.Bytes()[2] = 99; !bytes.Equal(all, want) {
		t.Error("restored memory has changed, or is still the file's")
	}
	if again := find(t, memory.Addr(b), 3*page); again.Shared {
		t.Error("restored memory is shared")
	}
	if err := view.Free(); err != nil {
		t.Fatal(err)
	}
	if got := memory.Live.Load(); got != before {
		t.Errorf("%d bytes are live, %d before", got, before)
	}
}

// TestRefused: what cannot be had says why.
func TestRefused(t *testing.T) {
	hole := private(t, 3)
	if err := unix.Munmap(mapped(t, -1, 0, 1, readWrite, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.MmapPtr(-1, 0, pointer(hole[page:]), uintptr(page), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED); err != nil {
		t.Fatal(err)
	}
	two := mapped(t, memfd(t, 4), 0, 4, readWrite, unix.MAP_SHARED)
	other := memfd(t, 4)
	if _, err := unix.MmapPtr(other, 0, pointer(two[2*page:]), uintptr(page), readWrite, unix.MAP_SHARED|unix.MAP_FIXED); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.MmapPtr(-1, 0, pointer(two[3*page:]), uintptr(page), readWrite, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED); err != nil {
		t.Fatal(err)
	}
	locked := private(t, 1)
	if err := unix.Mlock(locked); err != nil {
		t.Logf("mlock: %v", err)
		locked = nil
	}
	pinned := private(t, 1)
	if err := unix.Madvise(pinned, unix.MADV_DONTFORK); err != nil {
		t.Fatal(err)
	}
	code := mapped(t, -1, 0, 1, readWrite|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	heap := make([]byte, 4*page)
	plain := private(t, 2)
	for _, c := range []struct {
		name string
		addr uint64
		n    uint64
		want string
	}{
		{"no bytes", memory.Addr(plain), 0, "expected 1 or more"},
		{"more than an address space", memory.Addr(plain), 1<<64 - 1, "expected 1 or more"},
		{"nothing", 1 << 40, 10, "nothing is mapped at 0x10000000000"},
		{"beyond the end", 4096, 1 << 62, "nothing is mapped"},
		{"rights", memory.Addr(hole), 3 * page, "rights ---p"},
		{"two files", memory.Addr(two), 3 * page, "of several files"},
		{"a file and private memory", memory.Addr(two) + 2*page, 2 * page, "in part"},
		{"Go's heap", memory.Addr(heap), 4 * page, "Go's heap"},
		{"the first page in part", memory.Addr(plain) + 16, page - 16, "whole pages"},
		{"the last page in part", memory.Addr(plain), page + 1, "whole pages"},
		{"locked", memory.Addr(locked), page, "mlock"},
		{"pinned", memory.Addr(pinned), page, "MADV_DONTFORK"},
		{"code", memory.Addr(code), page, "executable"},
		{"two mappings", memory.Addr(plain), 2 * page, ""},
	} {
		if c.addr == 0 {
			continue
		}
		p, err := Find(c.addr, c.n)
		if err == nil {
			err = p.Movable()
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func pointer(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }
