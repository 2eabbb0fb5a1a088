package route

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"ringcli/verbs"
)

// Auto is the name for "choose a device".
const Auto = "auto"

// Device resolves the name of a device. "provider:device" is taken at its word.
// A provider alone takes its device that has the local address, else its first. A name
// without a provider is that of the one device that has it, as the stock tools take it.
// "auto" or "" takes the RDMA device whose port 1 is active and has local, as a
// RoCE v2 GID or, on InfiniBand, by its IPoIB interface; else the device in software
// of the interface that has it. Host-local devices, which have no address, are not
// looked at: whether the peer is on this host is for the caller to say. why is a sentence for
// people. The error wraps verbs.ErrNoDevice, or verbs.ErrInvalid if local is not an
// address of this machine.
func Device(name string, local netip.Addr) (d verbs.Device, why string, err error) {
	if strings.Contains(name, ":") {
		d, err := verbs.Find(name)
		if errors.Is(err, verbs.ErrNoDevice) {
			err = cmp.Or(downInterface(verbs.Providers(), name), err)
		}
		return d, name + " was asked for", err
	}
	return resolve(verbs.Providers(), name, local, NetDev)
}

// Source returns the address from which the kernel would speak to another. No
// packet is sent.
func Source(to netip.AddrPort) (netip.Addr, error) {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		return netip.Addr{}, err
	}
	defer func() { _ = c.Close() }()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(), nil
}

// NetDev returns the network interface that has an address; the loopback interface
// has all of 127.0.0.0/8. The error wraps verbs.ErrInvalid.
func NetDev(a netip.Addr) (net.Interface, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return net.Interface{}, fmt.Errorf("list network interfaces: %w", err)
	}
	for _, i := range interfaces {
		if a.Is4() && a.IsLoopback() && i.Flags&net.FlagLoopback != 0 {
			return i, nil
		}
		for _, p := range prefixes(i) {
			if p.Addr() == a.WithZone("").Unmap() {
				return i, nil
			}
		}
	}
	return net.Interface{}, fmt.Errorf("%s is not an address of this machine: %w", a, verbs.ErrInvalid)
}

// Network returns the interface that has an address of this machine, and the address with the
// length of its prefix; both are empty if there is none.
func Network(a netip.Addr) (netdev string, network netip.Prefix) {
	i, _ := NetDev(a)
	for _, p := range prefixes(i) {
		if p.Addr() == a.WithZone("").Unmap() || a.IsLoopback() && p.Contains(a) {
			return i.Name, p
		}
	}
	return i.Name, netip.Prefix{}
}

// prefixes returns an interface's addresses with the lengths of their networks;
// none if it has just gone.
func prefixes(i net.Interface) []netip.Prefix {
	list, err := i.Addrs()
	if err != nil {
		return nil
	}
	var found []netip.Prefix
	for _, a := range list {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			found = append(found, p)
		}
	}
	return found
}

func resolve(providers []verbs.Provider, name string, local netip.Addr, interfaceOf func(netip.Addr) (net.Interface, error)) (verbs.Device, string, error) {
	own, addrErr := interfaceOf(local) // an error matters only where a choice needs it
	var known, not []string
	for _, p := range providers {
		known = append(known, p.Name())
		can := p.Capabilities()
		if p.Name() != name && (!isAuto(name) || can.Software || can.HostLocal) {
			continue
		}
		devices, err := p.Devices()
		if err != nil && !isAuto(name) {
			return nil, "", fmt.Errorf("device %q: %w: %w", name, verbs.ErrNoDevice, err)
		}
		if err != nil {
			not = append(not, p.Name()+": "+err.Error())
			continue
		}
		if can.HostLocal && len(devices) > 0 {
			return devices[0], name + " was asked for", nil
		}
		for _, d := range devices {
			fits, text := suits(d, local, own)
			if fits {
				return d, text, nil
			}
			not = append(not, text)
		}
		if can.Software {
			// Another than that of the interface would be none to speak from.
			if now, err := interfaceOf(local); err == nil {
				which := local.String() + " is an address of " + now.Name + ", which"
				if err := cmp.Or(down(own, which), down(now, which)); err != nil {
					return nil, "", err
				}
			}
		}
		if !isAuto(name) && len(devices) > 0 {
			return devices[0], fmt.Sprintf("%s is the first of provider %s, none of whose devices has %s", devices[0].Name(), name, local), nil
		}
	}
	if isAuto(name) {
		if addrErr != nil {
			return nil, "", addrErr
		}
		if err := down(own, local.String()+" is an address of "+own.Name+", which"); err != nil {
			return nil, "", err
		}
		return softwareDevice(providers, local, own.Name, not)
	}
	if named := named(providers, name); len(named) == 1 {
		return named[0], named[0].Name() + " was asked for", nil
	} else if len(named) > 1 {
		return nil, "", fmt.Errorf("device %q: %w of one provider alone: expected %s or %s", name, verbs.ErrNoDevice, named[0].Name(), named[1].Name())
	}
	return nil, "", fmt.Errorf("device %q: %w: expected provider:device, %s, or a provider that has devices (of %s; ringcli devices lists them)",
		name, verbs.ErrNoDevice, Auto, strings.Join(known, ", "))
}

