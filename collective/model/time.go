package model

import (
	"math"

	"ringcli/collective"
)

// Time returns how long the ranks of a machine take for a call in seconds: a call as
// [collective.Shape.Plan] or [collective.Comm.Plan] returns it, with buffers of its own for
// what it sends (out of place).
func (m *Machine) Time(k collective.Call) float64 {
	if t := m.time(&k); !math.IsNaN(t) {
		return t
	}
	return math.Inf(1) // none of the bytes over an edge that carries none
}

// Row returns what each of many such calls takes in seconds that follow one another, as benchmarks
// have them. It is Time, unless ranks go on without the others: the root of a broadcast is ahead
// of who receives, by as much as lies on the way.
func (m *Machine) Row(k collective.Call) float64 {
	switch {
	case m.Ranks < 2 || k.Protocol == collective.Direct:
	case k.Algorithm != collective.AlgorithmRing:
		return m.scriptRow(&k)
	case k.Op.Rooted():
		return m.chainRow(&k)
	}
	return m.Time(k)
}

func (m *Machine) time(k *collective.Call) float64 {
	switch {
	case m.Ranks < 2:
		return m.copyOwn(k)
	case k.Protocol == collective.Direct:
		return m.direct(k)
	case k.Algorithm == collective.AlgorithmRing:
		return m.ring(k)
	}
	return m.script(k)
}

// bytes is the length of the vector.
func bytes(k *collective.Call) float64 {
	return float64(k.Count) * float64(k.Type.Size())
}

// copyOwn is what a rank copies from its send buffer to its receive buffer of what no
// other rank changes.
func (m *Machine) copyOwn(k *collective.Call) float64 {
	v := bytes(k)
	switch {
	case m.Ranks == 1:
		return v * m.Copy.At(v)
	case k.Op.Reduces():
		return 0
	}
	if k.Op.Rooted() {
		return v * m.Copy.At(v) // at the root
	}
	return v / float64(m.Ranks) * m.Copy.At(v)
}
