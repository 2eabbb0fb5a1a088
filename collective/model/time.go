package model

import (
	"ringcli/collective"

	"ringcli/collective/plan"
)

// Time returns how long the ranks of a machine take for a call in seconds: a call as
// [plan.Shape.Plan] or [collective.Comm.Plan] returns it, with buffers of its own for
// the data that it sends (out of place).
func (m *Machine) Time(k collective.Call) float64 {
	switch {
	case m.Ranks < 2:
		return m.copyOwn(&k)
	case k.Protocol == collective.Direct:
		return m.direct(&k)
	}
	alone, _ := m.messages(&k)
	if k.Sync && k.Op.Phases() == 2 { // a barrier between the phases
		alone += m.Time(collective.Call{Op: collective.OpBarrier, CallOptions: collective.CallOptions{
			Algorithm: collective.AlgorithmRing, Protocol: collective.Eager, Segment: 1, Depth: plan.DefaultDepth,
		}})
	}
	return alone
}

// Row returns the time in seconds of each of many such calls that follow one another, as in
// benchmarks. It is Time, unless the operation has a root: then ranks go on without the others.
func (m *Machine) Row(k collective.Call) float64 {
	if m.Ranks < 2 || k.Protocol == collective.Direct || !k.Op.Rooted() {
		return m.Time(k)
	}
	_, row := m.messages(&k)
	return row
}

// bytes is the length of the vector.
func bytes(k *collective.Call) float64 {
	return float64(k.Count) * float64(k.Type.Size())
}

// copyOwn is the time in which a rank copies the part of its send buffer that no other rank
// changes to its receive buffer.
func (m *Machine) copyOwn(k *collective.Call) float64 {
	switch {
	case m.Ranks == 1 || k.Op.Rooted() && !k.Op.Reduces(): // the root's
		return bytes(k) * m.Copy
	case k.Op.Reduces():
		return 0
	}
	return bytes(k) / float64(m.Ranks) * m.Copy
}
