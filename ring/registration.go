package ring

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"ringcli/ring/locality"
	"ringcli/verbs"
	"ringcli/verbs/memory"
)

// RegisterMemory registers length bytes at addr, which must stay mapped until the
// registration is closed, on every device of the ring.
func (r *Ring) RegisterMemory(addr, length uint64, access verbs.Access) (*Registration, error) {
	all := &r.devices.memory
	all.Lock()
	defer all.Unlock()
	devices := r.Devices()
	if len(devices) == 0 {
		return nil, stepError("register memory", r.standing(bothSides), StateInitialised)
	}
	return all.Register(devices, addr, length, access)
}

// AllocMemory returns zeroed memory of the best kind for the ring's devices: such
// that peers on this host can map, where one of them is shared memory, or may be later.
func (r *Ring) AllocMemory(length uint64) (verbs.Memory, error) {
	for _, d := range r.Devices() {
		if _, ok := d.Context.(verbs.Allocator); ok {
			return d.Alloc(length)
		}
	}
	if a, ok := locality.SharedMemory().(verbs.Allocator); ok && r.beside.Load() {
		return a.AllocMemory(length)
	}
	return memory.Alloc(length)
}

// findBeside tells whether another rank may be on this host, whom shared memory reaches.
func (r *Ring) findBeside() bool {
	own := r.opts.Locality()
	return own.Auto() && own.NoSHM == "" && slices.ContainsFunc(slices.Delete(slices.Clone(r.addrs), r.rank, r.rank+1), func(a netip.AddrPort) bool {
		return locality.IsLocal(a.Addr())
	})
}

// SharedMemory opens the device of shared memory, if there is none yet and if this rank may use it:
// for memory that others on its host map without an edge to it.
func (r *Ring) SharedMemory(ctx context.Context) (*Device, error) {
	own := r.opts.Locality()
	switch {
	case own.NoSHM != "":
		return nil, errors.New(own.NoSHM)
	case !own.Auto() && !own.AskedHostLocal:
		return nil, fmt.Errorf("%s was asked for", own.Asked)
	}
	return r.DeviceBeside(ctx, locality.Choice{HostLocal: true, Why: "ranks of one host share memory"})
}

// AdoptMemory makes memory that is there already such as AllocMemory's, as verbs.Adopter
// does. ErrInvalid: that cannot be done, with this memory or on this ring.
func (r *Ring) AdoptMemory(addr, length uint64, move bool) (verbs.Memory, error) {
	for _, d := range r.Devices() {
		if a, ok := d.Context.(verbs.Adopter); ok {
			return a.AdoptMemory(addr, length, move)
		}
	}
	return nil, fmt.Errorf("share %d bytes at %#x: %w: the ring has no device of shared memory, expected shm", length, addr, verbs.ErrInvalid)
}

// AddRegion has both neighbours see a region under a name, in End: without it
// they could not tell a key of it from a wrong one. A second region of one name
// replaces the first. The region stays the caller's, who takes it out before it
// is closed.
func (r *Ring) AddRegion(name string, g *Registration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.regions[name] = g
}

// RemoveRegion takes a region out again.
func (r *Ring) RemoveRegion(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.regions, name)
}
