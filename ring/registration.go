package ring

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"ringcli/ring/diagnose"
	"ringcli/verbs"
	"ringcli/verbs/memory"
)

// Registration is memory that is registered on every device of the ring, those
// that it opens later, too: each device has keys of its own for it.
type Registration struct {
	Addr, Length uint64 // not to be changed, as Access
	Access       verbs.Access

	r    *Ring
	mrs  [MaxDevices]verbs.MR      // guarded by the ring's devices.registering
	keys [MaxDevices]atomic.Uint64 // lkey, rkey: of mrs, to be read at any time
}

// RegisterMemory registers length bytes at addr, which must stay mapped until the
// registration is closed, on every device of the ring.
func (r *Ring) RegisterMemory(addr, length uint64, access verbs.Access) (*Registration, error) {
	g := &Registration{r: r, Addr: addr, Length: length, Access: access}
	r.devices.registering.Lock()
	defer r.devices.registering.Unlock()
	devices := r.Devices()
	if len(devices) == 0 {
		return nil, stepError("register memory", r.standing(bothSides), StateInitialised)
	}
	for _, d := range devices {
		if err := g.add(d); err != nil {
			return nil, errors.Join(err, g.close())
		}
	}
	r.devices.registrations = append(r.devices.registrations, g)
	return g, nil
}

func (g *Registration) add(d *Device) error {
	mr, err := d.PD.RegMR(g.Addr, g.Length, g.Access)
	if err != nil {
		return fmt.Errorf("register %d bytes at %#x on %s: %w", g.Length, g.Addr, d.Name, err)
	}
	g.mrs[d.Index] = mr
	g.keys[d.Index].Store(uint64(mr.LKey())<<32 | uint64(mr.RKey()))
	return nil
}

func (g *Registration) remove(device int) error {
	mr := g.mrs[device]
	if mr == nil {
		return nil
	}
	g.mrs[device] = nil
	g.keys[device].Store(0)
	return mr.Close()
}

func (g *Registration) close() error {
	var errs []error
	for i := range g.mrs {
		errs = append(errs, g.remove(i))
	}
	return errors.Join(errs...)
}

// Close deregisters the memory on all devices: when it returns the keys are dead.
// Closing twice is harmless.
func (g *Registration) Close() error {
	all := &g.r.devices
	all.registering.Lock()
	defer all.registering.Unlock()
	all.registrations = slices.DeleteFunc(all.registrations, func(other *Registration) bool { return other == g })
	if err := g.close(); err != nil {
		return fmt.Errorf("deregister %d bytes at %#x: %w", g.Length, g.Addr, err)
	}
	return nil
}

// LKey returns the key for requests of this rank on a device.
func (g *Registration) LKey(d *Device) uint32 { return uint32(g.keys[d.Index].Load() >> 32) }

// RKey returns the key for requests that a peer makes to a device.
func (g *Registration) RKey(d *Device) uint32 { return uint32(g.keys[d.Index].Load()) }

// Mappable tells whether peers on this host can map the memory.
func (g *Registration) Mappable() bool {
	g.r.devices.registering.Lock()
	defer g.r.devices.registering.Unlock()
	return slices.ContainsFunc(g.mrs[:], func(mr verbs.MR) bool { return mr != nil && mr.Kind() == verbs.MemoryArena })
}

// Keys are those of a registration by device, copied for hot paths. They hold for
// as long as the ring opens no further device.
type Keys [MaxDevices]struct{ LKey, RKey uint32 }

// Keys returns all keys.
func (g *Registration) Keys() (k Keys) {
	for i := range k {
		both := g.keys[i].Load()
		k[i].LKey, k[i].RKey = uint32(both>>32), uint32(both)
	}
	return k
}

// LKey returns the key for requests on an edge.
func (k *Keys) LKey(e *Edge) uint32 { return k[e.device.Index].LKey }

// RKey returns the key for an edge's peer.
func (k *Keys) RKey(e *Edge) uint32 { return k[e.device.Index].RKey }

// AllocMemory returns zeroed memory of the best kind for the ring's devices: such
// that peers on this host can map, where one of them is shared memory.
func (r *Ring) AllocMemory(length uint64) (verbs.Memory, error) {
	for _, d := range r.Devices() {
		if _, ok := d.Context.(verbs.Allocator); ok {
			return d.alloc(length)
		}
	}
	return memory.Alloc(length)
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

// RegionOn returns a registration as a device has it.
func (g *Registration) RegionOn(d *Device, name string) diagnose.Region {
	return diagnose.Region{
		Name: name, Addr: g.Addr, Length: g.Length, LKey: g.LKey(d), RKey: g.RKey(d), Access: g.Access, Flags: accessFlags(g.Access),
	}
}

// regions are what AddRegion was given, by name.
type regions map[string]*Registration

// on lists the regions by name, with the keys of a device.
func (all regions) on(d *Device) []diagnose.Region {
	list := make([]diagnose.Region, 0, len(all))
	for name, g := range all {
		list = append(list, g.RegionOn(d, name))
	}
	slices.SortFunc(list, func(a, b diagnose.Region) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// accessFlags lists rights by the names of enum ibv_access_flags.
func accessFlags(a verbs.Access) []string {
	flags := []string{}
	for bit := verbs.AccessLocalWrite; bit <= verbs.AccessRemoteAtomic; bit <<= 1 {
		if a&bit != 0 {
			flags = append(flags, bit.String())
		}
	}
	return flags
}
