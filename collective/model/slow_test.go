package model

import (
	"math"
	"slices"
	"testing"

	"ringcli/collective"
)

// mesh is a machine whose pairs are all alike, each known.
func mesh(n int) Machine {
	m := wires(n)
	m.Edges = map[Pair]Edge{}
	for from := range n {
		for to := range n {
			if from != to {
				m.Edges[Pair{from, to}] = m.Edge
			}
		}
	}
	return m
}

// TestSlowPair: one pair of many that carries a third makes the whole ring three times as
// slow, is named, and is not in the better order.
func TestSlowPair(t *testing.T) {
	for _, n := range []int{3, 4, 8, 40} {
		m := mesh(n)
		k := planned(t, collective.OpAllReduce, collective.AlgorithmRing, collective.RendezvousWrite, n, 256<<20, collective.CallOptions{})
		healthy := m.Time(k)
		slow := Pair{n - 2, n - 1}
		m.Edges[slow] = Edge{m.Edge.Alpha, m.Edge.Beta * 3}
		s := m.Slow(k)
		if s.Pair != slow {
			t.Errorf("%d ranks: %v costs most, want %v", n, s.Pair, slow)
		}
		near(t, "with it", s.With, 3*healthy, 0.05)
		near(t, "without it", s.Without, healthy, 1e-9)
		near(t, "in another order", s.Ordered, healthy, 1e-9)
		if s.Order == nil || s.Order[0] != 0 || slices.Equal(s.Order, identity(n)) {
			t.Fatalf("%d ranks: order %v", n, s.Order)
		}
		seen := slices.Sorted(slices.Values(s.Order))
		if !slices.Equal(seen, identity(n)) {
			t.Errorf("%d ranks: the order has %v", n, seen)
		}
		for i, r := range s.Order {
			if (Pair{r, s.Order[(i+1)%n]}) == slow {
				t.Errorf("%d ranks: the order %v has the slow pair", n, s.Order)
			}
		}
	}
}

// TestSlowNode: a rank that receives slowly from everyone is slow in every order.
func TestSlowNode(t *testing.T) {
	const n = 6
	m := mesh(n)
	for from := range n {
		if from != 3 {
			m.Edges[Pair{from, 3}] = Edge{m.Edge.Alpha, m.Edge.Beta * 3}
		}
	}
	k := planned(t, collective.OpAllReduce, collective.AlgorithmRing, collective.RendezvousWrite, n, 256<<20, collective.CallOptions{})
	if s := m.Slow(k); s.Pair != (Pair{2, 3}) || s.Order != nil {
		t.Errorf("%v costs most, better order %v: want 2 to 3, and none", s.Pair, s.Order)
	}
}

// TestLateEdge: small vectors feel latency, and an edge that carries nothing takes for ever.
func TestLateEdge(t *testing.T) {
	const n = 5
	m := mesh(n)
	m.Edges[Pair{1, 2}] = Edge{5e-3, m.Edge.Beta}
	k := planned(t, collective.OpAllReduce, collective.AlgorithmRing, collective.Eager, n, 1<<10, collective.CallOptions{})
	if s := m.Slow(k); s.Pair != (Pair{1, 2}) || s.With < 10*s.Without || s.Order == nil {
		t.Errorf("%+v", s)
	}
	m.Edges[Pair{1, 2}] = Edge{m.Edge.Alpha, math.Inf(1)}
	if s := m.Slow(k); !math.IsInf(s.With, 1) || math.IsInf(s.Without, 1) || math.IsInf(s.Ordered, 1) {
		t.Errorf("dead: %+v", s)
	}
}

// TestRingOnly: of pairs that were not measured nothing is said; a ring can be turned.
func TestRingOnly(t *testing.T) {
	const n = 5
	m := mesh(n)
	for p := range m.Edges {
		if (p.From+1)%n != p.To && (p.To+1)%n != p.From {
			delete(m.Edges, p)
		}
	}
	m.Edges[Pair{1, 2}] = Edge{m.Edge.Alpha, m.Edge.Beta * 3}
	k := planned(t, collective.OpAllReduce, collective.AlgorithmRing, collective.RendezvousWrite, n, 256<<20, collective.CallOptions{})
	if s := m.Slow(k); !slices.Equal(s.Order, []int{0, 4, 3, 2, 1}) {
		t.Errorf("order %v: want the ring the other way round", s.Order)
	}
}

func identity(n int) (list []int) {
	for i := range n {
		list = append(list, i)
	}
	return list
}
