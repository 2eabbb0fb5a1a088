// Package edges says what an edge of a ring is to whoever does not use it: which one it is,
// what its ends tell each other, whether they agree, and what is wrong with it.
package edges

import (
	"fmt"

	"ringcli/ring/diagnose"
	"ringcli/ring/locality"
	"ringcli/verbs"
)

// Side says on which side of a rank an edge is.
type Side int

// The sides of a rank in the ring, from left to right of which data flows, and that of
// edges beside the ring's.
const (
	Left Side = iota
	Right
	Mesh
)

func (s Side) String() string {
	switch s {
	case Left:
		return "left"
	case Right:
		return "right"
	default:
		return "mesh"
	}
}

// Edge returns the ID of the edge to the neighbour at a side.
func (s Side) Edge() ID { return ID(s) }

// ID numbers the edges of a rank: those to its neighbours by their side, then those
// of a mesh in the order in which they were made. Above that, from channelShift on, it has
// the channel, which is 0 of a mesh.
type ID int

// FirstMesh is the ID of the first edge that Mesh made.
const FirstMesh ID = 2

// channelShift is where an ID has the channel: a rank has fewer than 256 edges, and the ID
// of a work request has 16 bits for the ID of its edge.
const channelShift = 8

// Side returns the side that an edge is on.
func (id ID) Side() Side { return Side(min(id.First(), FirstMesh)) }

// First returns the ID of the first channel of the edge.
func (id ID) First() ID { return id & (1<<channelShift - 1) }

// Channel returns the number of the channel, from 0.
func (id ID) Channel() int { return int(id >> channelShift) }

// On returns the ID of a channel of the edge.
func (id ID) On(channel int) ID { return id.First() | ID(channel)<<channelShift }

// IsMesh tells whether the edge is one that Mesh made.
func (id ID) IsMesh() bool { return id.First() >= FirstMesh }

// Over says over which channel, unless that is the first: ", channel 2".
func (id ID) Over() string {
	if id.Channel() == 0 {
		return ""
	}
	return fmt.Sprintf(", channel %d", id.Channel())
}

// Name names the edge, and the channel if that is not its first: "left", "left, channel 2".
func (id ID) Name() string {
	if id.Channel() == 0 {
		return id.Side().String()
	}
	return fmt.Sprintf("%s, channel %d", id.Side(), id.Channel())
}

// Opposite returns the side at which the neighbour sees this edge, of the ring's
// own.
func (s Side) Opposite() Side { return 1 - s }

const (
	// SlotHeader is the room for a header before a slot's payload, in bytes.
	SlotHeader = 64
	// Receives is the number of receive requests kept posted on an edge to a
	// neighbour. Each message and each WRITE_IMM takes one until Repost;
	// collective keeps fewer in flight by its credits.
	Receives = 128
)

// WRKind tells whose completion it is; it stands in the work request's ID.
type WRKind uint8

// WRID packs edge, kind and a 40-bit value into a work request's ID.
func WRID(id ID, k WRKind, value uint64) uint64 {
	return uint64(id)<<48 | uint64(k)<<40 | value&(1<<40-1)
}

// ParseWRID unpacks an ID made by WRID.
func ParseWRID(wr uint64) (id ID, k WRKind, value uint64) {
	return ID(wr >> 48), WRKind(wr >> 40), wr & (1<<40 - 1)
}

// QPInfo is what one end of an edge tells the other of a queue pair.
type QPInfo struct {
	Device       string              `json:"device"`
	Capabilities verbs.Capabilities  `json:"capabilities"` // of the device
	LinkLayer    verbs.LinkLayer     `json:"link_layer"`
	GID          verbs.GID           `json:"gid"`
	GIDType      verbs.GIDType       `json:"gid_type"`
	LID          uint16              `json:"lid"`
	Port         int                 `json:"port"`
	UDPPort      uint16              `json:"udp_port"`
	QPN          uint32              `json:"qpn"`
	PSN          uint32              `json:"psn"`
	MTU          int                 `json:"mtu"` // bytes
	SL           uint8               `json:"sl"`
	PKey         uint16              `json:"pkey"`
	Slots        diagnose.MemoryInfo `json:"slots"`
	SlotCount    int                 `json:"slot_count"`
	SlotSize     int                 `json:"slot_size"` // bytes, header included
}

// Data is what one end of an edge tells the other in Exchange of a channel.
type Data struct {
	QPInfo
	Rank     int               `json:"rank"`
	Size     int               `json:"size"`
	Digest   string            `json:"digest"`    // of the list
	MTUFixed bool              `json:"mtu_fixed"` // asked for with --mtu
	RDAtomic int               `json:"rd_atomic"` // READs that this end answers at once
	Channels int               `json:"channels"`  // of the edge; 0 is of a version that has one
	Locality locality.Locality `json:"locality"`
}

// Offer is what one end of an edge tells the other in Exchange.
type Offer struct {
	Data          // of the first channel
	Beside []Data `json:"beside,omitempty"` // of the others
}

// Of returns what the end says of a channel. One that it has not is like its first: the
// numbers of both ends are compared before anything comes of that.
func (o *Offer) Of(channel int) Data {
	if channel > 0 && channel <= len(o.Beside) {
		return o.Beside[channel-1]
	}
	return o.Data
}
