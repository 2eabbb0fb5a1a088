package route

import (
	"cmp"
	"fmt"

	"ringcli/verbs"
)

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
