package route

import (
	"cmp"
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
		return p, verbs.OfKind(verbs.ErrPortDown, p.inactive())
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
	return verbs.GIDEntry{}, verbs.OfKind(verbs.ErrNoGID, fmt.Errorf("gid-index %d of port %d of %s: the entry is empty: %w: expected one that is in use: %s (ringcli devices lists them)",
		index, p.Num, p.Device, verbs.ErrInvalid, strings.Join(used, ", ")))
}

// empty is the error of a port without any GID.
func (p Port) empty() error {
	cure := ""
	if p.Attr.NetDev != "" {
		cure = fmt.Sprintf(": bring its interface up and give it an address (ip link set %s up; ip address add ADDRESS dev %s)", p.Attr.NetDev, p.Attr.NetDev)
	}
	return verbs.OfKind(verbs.ErrNoGID, fmt.Errorf("port %d of %s has no GID%s", p.Num, p.Device, cure))
}

// RoCEPort is the UDP port of RoCE v2 (IANA, roce), the only one that devices
// without a UDP socket of their own know.
const RoCEPort = 4791

// hopLimit passes as many routers as IP's usual time to live.
const hopLimit = 64

// Remote is what a peer says of itself.
type Remote struct {
	GID       verbs.GID
	LID       uint16          // InfiniBand
	LinkLayer verbs.LinkLayer // 0: it does not say, and it is the own one
	UDPPort   uint16          // of a peer with a UDP socket; 0 means 4791
	UDPSocket bool            // the capability of its device
}

// Service is how packets are to be treated on their way.
type Service struct {
	SL           uint8 // 0 to 15
	TrafficClass uint8 // DSCP and ECN; only where there is a GRH
}

// AddressVector returns what a queue pair is told of the way to its peer. On
// InfiniBand that is a LID, with a GRH if the peer is in another subnet; on
// Ethernet it is a GRH. The LID is the peer's own, which reaches another subnet only
// through routers that take it there: nobody asks the subnet manager for a path, as
// ibv_rc_pingpong doesn't either. Errors wrap verbs.ErrInvalid.
func (p Port) AddressVector(sgidIndex int, to Remote, s Service) (verbs.AHAttr, error) {
	if to.LinkLayer != 0 && to.LinkLayer != p.Attr.LinkLayer {
		return verbs.AHAttr{}, fmt.Errorf("port %d of %s is %s and the peer's is %s: %w: there is no path between them",
			p.Num, p.Device, p.Attr.LinkLayer, to.LinkLayer, verbs.ErrInvalid)
	}
	a := verbs.AHAttr{PortNum: p.Num, SL: s.SL}
	grh := verbs.GlobalRoute{
		DGID: to.GID, SGIDIndex: sgidIndex, TrafficClass: s.TrafficClass, HopLimit: hopLimit,
	}
	if p.HostLocal || p.isEthernet() {
		if to.GID.IsZero() {
			cure := "RoCE needs one (with ibv_rc_pingpong and perftest: -g INDEX, -x INDEX)"
			if p.HostLocal {
				cure = "expected the one of its " + p.Device
			}
			return a, fmt.Errorf("the peer has no GID: %w: %s", verbs.ErrInvalid, cure)
		}
		a.IsGlobal, a.GRH = true, grh
		if p.HostLocal {
			return a, nil
		}
		a.UDP.Port = RoCEPort
		if to.UDPSocket {
			a.UDP.Port, a.UDP.LowIPIDs = cmp.Or(to.UDPPort, RoCEPort), true
		}
		return a, nil
	}
	for _, end := range []struct {
		lid uint16
		who string
	}{{p.Attr.LID, fmt.Sprintf("port %d of %s", p.Num, p.Device)}, {to.LID, "the peer's port"}} {
		if end.lid == 0 {
			return a, fmt.Errorf("%s has no LID: %w: no subnet manager has given it one (start opensm, or ask sminfo which there is)", end.who, verbs.ErrInvalid)
		}
	}
	a.DLID = to.LID
	if to.GID.IsZero() {
		return a, nil
	}
	own, err := p.gid(sgidIndex)
	if err != nil {
		return a, err
	}
	if [8]byte(own.GID[:8]) != [8]byte(to.GID[:8]) { // the subnet prefix
		a.IsGlobal, a.GRH = true, grh
	}
	return a, nil
}
