package device

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"ringcli/ring/diagnose"
	"ringcli/verbs"
)

// Registration is memory that is registered on every device of the ring, those
// that it opens later, too: each device has keys of its own for it.
type Registration struct {
	Addr, Length uint64 // not to be changed, as Access
	Access       verbs.Access

	all  *Memory
	mrs  [Most]verbs.MR      // guarded by all
	keys [Most]atomic.Uint64 // lkey, rkey: of mrs, to be read at any time
}

// Memory is what is registered on each of a ring's devices. Its lock is held while a device
// or a registration comes or goes.
type Memory struct {
	sync.Mutex
	list []*Registration // guarded by the lock
}

// Register registers length bytes at addr, which must stay mapped until the registration is
// closed, on all devices. It needs the lock.
func (m *Memory) Register(devices []*Device, addr, length uint64, access verbs.Access) (*Registration, error) {
	g := &Registration{all: m, Addr: addr, Length: length, Access: access}
	for _, d := range devices {
		if err := g.add(d); err != nil {
			return nil, errors.Join(err, g.close())
		}
	}
	m.list = append(m.list, g)
	return g, nil
}

// Include registers all on one more device. It needs the lock.
func (m *Memory) Include(d *Device) error {
	for i, g := range m.list {
		if err := g.add(d); err != nil {
			for _, g := range m.list[:i] {
				err = errors.Join(err, g.remove(d.Index))
			}
			return err
		}
	}
	return nil
}

// Exclude deregisters all on a device. It needs the lock.
func (m *Memory) Exclude(d *Device) error {
	var errs []error
	for _, g := range m.list {
		errs = append(errs, g.remove(d.Index))
	}
	return errors.Join(errs...)
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
	g.all.Lock()
	defer g.all.Unlock()
	g.all.list = slices.DeleteFunc(g.all.list, func(other *Registration) bool { return other == g })
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
	g.all.Lock()
	defer g.all.Unlock()
	return slices.ContainsFunc(g.mrs[:], func(mr verbs.MR) bool { return mr != nil && mr.Kind() == verbs.MemoryArena })
}

// Keys are those of a registration by device, copied for hot paths. They hold for
// as long as the ring opens no further device.
type Keys [Most]struct{ LKey, RKey uint32 }

// Keys returns all keys.
func (g *Registration) Keys() (k Keys) {
	for i := range k {
		both := g.keys[i].Load()
		k[i].LKey, k[i].RKey = uint32(both>>32), uint32(both)
	}
	return k
}

// LKey returns the key for requests on a device.
func (k *Keys) LKey(d *Device) uint32 { return k[d.Index].LKey }

// RKey returns the key for requests of a peer to a device.
func (k *Keys) RKey(d *Device) uint32 { return k[d.Index].RKey }

// RegionOn returns a registration as a device has it.
func (g *Registration) RegionOn(d *Device, name string) diagnose.Region {
	return diagnose.Region{
		Name: name, Addr: g.Addr, Length: g.Length, LKey: g.LKey(d), RKey: g.RKey(d), Access: g.Access, Flags: AccessFlags(g.Access),
	}
}

// Regions are registrations by name.
type Regions map[string]*Registration

// On lists the regions by name, with the keys of a device.
func (all Regions) On(d *Device) []diagnose.Region {
	list := make([]diagnose.Region, 0, len(all))
	for name, g := range all {
		list = append(list, g.RegionOn(d, name))
	}
	slices.SortFunc(list, func(a, b diagnose.Region) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// AccessFlags lists rights by the names of enum ibv_access_flags.
func AccessFlags(a verbs.Access) []string {
	flags := []string{}
	for bit := verbs.AccessLocalWrite; bit <= verbs.AccessRemoteAtomic; bit <<= 1 {
		if a&bit != 0 {
			flags = append(flags, bit.String())
		}
	}
	return flags
}
