package ring

import (
	"fmt"

	"ringcli/ring/bootstrap"
	"ringcli/verbs"
	"ringcli/verbs/route"
)

// noLID tells whether an end on InfiniBand has not been given an address.
func noLID(o offer) bool { return o.LinkLayer == verbs.LinkInfiniBand.String() && o.LID == 0 }

// beyondReach tells whether one end cannot send to the other: a soft device that
// receives elsewhere than on RoCE's UDP port is known to soft devices alone.
func beyondReach(from, to offer) bool {
	return from.Provider != softProvider && to.Provider == softProvider && to.UDPPort != 0 && to.UDPPort != route.RoCEPort
}

func unreachable(who func(offer) string, own, peer offer) error {
	from, to := own, peer
	if beyondReach(peer, own) {
		from, to = peer, own
	}
	return bootstrap.Usagef("the UDP port differs: %s is on %s, which sends to %d only, and %s is on %s, which receives on %d: run one soft rank per address, "+
		"and give rank %d an address where no other ringcli and no rdma_rxe has UDP port %d",
		who(from), from.Device, route.RoCEPort, who(to), to.Device, to.UDPPort, to.Rank, route.RoCEPort)
}

// agree compares both ends of an edge and returns the path MTU in bytes that both
// will use. Both ends run it on the same pair and so come to the same end. What
// is given instead of what was agreed on is not compared: who gives it means it.
func agree(nodes []bootstrap.Node, own, peer offer, given Values) (mtu int, err error) {
	who := func(o offer) string {
		if o.Rank >= 0 && o.Rank < len(nodes) {
			return fmt.Sprintf("rank %d (%s)", o.Rank, nodes[o.Rank])
		}
		return fmt.Sprintf("rank %d", o.Rank)
	}
	differ := func(what string, a, b any, fix string) error {
		return bootstrap.Usagef("%s differs: %s has %v and %s has %v: %s", what, who(own), a, who(peer), b, fix)
	}
	family := func(o offer) string {
		if o.GID.Addr().Is4() {
			return "IPv4"
		}
		return "IPv6"
	}
	ownAddr, peerAddr := own.GID.Addr(), peer.GID.Addr()
	addressGiven := given.DGID != nil || given.SGIDIndex != nil
	switch {
	case isSHM(own.Device) != isSHM(peer.Device) && !addressGiven:
		return 0, differ("the device", own.Device, peer.Device, "shared memory is reached from shared memory alone; run exchange on both ranks again")
	case own.Size != peer.Size:
		return 0, differ("the size of the ring", own.Size, peer.Size, "give all nodes the same --list")
	case own.Digest != peer.Digest:
		return 0, differ("the digest of the list", own.Digest, peer.Digest, "give all nodes the same --list")
	case own.GIDType != peer.GIDType && !addressGiven:
		return 0, differ("the GID type", own.GIDType, peer.GIDType, "choose entries of one type with --gid-index")
	case family(own) != family(peer) && !addressGiven:
		return 0, differ("the address family", family(own)+" "+ownAddr.String(), family(peer)+" "+peerAddr.String(),
			"choose entries of one family with --gid-index, or list addresses of one family")
	case ownAddr.IsLoopback() != peerAddr.IsLoopback() && !addressGiven:
		return 0, differ("the reach of the address", ownAddr, peerAddr, "a loopback address cannot be reached from elsewhere; list addresses instead of names")
	case own.LinkLayer != peer.LinkLayer:
		return 0, differ("the link layer", own.LinkLayer, peer.LinkLayer, "choose devices on one fabric with --device")
	case noLID(own) || noLID(peer):
		return 0, fmt.Errorf("no LID: %s has %d and %s has %d on InfiniBand: no subnet manager has set the port up: start one (opensm), or ask sminfo which there is",
			who(own), own.LID, who(peer), peer.LID)
	case beyondReach(own, peer) || beyondReach(peer, own):
		return 0, unreachable(who, own, peer)
	case own.PKey != peer.PKey:
		return 0, differ("the P_Key", fmt.Sprintf("%#04x", own.PKey), fmt.Sprintf("%#04x", peer.PKey), "packets would be dropped silently; use one partition")
	case own.SL != peer.SL && given.SL == nil:
		return 0, differ("the service level", own.SL, peer.SL, "give all nodes the same --sl")
	case own.SlotCount != peer.SlotCount:
		return 0, differ("the number of slots", own.SlotCount, peer.SlotCount, "give all nodes the same --slots")
	case own.SlotSize != peer.SlotSize:
		return 0, differ("the slot size", own.SlotSize-SlotHeader, peer.SlotSize-SlotHeader, "give all nodes the same --slot-size")
	case peer.SlotCount < 1 || peer.Slots.Length != uint64(peer.SlotCount)*uint64(peer.SlotSize):
		return 0, fmt.Errorf("%s offers %d bytes for %d slots of %d bytes: expected %d", who(peer), peer.Slots.Length, peer.SlotCount, peer.SlotSize,
			peer.SlotCount*peer.SlotSize)
	}
	if given.MTU != nil {
		return *given.MTU, nil
	}
	mtuOf := func(o offer) string {
		if o.MTUFixed {
			return fmt.Sprintf("%d (--mtu)", o.MTU)
		}
		return fmt.Sprintf("%d (active MTU)", o.MTU)
	}
	fixed, smaller := own.MTUFixed || peer.MTUFixed, min(own.MTU, peer.MTU)
	if fixed && (own.MTUFixed && smaller != own.MTU || peer.MTUFixed && smaller != peer.MTU) {
		return 0, differ("the path MTU", mtuOf(own), mtuOf(peer), "give all nodes the same --mtu, or none")
	}
	return smaller, nil
}
