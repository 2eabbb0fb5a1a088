//go:build !nodl

package ibv

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// memlock is what this process may lock into memory, as the kernel counts it when
// it registers a region (Linux drivers/infiniband/core/umem.c, ib_umem_get): pages
// pinned so far and wanted now, against RLIMIT_MEMLOCK, unless CAP_IPC_LOCK is held.
type memlock struct {
	limit    uint64 // bytes; RLIM_INFINITY: no limit
	pinned   uint64 // bytes
	exempt   bool   // CAP_IPC_LOCK
	pageSize uint64
}

func lockedMemory() memlock {
	m := memlock{limit: unix.RLIM_INFINITY, pageSize: uint64(os.Getpagesize())}
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &r); err != nil || r.Cur == unix.RLIM_INFINITY {
		return m // nothing to look at
	}
	m.limit = r.Cur
	if b, err := os.ReadFile("/proc/self/status"); err == nil {
		m.read(string(b))
	}
	return m
}

// read takes what /proc/PID/status says (proc_pid_status(5)).
func (m *memlock) read(status string) {
	for l := range strings.Lines(status) {
		key, value, _ := strings.Cut(strings.TrimSpace(l), ":")
		value = strings.TrimSpace(value)
		switch key {
		case "VmPin":
			kib, _ := strconv.ParseUint(strings.TrimSuffix(value, " kB"), 10, 64)
			m.pinned = kib << 10
		case "CapEff":
			bits, _ := strconv.ParseUint(value, 16, 64)
			m.exempt = bits&(1<<unix.CAP_IPC_LOCK) != 0
		}
	}
}

// pages is how many bytes of whole pages a range touches.
func (m memlock) pages(addr, length uint64) uint64 {
	first := addr / m.pageSize
	last := (addr + length - 1) / m.pageSize
	return (last - first + 1) * m.pageSize
}

const raise = "raise it (ulimit -l unlimited; limits.conf: memlock; systemd: LimitMEMLOCK=infinity; container: --ulimit memlock=-1) or use less memory"

// tooMuch is a sentence if the kernel will refuse to pin the range.
func (m memlock) tooMuch(addr, length uint64) string {
	if m.limit == unix.RLIM_INFINITY || m.exempt {
		return ""
	}
	want := m.pages(addr, length)
	if m.pinned+want <= m.limit {
		return ""
	}
	return fmt.Sprintf("locked memory is limited to %s, of which %s are in use, and this needs %s: %s", kib(m.limit), kib(m.pinned), kib(want), raise)
}

// state is what to say of an ENOMEM all the same.
func (m memlock) state() string {
	if m.limit == unix.RLIM_INFINITY || m.exempt {
		return "locked memory is not limited (ulimit -l), so the device is out of regions or the machine out of memory: use fewer or smaller regions"
	}
	return fmt.Sprintf("locked memory is limited to %s, of which %s are in use: %s", kib(m.limit), kib(m.pinned), raise)
}

func kib(n uint64) string { return fmt.Sprintf("%d KiB", n>>10) }
