package model

import (
	"math"
	"slices"

	"ringcli/collective/topology"
)

// Edge is what the way from one rank to another costs.
type Edge struct {
	Alpha float64 // s
	Beta  float64 // s/byte; +Inf carries nothing
}

// Pair is the rank that sends and the one that receives.
type Pair struct{ From, To int }

// Machine is what the parts of a cluster cost, in seconds and seconds per byte; see
// the package's comment. What is zero costs nothing.
type Machine struct {
	Ranks int
	Edge  Edge          // of all pairs
	Edges map[Pair]Edge // but these
	// Order has the rank of the cluster at each place of the ring; nil: the ranks in their
	// order. It is for rings that are to be laid in another order.
	Order []int
	// Hosts are where the ranks are, and Within the way between two of one host, if that is not
	// Edge; nil is not known.
	Hosts  *topology.Hosts
	Within *Edge

	// CPUs are those of a host's ranks: more ranks than CPUs take turns; 0: each rank has its own.
	CPUs int
	Turn float64 // s: from when a rank has nothing more to do until another goes on, on the same CPU
	// Call is what an operation of ranks that share memory costs each of them besides. That of
	// messages is a part of what the first one costs.
	Call      float64
	Overhead  float64 // o
	SendByte  Curve   // O of who sends
	RecvByte  Curve   // O of who receives
	Gamma     Curve
	Copy      Curve
	Fetch     Curve   // a copy of what another core has just written; nil: as any
	Line      float64 // λ
	Handshake float64 // s: a message without data on its way, if that is not α; 0: it is
	// Ack is CPU time of an acknowledgement that goes by itself, at each of its two ends; 0: devices
	// have to do with it.
	Ack float64

	played map[long][]float64 // kept for the next call, whose caller is the same goroutine
}

// edge is the way between two places of the ring.
func (m *Machine) edge(from, to int) Edge {
	if m.Order != nil {
		from, to = m.Order[from], m.Order[to]
	}
	if e, ok := m.Edges[Pair{from, to}]; ok {
		return e
	}
	if m.Hosts != nil && m.Within != nil && m.Hosts.Host(from) == m.Hosts.Host(to) {
		return *m.Within
	}
	return m.Edge
}

// control is what a message without data costs on its way back, against an edge.
func (m *Machine) control(from, to int) float64 {
	if m.Handshake != 0 {
		return m.Handshake
	}
	return m.edge(from, to).Alpha
}

// crowd is how many ranks a CPU has.
func (m *Machine) crowd() float64 {
	if m.CPUs == 0 || m.Ranks <= m.CPUs {
		return 1
	}
	return math.Ceil(float64(m.Ranks) / float64(m.CPUs))
}

// turn is what a rank waits for its CPU, besides what others do there.
func (m *Machine) turn() float64 {
	if m.crowd() == 1 {
		return 0
	}
	return m.Turn
}

// fetch is the cost per byte of what another core has just written.
func (m *Machine) fetch(vector float64) float64 {
	if m.Fetch == nil {
		return m.Copy.At(vector)
	}
	return m.Fetch.At(vector)
}

// Curve is a cost per byte by how long the vectors are that it is of: what fits a cache
// costs less.
type Curve []Point

// Point is a cost of vectors of so many bytes.
type Point struct {
	Bytes   float64
	PerByte float64 // s
}

// Flat is a cost that is the same for all lengths.
func Flat(perByte float64) Curve { return Curve{{1, perByte}} }

// At is the cost for vectors of so many bytes, between two points in proportion to the
// logarithm of the length.
func (c Curve) At(bytes float64) float64 {
	if len(c) == 0 {
		return 0
	}
	i, _ := slices.BinarySearchFunc(c, bytes, func(p Point, b float64) int {
		if p.Bytes < b {
			return -1
		}
		return 1
	})
	switch {
	case i == 0:
		return c[0].PerByte
	case i == len(c):
		return c[i-1].PerByte
	}
	a, b := c[i-1], c[i]
	share := math.Log(bytes/a.Bytes) / math.Log(b.Bytes/a.Bytes)
	return a.PerByte + share*(b.PerByte-a.PerByte)
}
