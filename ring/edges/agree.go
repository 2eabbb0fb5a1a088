package edges

import (
	"errors"
	"fmt"

	"ringcli/configs/codes"
	"ringcli/configs/usage"
	"ringcli/ring/bootstrap/hosts"
	"ringcli/ring/diagnose"
)

// end is the end that says d, as far as Reach looks at it, once its queue pair has been
// told of what the other end says.
func (d Data) end(nodes []hosts.Node, other Data) *diagnose.End {
	e := &diagnose.End{
		Rank: d.Rank, Device: d.Device, Capabilities: d.Capabilities, LinkLayer: diagnose.Is(d.LinkLayer), GID: d.GID, GIDType: diagnose.Is(d.GIDType), LID: d.LID,
		UDPPort: d.UDPPort, DestUDPPort: other.UDPPort, PKey: d.PKey, SL: d.SL, RQPSNFirst: &other.PSN,
	}
	if d.Rank >= 0 && d.Rank < len(nodes) {
		e.Node = nodes[d.Rank].String()
	}
	return e
}

// Agree compares both ends of an edge and returns the path MTU in bytes that both
// will use. Both ends run it on the same pair and so come to the same end. What
// is given instead of what was agreed on is not compared: it is meant.
func Agree(nodes []hosts.Node, own, peer Data, given Values) (mtu int, err error) {
	here, there := own.end(nodes, peer), peer.end(nodes, own)
	differ := func(code codes.Code, what string, a, b any, fix string) error {
		return usage.Codedf(code, "%s differs: %s has %v and %s has %v: %s", what, here.Who(), a, there.Who(), b, fix)
	}
	switch {
	case own.Size != peer.Size:
		return 0, differ(codes.List, "the size of the ring", own.Size, peer.Size, "give all nodes the same --list")
	case own.Digest != peer.Digest:
		return 0, differ(codes.List, "the digest of the list", own.Digest, peer.Digest, "give all nodes the same --list")
	case max(1, own.Channels) != max(1, peer.Channels):
		return 0, differ(codes.Mismatch, "the number of channels", max(1, own.Channels), max(1, peer.Channels), "give all nodes the same --channels")
	}
	for _, f := range diagnose.Reach(here, there) {
		code := codes.AddressMismatch
		switch addressGiven := given.DGID != nil || given.SGIDIndex != nil; f.Attribute {
		case diagnose.AttrDevice, diagnose.AttrGIDType, diagnose.AttrGID:
			if addressGiven {
				continue
			}
			if f.Attribute == diagnose.AttrDevice {
				code = codes.DeviceMismatch
			}
		case diagnose.AttrSL:
			if given.SL != nil {
				continue
			}
		case diagnose.AttrLID:
			return 0, codes.With(code, errors.New(f.String())) // no option of this program mends it
		}
		return 0, usage.Codedf(code, "%s", f)
	}
	switch {
	case own.SlotCount != peer.SlotCount:
		return 0, differ(codes.Mismatch, "the number of slots", own.SlotCount, peer.SlotCount, "give all nodes the same --slots")
	case own.SlotSize != peer.SlotSize:
		return 0, differ(codes.Mismatch, "the slot size", own.SlotSize-SlotHeader, peer.SlotSize-SlotHeader, "give all nodes the same --slot-size")
	case peer.SlotCount < 1 || peer.Slots.Length != uint64(peer.SlotCount)*uint64(peer.SlotSize):
		return 0, fmt.Errorf("%s offers %d bytes for %d slots of %d bytes: expected %d", there.Who(), peer.Slots.Length, peer.SlotCount, peer.SlotSize,
			peer.SlotCount*peer.SlotSize)
	}
	if given.MTU != nil {
		return *given.MTU, nil
	}
	mtuOf := func(d Data) string {
		if d.MTUFixed {
			return fmt.Sprintf("%d (--mtu)", d.MTU)
		}
		return fmt.Sprintf("%d (active MTU)", d.MTU)
	}
	fixed, smaller := own.MTUFixed || peer.MTUFixed, min(own.MTU, peer.MTU)
	if fixed && (own.MTUFixed && smaller != own.MTU || peer.MTUFixed && smaller != peer.MTU) {
		return 0, differ(codes.MTU, "the path MTU", mtuOf(own), mtuOf(peer), "give all nodes the same --mtu, or none")
	}
	return smaller, nil
}
