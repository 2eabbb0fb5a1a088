package model

import "ringcli/collective/topology"

// Edge is what the way from one rank to another costs.
type Edge struct {
	Alpha float64 // s
	Beta  float64 // s/byte
}

// Machine is what the parts of a cluster cost, in seconds and seconds per byte; see
// the package's comment. What is zero costs nothing.
type Machine struct {
	Ranks int
	Edge  Edge // between any two ranks
	// Hosts says which ranks share a host. Within is an edge between two ranks of one host. Nil:
	// not known, and as Edge.
	Hosts  *topology.Hosts
	Within *Edge

	Overhead float64 // o
	SendByte float64 // O of the sender
	RecvByte float64 // O of the receiver
	Gamma    float64
	Copy     float64
	Line     float64 // λ
}

// within is the edge between two ranks of one host.
func (m *Machine) within() Edge {
	if m.Within != nil {
		return *m.Within
	}
	return m.Edge
}

// around is the mean edge of the ring.
func (m *Machine) around() Edge {
	inside := 0.0 // edges within a host
	for r := range m.Ranks {
		if m.Within != nil && m.Hosts.Host(r) == m.Hosts.Host((r+1)%m.Ranks) {
			inside++
		}
	}
	n, in := float64(m.Ranks), m.within()
	return Edge{(inside*in.Alpha + (n-inside)*m.Edge.Alpha) / n, (inside*in.Beta + (n-inside)*m.Edge.Beta) / n}
}
