package edges

import (
	"ringcli/ring/device"
	"ringcli/verbs"
	"ringcli/verbs/route"
)

// defaultPKey is the P_Key of the default partition, full membership. A soft
// device has no other, and Init asks for index 0.
const defaultPKey = 0xffff

// AllAccess is what both ends of an edge may do to each other's memory.
const AllAccess = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic

// Describe fills in how a queue pair on a device is reached, whose GID is as it is now.
func (q *QPInfo) Describe(d *device.Device, gid verbs.GIDEntry, mtu, sl int) {
	port := d.Port.Attr
	q.Device, q.Capabilities, q.LinkLayer = d.Name, d.Attr.Capabilities, port.LinkLayer
	q.GID, q.GIDType, q.LID = gid.GID, gid.Type, port.LID
	q.Port, q.UDPPort, q.MTU, q.SL, q.PKey = d.Port.Num, gid.UDPPort, mtu, uint8(sl), defaultPKey
}

// Vector is the address vector from a device to the queue pair that is described.
// From a channel beside the first the flow label is its number, from which devices make the UDP
// source port, which switches choose a path by; without one they make it as they like.
func (q *QPInfo) Vector(from *device.Device, s route.Service, channel int) (verbs.AHAttr, error) {
	to := route.Remote{GID: q.GID, LID: q.LID, UDPPort: q.UDPPort, UDPSocket: q.Capabilities.UDPSocket}
	av, err := from.Port.AddressVector(from.GID.Entry.Index, to, s)
	if av.IsGlobal {
		av.GRH.FlowLabel = uint32(channel)
	}
	return av, err
}
