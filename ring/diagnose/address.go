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

// sendsTo is the UDP port that an end sends to; 0 if that is not known yet.
func (e *End) sendsTo() uint16 {
	switch {
	case !e.Addressed():
		return 0
	case e.Capabilities.UDPSocket && e.DestUDPPort != 0:
		return e.DestUDPPort
	default:
		return route.RoCEPort
	}
}

// Reach says what keeps the packets of two ends from each other. It is what Exchange
// agrees on before RTR, and what a comparison looks at afterwards.
func Reach(own, peer *End) []Finding {
	both := directions(own, peer)
	var found []Finding
	add := func(severity Severity, attribute string, a, b any, text, fix string) {
		found = append(found, both[0].finding(severity, attribute, own.Rank, a, b, text, fix))
	}
	if own.Capabilities.HostLocal != peer.Capabilities.HostLocal {
		add(Fault, AttrDevice, own.Device, peer.Device,
			fmt.Sprintf("the ends are on devices that do not reach each other: %s is on %s and %s on %s, as its ring chose before both had said where they are, or was told to",
				own.Who(), own.Device, peer.Who(), peer.Device), "run exchange on both ranks; give both the same --device, or auto")
		return found
	}
	differ := func(attribute string, severity Severity, what string, a, b any, consequence, fix string) {
		if a != b {
			add(severity, attribute, a, b, fmt.Sprintf("%s: %s has %v and %s has %v: %s", what, own.Who(), a, peer.Who(), b, consequence), fix)
		}
	}
	differ(AttrGIDType, Fault, "the GID types differ", own.GIDType.value, peer.GIDType.value, "packets of one are not understood by the other: RETRY_EXC (12)",
		"choose entries of one type with --gid-index")
	switch a, b := own.GID.Addr(), peer.GID.Addr(); {
	case a.Is4() != b.Is4():
		differ(AttrGID, Fault, "the address families of the GIDs differ", family(own.GID), family(peer.GID), "there is no path between them",
			"choose entries of one family with --gid-index, or list addresses of one family")
	case a.IsLoopback() != b.IsLoopback():
		differ(AttrGID, Fault, "the reach of the addresses differs", a, b, "a loopback address cannot be reached from elsewhere", "list addresses instead of names")
	}
	differ(AttrLinkLayer, Fault, "the link layers differ", own.LinkLayer.value, peer.LinkLayer.value, "there is no path between them",
		"choose devices on one fabric with --device")
	if own.noLID() || peer.noLID() {
		add(Fault, AttrLID, own.LID, peer.LID,
			fmt.Sprintf("a LID is missing: %s has %d and %s has %d on InfiniBand: no subnet manager has set the port up", own.Who(), own.LID, peer.Who(), peer.LID),
			"start one (opensm), or ask sminfo which there is")
	}
	for _, f := range both {
		if from, to := f.from.sendsTo(), f.to.UDPPort; from != 0 && to != 0 && from != to {
			found = append(found, f.udpPort())
		}
	}
	const full = 0x8000 // membership
	text := func(k uint16) string { return fmt.Sprintf("%#04x", k) }
	switch a, b := own.PKey, peer.PKey; {
	case a == 0 || b == 0: // not known
	case a&^full != b&^full:
		differ(AttrPKey, Fault, "the P_Keys differ", text(a), text(b), "packets are dropped silently: RETRY_EXC (12)", "use one partition")
	case (a|b)&full == 0:
		add(Fault, AttrPKey, text(a), text(b),
			"both ends are limited members of the partition: packets between them are dropped silently: RETRY_EXC (12)", "make one a full member")
	}
	if own.Addressed() && peer.Addressed() {
		differ(AttrSL, Warning, "the service levels differ", own.SL, peer.SL, "the two directions are paused and dropped differently under load", "give all ranks the same --sl")
	}
	return found
}

func family(g verbs.GID) string {
	if g.Addr().Is4() {
		return "IPv4 " + g.Addr().String()
	}
	return "IPv6 " + g.Addr().String()
}

// noLID tells whether an end on InfiniBand has not been given an address.
func (e *End) noLID() bool { return e.LinkLayer.Is(verbs.LinkInfiniBand) && e.LID == 0 }

// udpPort is for one end that sends to another UDP port than the other receives on: a
// device without a socket of this program's own knows RoCE's alone.
func (f direction) udpPort() Finding {
	from, to := f.from, f.to
	text := fmt.Sprintf("%s sends to UDP port %d, and %s receives on %d: RETRY_EXC (12)", from.Who(), from.sendsTo(), to.Who(), to.UDPPort)
	fix := again
	if !from.Capabilities.UDPSocket {
		text = fmt.Sprintf("the UDP ports differ: %s is on %s, which sends to %d only, and %s is on %s, which receives on %d: RETRY_EXC (12)",
			from.Who(), from.Device, from.sendsTo(), to.Who(), to.Device, to.UDPPort)
		fix = fmt.Sprintf("run one soft rank per address, and give rank %d an address where no other ringcli and no rdma_rxe has UDP port %d", to.Rank, route.RoCEPort)
	}
	return f.finding(Fault, "dest_udp_port", from.Rank, from.sendsTo(), to.UDPPort, text, fix)
}
