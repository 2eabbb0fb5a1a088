package ring

import (
	"fmt"

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
// that peers on this host can map, where one of them is shared memory.
func (r *Ring) AllocMemory(length uint64) (verbs.Memory, error) {
	for _, d := range r.Devices() {
		if _, ok := d.Context.(verbs.Allocator); ok {
			return d.Alloc(length)
		}
	}
	return memory.Alloc(length)
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
