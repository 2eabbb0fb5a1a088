// Package edges says what an edge of a ring is to whoever does not use it: which one it is,
// what its ends tell each other, whether they agree, and what is wrong with it.
package edges

import (
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
// of a mesh in the order in which they were made.
type ID int

// FirstMesh is the ID of the first edge that Mesh made.
const FirstMesh ID = 2

// Side returns the side that an edge is on.
func (id ID) Side() Side { return Side(min(id, FirstMesh)) }

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

// QPInfo is what one end of an edge tells the other.
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

// Data is what one end of an edge tells the other in Exchange.
type Data struct {
	QPInfo
	Rank     int               `json:"rank"`
	Size     int               `json:"size"`
	Digest   string            `json:"digest"`    // of the list
	MTUFixed bool              `json:"mtu_fixed"` // asked for with --mtu
	RDAtomic int               `json:"rd_atomic"` // READs that this end answers at once
	Locality locality.Locality `json:"locality"`
}
