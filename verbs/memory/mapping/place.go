package mapping

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"ringcli/verbs/memory"
)

// Place is memory of this process that is mapped readable and writable.
type Place struct {
	Addr   uint64 // the start of the first page
	Size   uint64 // bytes of whole pages
	Offset uint64 // of Addr in the file, if it is Shared
	Shared bool   // as the file behind it is, and not a copy of it
	whole  bool   // the bytes that were asked for are whole pages
	areas  []area
}

// refusal is a flag of proc_pid_smaps(5), and why it is in the way.
type refusal struct{ flag, why string }

// refused says which of them a mapping has.
func (a *area) refused(by []refusal) error {
	for _, r := range by {
		if slices.Contains(a.flags, r.flag) {
			return errors.New(r.why)
		}
	}
	return nil
}

// forbidden are the those of memory that others cannot have.
var forbidden = []refusal{
	{"ht", "it is of huge pages of hugetlbfs: expected ordinary pages; transparent huge pages are ordinary"},
	{"pf", "it is a device's: expected ordinary memory"},
	{"io", "it is a device's: expected ordinary memory"},
}

// unmovable are those of private memory that must stay what it is.
var unmovable = []refusal{
	{"gd", "it is a stack: expected memory from mmap or an allocator"},
	{"lo", "it is locked (mlock): unlock it first, and lock it afterwards"},
	{"dc", "it is marked not to be inherited (MADV_DONTFORK), as memory is that a device has pinned, which would go on with the old pages: share it before anybody registers it"},
	{"um", "userfaultfd watches it: unregister it there first"},
	{"uw", "userfaultfd watches it: unregister it there first"},
	{"sl", "it is sealed (mseal)"},
}

// Find returns where n bytes at addr lie. The error says why no other process can have them.
func Find(addr, n uint64) (*Place, error) {
	page := uint64(unix.Getpagesize())
	if n == 0 || addr+n < addr || addr+n > 1<<63 {
		return nil, fmt.Errorf("%d bytes at %#x: expected 1 or more, in an address space", n, addr)
	}
	lo, hi := addr/page*page, (addr+n+page-1)/page*page
	list, err := areas(lo, hi)
	if err != nil {
		return nil, err
	}
	first := list[0]
	p := &Place{
		Addr: lo, Size: hi - lo, Offset: first.offset + lo - first.lo, Shared: first.rights[3] == 's',
		whole: lo == addr && hi == addr+n, areas: list,
	}
	for i := range list {
		a := &list[i]
		switch {
		case !strings.HasPrefix(a.rights, "rw"):
			return nil, fmt.Errorf("the mapping at %#x has the rights %s: expected it to be readable and writable", a.lo, a.rights)
		case (a.rights[3] == 's') != p.Shared:
			return nil, errors.New("it is in part mapped shared and in part privately: expected one of them")
		case p.Shared && (a.file != first.file || a.offset-first.offset != a.lo-first.lo):
			return nil, fmt.Errorf("it is of several files, from %#x on of %s: expected one mapping of one file", a.lo, a.name)
		}
		if why := a.refused(forbidden); why != nil {
			return nil, why
		}
		if !p.Shared && (strings.Contains(a.name, "Go: heap") || inGoHeap(lo, hi)) {
			return nil, errors.New("it is Go's heap, which the garbage collector manages: expected memory from mmap, or from Alloc")
		}
	}
	return p, nil
}

// goHeap is the address of a byte of Go's heap.
var goHeap = memory.Addr(make([]byte, 1))

// inGoHeap tells whether pages lie where Go's heap is: it grows from one address on, which is a fixed or a
// random one (mallocinit), below all that the kernel places. Between the two is more than near.
func inGoHeap(lo, hi uint64) bool {
	const near = 1 << 37
	return hi+near > goHeap && lo < goHeap+near
}

// Movable says why private memory cannot be moved, nil if the caller may ask for it.
func (p *Place) Movable() error {
	if page := unix.Getpagesize(); !p.whole {
		return fmt.Errorf("its first or its last page of %d bytes is in part another's: expected whole pages, such as from mmap or posix_memalign(%d, ...)", page, page)
	}
	for i := range p.areas {
		if why := p.areas[i].refused(unmovable); why != nil {
			return why
		}
		if p.areas[i].rights[2] == 'x' {
			return errors.New("it is executable: expected data")
		}
	}
	return nil
}

// mapFiles has a link of each mapping. Tests have it elsewhere.
var mapFiles = "/proc/self/map_files"

// Open returns a descriptor of the file behind shared memory, to read and write. The caller
// closes it.
func (p *Place) Open() (fd int, err error) {
	var errs []error
	try := func(how, path string) bool {
		if fd, err = unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0); err == nil {
			if err = p.is(fd); err == nil {
				return true
			}
			_ = unix.Close(fd)
		}
		errs = append(errs, fmt.Errorf("%s: %w", how, err))
		return false
	}
	if try(mapFiles, fmt.Sprintf("%s/%x-%x", mapFiles, p.areas[0].lo, p.areas[0].hi)) {
		return fd, nil
	}
	_, inode, _ := strings.Cut(p.areas[0].file, " ")
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		n, _ := strconv.Atoi(e.Name())
		var stat unix.Stat_t
		if unix.Fstat(n, &stat) != nil || strconv.FormatUint(stat.Ino, 10) != inode || stat.Mode&unix.S_IFMT != unix.S_IFREG {
			continue
		}
		if try("descriptor "+e.Name(), "/proc/self/fd/"+e.Name()) {
			return fd, nil
		}
	}
	gone := strings.HasSuffix(p.areas[0].name, " (deleted)")
	if strings.HasPrefix(p.areas[0].name, "/") && !gone && try(p.areas[0].name, p.areas[0].name) {
		return fd, nil
	}
	if gone {
		errs = append(errs, errors.New("no descriptor of it is open, and it has no name any more"))
	}
	return -1, fmt.Errorf("its file, %s, cannot be opened (%w): keep a descriptor of it open, or give the process CAP_CHECKPOINT_RESTORE", strings.TrimSuffix(p.areas[0].name, " (deleted)"), errors.Join(errs...))
}

// is says why a descriptor is not of the file behind the memory: file systems write
// other numbers into /proc than fstat tells, so it maps a page and looks.
func (p *Place) is(fd int) error {
	block, err := memory.MapFile(fd, p.Offset, 1, true)
	if err != nil {
		return err
	}
	defer func() { _ = block.Free() }()
	list, err := areas(block.Addr(), block.Addr()+1)
	if err == nil && list[0].file != p.areas[0].file {
		err = errors.New("it is another file")
	}
	return err
}

// Move puts pages of a file in the place of the memory, whose content they take over. fd is of
// a file of Size bytes at least. Nobody may write to the memory meanwhile.
func (p *Place) Move(fd int) error {
	block, err := memory.MapFile(fd, 0, p.Size, true)
	if err != nil {
		return err
	}
	return errors.Join(block.TakeOver(p.Addr), block.Free())
}

// Restore makes memory that was moved private again, with what it holds. Nobody may write
// to it meanwhile.
func (p *Place) Restore() error {
	block, err := memory.Alloc(p.Size)
	if err != nil {
		return fmt.Errorf("make %d bytes at %#x private again: %w", p.Size, p.Addr, err)
	}
	return errors.Join(block.TakeOver(p.Addr), block.Free())
}
