package diagnose

import (
	"fmt"

	"ringcli/verbs"
	"ringcli/verbs/route"
)

// The attributes that Reach compares, as findings name them.
const (
	AttrDevice    = "device"
	AttrGIDType   = "gid_type"
	AttrGID       = "gid"
	AttrLinkLayer = "link_layer"
	AttrLID       = "lid"
	AttrPKey      = "pkey"
	AttrSL        = "sl"
)

// Address is where one end of an edge is, as Exchange and an End say it: all that
// tells whether a packet finds the way from one end to the other.
type Address struct {
	Rank         int
	Node         string
	Device       string
	Capabilities verbs.Capabilities // of the device
	LinkLayer    verbs.LinkLayer
	GID          verbs.GID
	GIDType      verbs.GIDType
	LID          uint16
	UDPPort      uint16 // that it receives on; 0 without UDP
	SendsTo      uint16 // the UDP port that it sends to; 0 if that is not known yet
	PKey         uint16
	SL           *uint8 // nil if it is not known yet
}

// Who names the end.
func (a *Address) Who() string { return fmt.Sprintf("rank %d (%s)", a.Rank, a.Node) }

// address is that of an end. Its service level is known once it has been told of its
// peer.
func (e *End) address() *Address {
	a := &Address{
		Rank: e.Rank, Node: e.Node, Device: e.Device, Capabilities: e.Capabilities, LinkLayer: e.LinkLayer.value, GID: e.GID, GIDType: e.GIDType.value,
		LID: e.LID, UDPPort: e.UDPPort, PKey: e.PKey,
	}
	if e.Addressed() {
		a.SL, a.SendsTo = &e.SL, route.RoCEPort
		if e.Capabilities.UDPSocket && e.DestUDPPort != 0 {
			a.SendsTo = e.DestUDPPort
		}
	}
	return a
}

// Reach says what keeps the packets of two ends from each other. It is what Exchange
// agrees on before RTR, and what a comparison looks at afterwards.
func Reach(own, peer *Address) []Finding {
	if own.Capabilities.HostLocal != peer.Capabilities.HostLocal {
		return []Finding{finding(Fault, AttrDevice, own.Rank, own.Device, peer.Device,
			fmt.Sprintf("the ends are on devices that do not reach each other: %s is on %s and %s on %s, as its ring chose before both had said where they are, or was told to",
				own.Who(), own.Device, peer.Who(), peer.Device), "run exchange on both ranks; give both the same --device, or auto")}
	}
	var found []Finding
	differ := func(attribute string, severity Severity, what string, a, b any, consequence, fix string) {
		if a != b {
			found = append(found, finding(severity, attribute, own.Rank, fmt.Sprint(a), fmt.Sprint(b),
				fmt.Sprintf("%s: %s has %v and %s has %v: %s", what, own.Who(), a, peer.Who(), b, consequence), fix))
		}
	}
	differ(AttrGIDType, Fault, "the GID types differ", own.GIDType, peer.GIDType, "packets of one are not understood by the other: RETRY_EXC (12)",
		"choose entries of one type with --gid-index")
	switch a, b := own.GID.Addr(), peer.GID.Addr(); {
	case a.Is4() != b.Is4():
		differ(AttrGID, Fault, "the address families of the GIDs differ", family(own.GID), family(peer.GID), "there is no path between them",
			"choose entries of one family with --gid-index, or list addresses of one family")
	case a.IsLoopback() != b.IsLoopback():
		differ(AttrGID, Fault, "the reach of the addresses differs", a, b, "a loopback address cannot be reached from elsewhere", "list addresses instead of names")
	}
	differ(AttrLinkLayer, Fault, "the link layers differ", own.LinkLayer, peer.LinkLayer, "there is no path between them", "choose devices on one fabric with --device")
	if noLID(own) || noLID(peer) {
		found = append(found, finding(Fault, AttrLID, own.Rank, fmt.Sprint(own.LID), fmt.Sprint(peer.LID),
			fmt.Sprintf("a LID is missing: %s has %d and %s has %d on InfiniBand: no subnet manager has set the port up", own.Who(), own.LID, peer.Who(), peer.LID),
			"start one (opensm), or ask sminfo which there is"))
	}
	for _, d := range []struct {
		from, to *Address
		outward  bool
	}{{own, peer, true}, {peer, own, false}} {
		if f := udpPort(d.from, d.to, d.outward); f != nil {
			found = append(found, *f)
		}
	}
	const full = 0x8000 // membership
	text := func(k uint16) string { return fmt.Sprintf("%#04x", k) }
	switch a, b := own.PKey, peer.PKey; {
	case a == 0 || b == 0: // not known
	case a&^full != b&^full:
		differ(AttrPKey, Fault, "the P_Keys differ", text(a), text(b), "packets are dropped silently: RETRY_EXC (12)", "use one partition")
	case (a|b)&full == 0:
		found = append(found, finding(Fault, AttrPKey, own.Rank, text(a), text(b),
			"both ends are limited members of the partition: packets between them are dropped silently: RETRY_EXC (12)", "make one a full member"))
	}
	if own.SL != nil && peer.SL != nil {
		differ(AttrSL, Warning, "the service levels differ", *own.SL, *peer.SL, "the two directions are paused and dropped differently under load", "give all ranks the same --sl")
	}
	return found
}

// family names that of a GID's address.
func family(g verbs.GID) string {
	if g.Addr().Is4() {
		return "IPv4 " + g.Addr().String()
	}
	return "IPv6 " + g.Addr().String()
}

// noLID tells whether an end on InfiniBand has not been given an address.
func noLID(a *Address) bool { return a.LinkLayer == verbs.LinkInfiniBand && a.LID == 0 }

// udpPort compares the UDP port that one end sends to with the one that the other
// receives on: a device without a socket of this program's own knows RoCE's alone.
func udpPort(from, to *Address, outward bool) *Finding {
	if from.SendsTo == 0 || to.UDPPort == 0 || from.SendsTo == to.UDPPort {
		return nil
	}
	f := Finding{Severity: Fault, Attribute: "dest_udp_port", Rank: from.Rank, Own: fmt.Sprint(from.SendsTo), Peer: fmt.Sprint(to.UDPPort)}
	if !outward {
		f.Attribute, f.Own, f.Peer = "udp_port", f.Peer, f.Own
	}
	if from.Capabilities.UDPSocket {
		f.Text = fmt.Sprintf("%s sends to UDP port %d, and %s receives on %d: RETRY_EXC (12)", from.Who(), from.SendsTo, to.Who(), to.UDPPort)
		f.Fix = again
		return &f
	}
	f.Text = fmt.Sprintf("the UDP ports differ: %s is on %s, which sends to %d only, and %s is on %s, which receives on %d: RETRY_EXC (12)",
		from.Who(), from.Device, from.SendsTo, to.Who(), to.Device, to.UDPPort)
	f.Fix = fmt.Sprintf("run one soft rank per address, and give rank %d an address where no other ringcli and no rdma_rxe has UDP port %d", to.Rank, route.RoCEPort)
	return &f
}
