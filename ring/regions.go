package ring

import (
	"cmp"
	"slices"

	"ringcli/ring/diagnose"
	"ringcli/verbs"
)

// AddRegion has both neighbours see a region under a name, in End: without it
// they could not tell a key of it from a wrong one. A second region of one name
// replaces the first. The region stays the caller's, who takes it out before it
// is closed.
func (r *Ring) AddRegion(name string, g *Registration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.regions == nil {
		r.regions = make(regions)
	}
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
		Name: name, Addr: g.addr, Length: g.length, LKey: g.LKey(d), RKey: g.RKey(d), Access: g.access, Flags: accessFlags(g.access),
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
