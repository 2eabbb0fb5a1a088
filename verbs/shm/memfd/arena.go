package memfd

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"ringcli/verbs"
	"ringcli/verbs/memory"
)

var _ verbs.Memory = (*Arena)(nil)

// Arena is memory of this process that others can map: zeroed, a memfd, sealed so
// that nobody can shrink it under a reader; or what was there before (Adopt). Its methods
// may be called by any goroutine.
type Arena struct {
	id     uint64
	addr   uint64
	n      int
	offset uint64 // of addr in the file
	loose  bool   // the file is not ours, and somebody may shrink it
	freed  atomic.Bool

	mu      sync.Mutex         // guards what follows
	give    func() error       // gives the memory back
	fd      int                // the file; -1 once freed
	holders map[*conn]struct{} // processes that were given a descriptor and hear of the end
}

var (
	lastID  atomic.Uint64
	tableMu sync.Mutex               // held to replace table
	table   atomic.Pointer[[]*Arena] // the process's arenas by address; readers take no lock
)

func arenas() []*Arena {
	if t := table.Load(); t != nil {
		return *t
	}
	return nil
}

func byAddr(a *Arena, addr uint64) int { return cmp.Compare(a.addr, addr) }

// Create makes an arena of length bytes, which lie at the start of a page. Pages
// take memory when they are first touched. Zero bytes give an arena with an
// address and no bytes.
func Create(length uint64) (*Arena, error) {
	size, ok := memory.RoundUp(length)
	if total := machineMemory(); !ok || total > 0 && size > total {
		return nil, fmt.Errorf("allocate %d bytes to share: this machine has %d bytes of memory and swap; use a smaller size", length, total)
	}
	fd, err := newMemfd(size)
	if err != nil {
		return nil, fmt.Errorf("allocate %d bytes to share: %w; %s", length, err, advice(err))
	}
	block, err := memory.MapFile(fd, 0, length, true)
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("allocate %d bytes to share: %w; %s", length, err, advice(err))
	}
	a := &Arena{addr: block.Addr(), n: block.Len(), give: block.Free, fd: fd}
	a.enter()
	return a, nil
}

// enter puts a new arena into the table.
func (a *Arena) enter() {
	a.id, a.holders = lastID.Add(1), make(map[*conn]struct{})
	tableMu.Lock()
	defer tableMu.Unlock()
	old := arenas()
	at, _ := slices.BinarySearchFunc(old, a.addr, byAddr)
	t := slices.Insert(slices.Clone(old), at, a)
	table.Store(&t)
}

const memfdName = "ringcli-arena"

// newMemfd makes a file in memory of size bytes that stays that size.
func newMemfd(size uint64) (fd int, err error) {
	// The name shows in /proc/PID/maps and is nobody's address. A kernel before 6.3
	// does not know MFD_NOEXEC_SEAL, and one set to vm.memfd_noexec=2 insists on it.
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err = unix.MemfdCreate(memfdName, flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate(memfdName, flags)
	}
	if err != nil {
		return -1, fmt.Errorf("memfd_create: %w", err)
	}
	if err = unix.Ftruncate(fd, int64(size)); err != nil {
		err = fmt.Errorf("ftruncate: %w", err)
	} else if _, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		err = fmt.Errorf("seal: %w", err)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// machineMemory returns the bytes of memory and swap, 0 if the kernel does not
// say. A memfd of any size can be made; it is the touching that kills.
func machineMemory() uint64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return (info.Totalram + info.Totalswap) * uint64(info.Unit)
}

// advice says what to do about an error of getting memory or descriptors.
func advice(err error) string {
	switch {
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return "close files or raise the limit of open files (ulimit -n)"
	case errors.Is(err, unix.EFBIG):
		return "raise the limit of file sizes (ulimit -f)"
	case errors.Is(err, unix.ENOMEM):
		return "use a smaller size, free memory or raise the limit of address space (ulimit -v)"
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return "the system forbids it: use another device"
	}
	return "use a smaller size or free memory"
}

