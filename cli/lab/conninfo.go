package lab

import (
	"fmt"

	"ringcli/verbs"
	"ringcli/verbs/route"
)

// ConnInfo is what an end tells the other of itself: all that INIT to RTR and a
// WRITE or a READ need to know of a peer.
type ConnInfo struct {
	GID     verbs.GID `json:"gid"`      // RoCE: where the peer is
	LID     uint16    `json:"lid"`      // InfiniBand: the same; 0 on Ethernet
	QPN     uint32    `json:"qpn"`      // its queue pair
	PSN     uint32    `json:"psn"`      // of the first packet that it sends
	PortNum int       `json:"port_num"` // its device's port
	SL      uint8     `json:"sl"`
	MTU     int       `json:"mtu"`   // bytes that it proposes
	RAddr   uint64    `json:"raddr"` // its memory region
	RKey    uint32    `json:"rkey"`
	// What follows is not in the document's struct: what the two ends compare, and
	// what a device with a UDP socket needs of another.
	Length    uint64          `json:"length"` // of the memory region
	Bytes     int             `json:"bytes"`  // of each message
	LinkLayer verbs.LinkLayer `json:"link_layer"`
	UDPPort   uint16          `json:"udp_port"`
	UDPSocket bool            `json:"soft"`
	Device    string          `json:"device"`
}

func (p *pair) fillInfo() error {
	e := p.process
	mtu, err := e.MTU()
	if err != nil {
		return err
	}
	entry, err := e.GIDEntry() // a socket is bound by now
	if err != nil {
		return err
	}
	p.own = ConnInfo{
		GID: entry.GID, LID: e.Port.Attr.LID, QPN: p.QP.Num(), PSN: p.PSN, PortNum: e.Port.Num, SL: e.o.SL, MTU: mtu.Bytes(),
		RAddr: p.MR.Addr(), RKey: p.MR.RKey(), Length: p.MR.Length(), Bytes: e.o.Bytes,
		LinkLayer: e.Port.Attr.LinkLayer, UDPPort: entry.UDPPort, UDPSocket: e.Attr.UDPSocket, Device: e.Name(),
	}
	return nil
}

func (c ConnInfo) values(v *Values) {
	v.add("gid", c.GID, "lid", c.LID, "qpn", verbs.Hex(c.QPN), "psn", verbs.Hex(c.PSN), "port_num", c.PortNum)
	v.add("sl", c.SL, "mtu", c.MTU, "raddr", hex(c.RAddr), "rkey", hex(c.RKey))
}

// agree compares what both ends must have alike.
func (c ConnInfo) agree(peer ConnInfo) error {
	switch {
	case c.Bytes != peer.Bytes:
		return fmt.Errorf("messages are of %d bytes here and of %d at the other end: expected the same --size on both", c.Bytes, peer.Bytes)
	case c.LinkLayer != peer.LinkLayer:
		return fmt.Errorf("%s is on %s, and the other end's %s on %s: no packet goes between them", c.Device, c.LinkLayer, peer.Device, peer.LinkLayer)
	case peer.Length < uint64(parts*peer.Bytes):
		return fmt.Errorf("the other end's region has %d bytes: expected %d", peer.Length, parts*peer.Bytes)
	}
	// Only a device with a UDP socket can be told another port than RoCE's.
	for _, ends := range [][2]ConnInfo{{c, peer}, {peer, c}} {
		if to, from := ends[0], ends[1]; to.UDPSocket && to.UDPPort != route.RoCEPort && !from.UDPSocket {
			return fmt.Errorf("%s receives on UDP port %d of %s, and %s sends to %d only: end what holds that port there (ss -lunp)",
				to.Device, to.UDPPort, to.GID.Addr(), from.Device, route.RoCEPort)
		}
	}
	return nil
}
