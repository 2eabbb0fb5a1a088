package gpu

import (
	"fmt"

	"ringcli/verbs/memory"
)

// Memory is memory of a device, whose bytes the host cannot look at. Its owner frees it.
type Memory struct {
	device *Device
	addr   uint64
	n      int
	opened bool // of another process, by its handle
}

// Alloc returns n bytes of what they happen to hold.
func (d *Device) Alloc(n int) (*Memory, error) {
	addr, err := d.get(callAlloc, uintptr(max(n, 1)))
	if err != nil {
		return nil, fmt.Errorf("allocate %d bytes of %s: %w", n, d.Place, err)
	}
	return &Memory{device: d, addr: addr, n: n}, nil
}

// Addr is the device's address of the first byte, which its peers have in common.
func (m *Memory) Addr() uint64 { return m.addr }

// Len is the number of bytes.
func (m *Memory) Len() int { return m.n }

// Free gives the memory back: nothing may be under way with it. Freeing twice is harmless.
func (m *Memory) Free() error {
	if m == nil || m.addr == 0 {
		return nil
	}
	c, addr := callFree, m.addr
	if m.opened {
		c = callIPCClose
	}
	m.addr = 0
	if err := m.device.on(c, uintptr(addr)); err != nil {
		return fmt.Errorf("free %d bytes of %s: %w", m.n, m.device.Place, err)
	}
	return nil
}

// Pinned is memory of the host that no one swaps out: devices read and write it by the host's
// address, and copies of it run beside the host. It is verbs.Memory.
type Pinned struct {
	device *Device
	addr   uint64
	n      int
}

// pinnedFlags are CU_MEMHOSTALLOC_PORTABLE and _DEVICEMAP, and HIP's: for every device.
const pinnedFlags = 1 | 2

// AllocPinned returns n bytes of the host's.
func (d *Device) AllocPinned(n int) (*Pinned, error) {
	addr, err := d.get(callHostAlloc, uintptr(max(n, 1)), pinnedFlags)
	if err != nil {
		return nil, fmt.Errorf("allocate %d bytes of pinned host memory for %s: %w", n, d.Place, err)
	}
	return &Pinned{device: d, addr: addr, n: n}, nil
}

// Addr, Len, Bytes and Free are as verbs.Memory has them.

func (p *Pinned) Addr() uint64  { return p.addr }
func (p *Pinned) Len() int      { return p.n }
func (p *Pinned) Bytes() []byte { return memory.Bytes(p.addr, p.n) }

func (p *Pinned) Free() error {
	if p == nil || p.addr == 0 {
		return nil
	}
	addr := p.addr
	p.addr, p.n = 0, 0
	return p.device.on(callHostFree, uintptr(addr))
}
