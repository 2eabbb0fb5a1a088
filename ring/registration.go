package ring

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"ringcli/ring/device"
	"ringcli/ring/diagnose"
	"ringcli/ring/locality"
	"ringcli/verbs"
	"ringcli/verbs/memory"
)

// Memory registers and allocates memory for all devices of a ring.
type Memory struct {
	devices *devices
	own     func() locality.Locality
	beside  func(context.Context, locality.Choice, ...int) (*Device, error)
	early   func() error // why there are no devices

	shared atomic.Bool // another rank may share memory with this one, by Open

	mu      sync.Mutex
	regions device.Regions // by AddRegion; guarded by mu
}

// Register registers length bytes at addr, which must stay mapped until the
// registration is closed, on every device of the ring.
func (m *Memory) Register(addr, length uint64, access verbs.Access) (*Registration, error) {
	all := &m.devices.memory
	all.Lock()
	defer all.Unlock()
	devices := m.devices.all()
	if len(devices) == 0 {
		return nil, m.early()
	}
	return all.Register(devices, addr, length, access)
}

// Alloc returns zeroed memory of the best kind for the ring's devices: such
// that peers on this host can map, where one of them is shared memory, or may be later.
func (m *Memory) Alloc(length uint64) (verbs.Memory, error) {
	for _, d := range m.devices.all() {
		if _, ok := d.Context.(verbs.Allocator); ok {
			return d.Alloc(length)
		}
	}
	if a, ok := locality.SharedMemory().(verbs.Allocator); ok && m.shared.Load() {
		return a.AllocMemory(length)
	}
	return memory.Alloc(length)
}

// Shared opens the device of shared memory, if there is none yet and if this rank may use it:
// for memory that others on its host map without an edge to it.
func (m *Memory) Shared(ctx context.Context) (*Device, error) {
	own := m.own()
	switch {
	case own.NoSHM != "":
		return nil, errors.New(own.NoSHM)
	case !own.Auto() && !own.AskedHostLocal:
		return nil, fmt.Errorf("%s was asked for", own.Asked)
	}
	return m.beside(ctx, locality.Choice{HostLocal: true, Why: "ranks of one host share memory"})
}

// Adopt makes memory that is there already such as Alloc's, as verbs.Adopter
// does. ErrInvalid: that cannot be done, with this memory or on this ring.
func (m *Memory) Adopt(addr, length uint64, move bool) (verbs.Memory, error) {
	for _, d := range m.devices.all() {
		if a, ok := d.Context.(verbs.Adopter); ok {
			return a.AdoptMemory(addr, length, move)
		}
	}
	return nil, fmt.Errorf("share %d bytes at %#x: %w: the ring has no device of shared memory, expected shm", length, addr, verbs.ErrInvalid)
}

// AddRegion makes both neighbours see a region under a name, in End: without it
// they could not tell a key of it from a wrong one. A second region of one name
// replaces the first. The region stays the caller's, who takes it out before it
// is closed.
func (m *Memory) AddRegion(name string, g *Registration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.regions[name] = g
}

// RemoveRegion takes a region out again.
func (m *Memory) RemoveRegion(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.regions, name)
}

// on returns the regions that are registered on a device.
func (m *Memory) on(d *Device) []diagnose.Region {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.regions.On(d)
}