// Find returns the arena of this process in which the bytes [addr, addr+length)
// lie, and where in it they start. It takes no lock.
func Find(addr, length uint64) (a *Arena, offset uint64, ok bool) {
	t := arenas()
	at, exact := slices.BinarySearchFunc(t, addr, byAddr)
	if !exact {
		at--
	}
	if at < 0 {
		return nil, 0, false
	}
	a, offset = t[at], addr-t[at].addr
	if n := uint64(a.n); offset > n || length > n-offset {
		return nil, 0, false
	}
	return a, offset, true
}

// ID names the arena in this process. It is never 0 and never used again.
func (a *Arena) ID() uint64 { return a.id }

func (a *Arena) Addr() uint64 { return a.addr }

// Len returns the number of bytes asked for, 0 once the arena is freed.
func (a *Arena) Len() int {
	if a.freed.Load() {
		return 0
	}
	return a.n
}

func (a *Arena) Bytes() []byte { return memory.Bytes(a.addr, a.Len()) }

// Free gives the memory back and tells the peers that have views of it. It does
// not wait for them. Freeing twice is harmless.
func (a *Arena) Free() error {
	if a == nil || a.freed.Swap(true) {
		return nil
	}
	tableMu.Lock()
	t := slices.DeleteFunc(slices.Clone(arenas()), func(x *Arena) bool { return x == a })
	table.Store(&t)
	tableMu.Unlock()

	a.mu.Lock()
	defer a.mu.Unlock()
	for c := range a.holders {
		c.send(message{kind: kindFreed, id: a.id, fd: -1})
	}
	clear(a.holders)
	err := errors.Join(a.give(), unix.Close(a.fd))
	a.fd = -1
	return err
}

// hand queues a descriptor of the arena for c, which will hear of its end. It is
// queued under the lock, so that the news of the end always comes after it.
func (a *Arena) hand(c *conn, writable bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fd < 0 {
		return errFreed(a.id)
	}
	// A descriptor of its own, because Free may come before it is sent.
	fd, err := -1, error(nil)
	if !writable {
		fd, err = unix.Open("/proc/self/fd/"+strconv.Itoa(a.fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	if writable || err != nil { // without /proc the peer gets the memfd and maps it read-only
		fd, err = unix.FcntlInt(uintptr(a.fd), unix.F_DUPFD_CLOEXEC, 0)
	}
	if err != nil {
		return fmt.Errorf("duplicate the descriptor of arena %d: %w; %s", a.id, err, advice(err))
	}
	a.holders[c] = struct{}{}
	m := message{kind: kindView, writable: writable, id: a.id, length: uint64(a.n), value: a.offset, fd: fd}
	if a.loose {
		m.text = loose
	}
	c.send(m)
	return nil
}

// forget drops c, which has ended, from the holders.
func (a *Arena) forget(c *conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.holders, c)
}

func errFreed(id uint64) error {
	return fmt.Errorf("there is no arena %d in the process: freed, or never made there", id)
}

// Operations of futex(2) on words that processes share, so without
// FUTEX_PRIVATE_FLAG.
const (
	futexWait = 0
	futexWake = 1
)

// Wait sleeps until another process wakes the word, at most for timeout, if the
// word is value; else it returns at once. It may return early: check the word.
// The word lies in an arena or a view of one. ETIMEDOUT: the time has passed.
func Wait(word *uint32, value uint32, timeout time.Duration) error {
	limit := unix.NsecToTimespec(int64(max(timeout, 0)))
	_, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWait, uintptr(value),
		uintptr(unsafe.Pointer(&limit)), 0, 0)
	switch errno {
	case 0, unix.EAGAIN, unix.EINTR: // woken, not value, a signal
		return nil
	}
	return errno
}

// Wake wakes one waiter of the word, in whichever process.
func Wake(word *uint32) error {
	// It never blocks, so the scheduler need not be told.
	if _, _, errno := unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWake, 1, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}
