//go:build !nodl

package ibv

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"ringcli/trace"
	"ringcli/verbs"
)

// pd is a protection domain (struct ibv_pd).
type pd struct {
	ctx      *Context
	handle   uintptr
	children int  // regions and queue pairs; guarded by ctx.mu
	closed   bool // guarded by ctx.mu
}

func (p *pd) Context() verbs.Context { return p.ctx }

// live returns an error once the domain is closed. The context's lock is held.
func (p *pd) live() error {
	if p.closed {
		return fmt.Errorf("protection domain: %w", verbs.ErrClosed)
	}
	return nil
}

func (p *pd) RegMR(addr, length uint64, access verbs.Access) (verbs.MR, error) {
	c := p.ctx
	what := fmt.Sprintf("register %d bytes at %#x on %s", length, addr, c.device.Name())
	if err := verbs.CheckRegion(what, addr, length, access, c.limits.MaxMRSize); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := p.live(); err != nil {
		return nil, err
	}
	lock := lockedMemory()
	if reason := lock.tooMuch(addr, length); reason != "" {
		return nil, verbs.OfKind(verbs.ErrMemlock, fmt.Errorf("%s: %w: %s", what, verbs.ErrNoMemory, reason))
	}
	handle, errno := c.lib.errno(c.lib.regMR, p.handle, uintptr(addr), uintptr(length), uintptr(access))
	switch {
	case handle != 0:
	case errno == syscall.ENOMEM:
		return nil, fmt.Errorf("%w: %s", failed(errno, "%s (ibv_reg_mr)", what), lock.state())
	case errno == syscall.EFAULT:
		return nil, fmt.Errorf("%s (ibv_reg_mr): %w: %w: not all of it is mapped with the rights asked for", what, verbs.ErrInvalid, errno)
	default:
		return nil, failed(errno, "%s with access %s (ibv_reg_mr)", what, access)
	}
	return p.adopt(handle, addr, length, access), nil
}

// RegDMABufMR implements verbs.DMABufRegistrar.
func (p *pd) RegDMABufMR(fd int, offset, addr, length uint64, access verbs.Access) (verbs.MR, error) {
	c := p.ctx
	what := fmt.Sprintf("register a dma-buf of %d bytes on %s", length, c.device.Name())
	if err := verbs.CheckRegion(what, addr, length, access, c.limits.MaxMRSize); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := p.live(); err != nil {
		return nil, err
	}
	if c.lib.regDMABufMR == 0 {
		return nil, fmt.Errorf("%s: %w: %s has no ibv_reg_dmabuf_mr: expected rdma-core 34 or later", what, verbs.ErrInvalid, soname)
	}
	handle, errno := c.lib.errno(c.lib.regDMABufMR, p.handle, uintptr(offset), uintptr(length), uintptr(addr), uintptr(fd), uintptr(access))
	if handle == 0 {
		return nil, failed(errno, "%s (ibv_reg_dmabuf_mr: the RDMA device's driver and the kernel, 5.12 or later, must know it)", what)
	}
	return p.adopt(handle, addr, length, access), nil
}

// adopt makes a region of what the library has registered. The context's lock is held.
func (p *pd) adopt(handle uintptr, addr, length uint64, access verbs.Access) verbs.MR {
	m := at[cMR](handle)
	r := &mr{pd: p, handle: handle, addr: addr, length: length, lkey: m.lkey, rkey: m.rkey, access: access}
	p.children++
	trace.Debug(trace.Verbs, "memory registered", slog.String("addr", fmt.Sprintf("%#x", addr)), slog.Uint64("bytes", length),
		slog.String("lkey", fmt.Sprintf("%#x", r.lkey)), slog.String("rkey", fmt.Sprintf("%#x", r.rkey)), slog.String("access", access.String()))
	return r
}

func (p *pd) Close() error {
	c := p.ctx
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case p.closed:
		return nil
	case p.children > 0:
		return fmt.Errorf("close protection domain: %w: %d queue pairs and regions are open", verbs.ErrBusy, p.children)
	}
	if e := destroyed(call(c.lib.deallocPD, p.handle)); e != 0 {
		return failed(e, "close protection domain (ibv_dealloc_pd)")
	}
	p.closed = true
	c.children--
	return nil
}

// mr is a memory region (struct ibv_mr).
type mr struct {
	pd         *pd
	handle     uintptr
	addr       uint64
	length     uint64
	lkey, rkey uint32
	access     verbs.Access
	closed     bool // guarded by ctx.mu
}

func (r *mr) Addr() uint64           { return r.addr }
func (r *mr) Length() uint64         { return r.length }
func (r *mr) LKey() uint32           { return r.lkey }
func (r *mr) RKey() uint32           { return r.rkey }
func (r *mr) Access() verbs.Access   { return r.access }
func (r *mr) Kind() verbs.MemoryKind { return verbs.MemoryHost }

func (r *mr) Close() error {
	c := r.pd.ctx
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.closed {
		return nil
	}
	if e := destroyed(call(c.lib.deregMR, r.handle)); e != 0 {
		return failed(e, "deregister %d bytes at %#x (ibv_dereg_mr)", r.length, r.addr)
	}
	r.closed = true
	r.pd.children--
	trace.Debug(trace.Verbs, "memory deregistered", slog.String("addr", fmt.Sprintf("%#x", r.addr)), slog.String("rkey", fmt.Sprintf("%#x", r.rkey)))
	return nil
}

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
