package ring

import (
	"fmt"

	"ringcli/ring/bootstrap/hosts"
)

// membership is which rank of which ring this one is.
type membership struct {
	nodes  []hosts.Node // the server list, by rank
	whole  []hosts.Node // with those that the ring is without
	rank   int
	digest string // of the list
	names  map[hosts.Node]string
}

// Rank returns this rank, from 0.
func (m *membership) Rank() int { return m.rank }

// Size returns the number of ranks.
func (m *membership) Size() int { return len(m.nodes) }

// Nodes returns the server list, by rank. The caller must not change it.
func (m *membership) Nodes() []hosts.Node { return m.nodes }

func (m *membership) neighbour(s Side) int {
	n := len(m.nodes)
	if s == Left {
		return (m.rank + n - 1) % n
	}
	return (m.rank + 1) % n
}

// NodeName is as in "rank 1 (node1)".
func (m *membership) NodeName(rank int) string {
	return fmt.Sprintf("rank %d (%s)", rank, m.nodes[rank].Called(m.names))
}

// towards is the side over which the peer of an edge is asked: its own, or the shorter way to
// the peer of a mesh edge.
func (m *membership) towards(id EdgeID, peer int) Side {
	if !id.IsMesh() {
		return id.Side()
	}
	if n := len(m.nodes); (peer-m.rank+n)%n > n/2 {
		return Left
	}
	return Right
}