// down is an error if an interface, if there is one, carries nothing.
func down(i net.Interface, which string) error {
	switch {
	case i.Name == "" || i.Flags&(net.FlagUp|net.FlagRunning) == net.FlagUp|net.FlagRunning:
		return nil
	case i.Flags&net.FlagUp == 0:
		return verbs.OfKind(verbs.ErrPortDown, fmt.Errorf("%s is down: ip link set %s up", which, i.Name))
	}
	return verbs.OfKind(verbs.ErrPortDown, fmt.Errorf("%s is up and has no carrier: look at the cable and the switch's port (ip link show %s)", which, i.Name))
}

// downInterface is an error if a name is that of a device in software whose interface is
// down: such a one has no device.
func downInterface(providers []verbs.Provider, name string) error {
	provider, netdev, _ := strings.Cut(name, ":")
	i, err := net.InterfaceByName(netdev)
	if err != nil || !slices.ContainsFunc(providers, func(p verbs.Provider) bool { return p.Name() == provider && p.Capabilities().Software }) {
		return nil
	}
	return down(*i, fmt.Sprintf("device %q: interface %s", name, netdev))
}

// named are the devices of a name, whoever provides them.
func named(providers []verbs.Provider, name string) (list []verbs.Device) {
	for _, p := range providers {
		devices, _ := p.Devices() // one that has none has none of the name
		for _, d := range devices {
			if _, own, _ := strings.Cut(d.Name(), ":"); own == name {
				list = append(list, d)
			}
		}
	}
	return list
}

func isAuto(name string) bool { return name == "" || name == Auto }

// softwareDevice returns the device in software of an interface. not says why there
// was no better one.
func softwareDevice(providers []verbs.Provider, local netip.Addr, netdev string, not []string) (verbs.Device, string, error) {
	why := fmt.Sprintf("interface %s has %s", netdev, local)
	if len(not) > 0 {
		why += ", and no RDMA device does: " + strings.Join(not, "; ")
	}
	var names []string
	for _, p := range providers {
		if !p.Capabilities().Software {
			continue
		}
		names = append(names, p.Name())
		devices, err := p.Devices()
		if err != nil {
			return nil, "", fmt.Errorf("device %s: %w: %w", Auto, verbs.ErrNoDevice, err)
		}
		for _, d := range devices {
			if isOn(d, netdev) {
				return d, d.Name() + ": " + why, nil
			}
		}
	}
	return nil, "", fmt.Errorf("device %s: %w: %s, which has no %s device either: is it up? (ip link show %s)",
		Auto, verbs.ErrNoDevice, why, strings.Join(names, " or "), netdev)
}

// isOn tells whether a device's packets go through a network interface.
func isOn(d verbs.Device, netdev string) bool {
	c, err := d.Open(verbs.OpenOptions{})
	if err != nil {
		return false
	}
	defer func() { _ = c.Close() }() // nothing was made in it
	a, err := c.QueryPort(1)
	return err == nil && a.NetDev == netdev
}

// suits tells whether a device's port 1 leads from an address, which the interface
// own has, and why, or why not.
func suits(d verbs.Device, local netip.Addr, own net.Interface) (bool, string) {
	c, err := d.Open(verbs.OpenOptions{})
	if err != nil {
		return false, fmt.Sprintf("%s: %v", d.Name(), err)
	}
	defer func() { _ = c.Close() }()
	ports := 1
	if a, err := c.QueryDevice(); err == nil {
		ports = max(1, a.PhysPorts)
	}
	why := ""
	for n := 1; n <= ports; n++ {
		p, err := QueryPort(c, n)
		if err != nil {
			if n == 1 {
				why = err.Error()
			}
			continue
		}
		by := p.leadsFrom(local, own)
		switch {
		case by != "" && n == 1:
			return true, fmt.Sprintf("%s: its port 1 is active and has %s as %s", d.Name(), local, by)
		case by != "":
			return false, fmt.Sprintf("%s has it on port %d: --device %s --port %d takes it", d.Name(), n, d.Name(), n)
		case n == 1:
			why = fmt.Sprintf("%s has other addresses", d.Name())
		}
	}
	return false, why
}

// leadsFrom says by what the port has an address, "" if it has not.
func (p Port) leadsFrom(local netip.Addr, own net.Interface) string {
	if p.Attr.LinkLayer == verbs.LinkInfiniBand {
		// The hardware address of IPoIB is flags and QPN, then the port's GID
		// (RFC 4391, 9.1.1).
		hw := own.HardwareAddr
		for _, g := range p.GIDs {
			if len(hw) == 20 && verbs.GID(hw[4:]) == g.GID {
				return "IPoIB interface " + own.Name
			}
		}
		return ""
	}
	for _, g := range p.GIDs {
		if g.Type == verbs.GIDTypeRoCEv2 && local.IsValid() && g.GID == verbs.GIDFromAddr(local) {
			return fmt.Sprintf("RoCE v2 GID %d", g.Index)
		}
	}
	if local.IsLoopback() && own.Name != "" && own.Name == p.Attr.NetDev {
		return "interface " + own.Name // a device in software takes any address of 127.0.0.0/8
	}
	return ""
}
