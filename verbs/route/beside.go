package route

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"ringcli/verbs"
)

// Beside returns the address that a device is to speak from beside one that speaks from local:
// that one itself where its interface is the device's, else the device's first of the same
// family; none where it has no addresses, as on InfiniBand. The error wraps verbs.ErrInvalid
// where others would do.
func Beside(d verbs.Device, port int, local netip.Addr) (a netip.Addr, err error) {
	c, err := d.Open(verbs.OpenOptions{})
	if err != nil {
		return a, fmt.Errorf("open %s: %w", d.Name(), err)
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	p, err := QueryPort(c, port)
	if err != nil || !p.isEthernet() {
		return a, err
	}
	own, _ := NetDev(local) // none is no other device's either
	return p.beside(own, local)
}

func (p Port) beside(own net.Interface, local netip.Addr) (netip.Addr, error) {
	if p.Attr.NetDev == own.Name || slices.ContainsFunc(p.GIDs, func(g verbs.GIDEntry) bool { return g.GID.Addr() == local }) {
		return local, nil
	}
	for _, g := range p.GIDs {
		if a := g.GID.Addr(); a.Is4() == local.Is4() && !a.IsLinkLocalUnicast() && !a.IsLoopback() {
			return a, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("%s has no %s address to speak from beside %s: %w", p.Device, familyOf(local), local, verbs.ErrInvalid)
}
