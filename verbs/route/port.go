package route

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"ringcli/verbs"
)

// Port is an open device's port with the rows of its GID table that are in use.
type Port struct {
	Device    string
	HostLocal bool // the device has no link: peers are on this host
	Num       int
	Attr      verbs.PortAttr
	GIDs      []verbs.GIDEntry
	// Interfaces are the network interfaces of the GIDs, by name. One that is missing
	// is not known here: it may be in another network namespace.
	Interfaces map[string]Interface
}

// Interface is what there is to know of a network interface.
type Interface struct {
	Up       bool
	Prefixes []netip.Prefix // its addresses, with the lengths of their networks
}

// QueryPort asks a device for a port and its GIDs. A port that the device does not
// have is verbs.ErrInvalid; one that is not ACTIVE is an error that says what to do.
func QueryPort(c verbs.Context, port int) (Port, error) {
	p := Port{Device: c.Device().Name(), Num: port, Interfaces: make(map[string]Interface)}
	device, err := c.QueryDevice()
	if err != nil {
		return p, err
	}
	p.HostLocal = device.HostLocal
	if p.Attr, err = c.QueryPort(port); err != nil {
		return p, fmt.Errorf("port %d of %s: %w", port, p.Device, err)
	}
	if p.Attr.State != verbs.PortActive {
		return p, p.inactive()
	}
	for i := range p.Attr.GIDTableSz {
		g, err := c.QueryGID(port, i)
		if err != nil || g.GID.IsZero() {
			continue // rows that are not in use
		}
		p.GIDs = append(p.GIDs, g)
		if _, ok := p.Interfaces[g.NetDev]; g.NetDev == "" || ok {
			continue
		}
		if n, err := net.InterfaceByName(g.NetDev); err == nil {
			p.Interfaces[g.NetDev] = Interface{Up: n.Flags&net.FlagUp != 0, Prefixes: prefixes(*n)}
		}
	}
	return p, nil
}

// inactive says what to do about a port that carries nothing.
func (p Port) inactive() error {
	cure := "is the cable in and the interface up?"
	switch {
	case p.Attr.LinkLayer == verbs.LinkInfiniBand && (p.Attr.State == verbs.PortInit || p.Attr.State == verbs.PortArmed):
		cure = "the link is up, but no subnet manager has set the port up: start one (opensm), or ask sminfo which there is"
	case p.Attr.LinkLayer == verbs.LinkInfiniBand:
		cure = "is the cable in, and the other end up?"
	case p.Attr.NetDev != "":
		cure = fmt.Sprintf("is the link up? (ip link set %s up)", p.Attr.NetDev)
	}
	return fmt.Errorf("port %d of %s is %s: expected ACTIVE: %s", p.Num, p.Device, p.Attr.State, cure)
}

// gid returns the row of an index that is in use.
func (p Port) gid(index int) (verbs.GIDEntry, error) {
	var used []string
	for _, g := range p.GIDs {
		if g.Index == index {
			return g, nil
		}
		used = append(used, fmt.Sprint(g.Index))
	}
	if len(used) == 0 {
		return verbs.GIDEntry{}, fmt.Errorf("gid-index %d: %w: %w", index, verbs.ErrInvalid, p.empty())
	}
	return verbs.GIDEntry{}, fmt.Errorf("gid-index %d of port %d of %s: the entry is empty: %w: expected one that is in use: %s (ringcli devices lists them)",
		index, p.Num, p.Device, verbs.ErrInvalid, strings.Join(used, ", "))
}

// empty is the error of a port without any GID.
func (p Port) empty() error {
	cure := ""
	if p.Attr.NetDev != "" {
		cure = fmt.Sprintf(": bring its interface up and give it an address (ip link set %s up; ip address add ADDRESS dev %s)", p.Attr.NetDev, p.Attr.NetDev)
	}
	return fmt.Errorf("port %d of %s has no GID%s", p.Num, p.Device, cure)
}
