package model

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"ringcli/collective"
	"ringcli/collective/plan"
	"ringcli/collective/reduce"
	"ringcli/collective/topology"
)

// planned is a call of so many bytes of float32 as so many ranks would run it.
func planned(t *testing.T, op collective.Operation, a collective.Algorithm, p collective.Protocol, ranks, bytes int, o collective.CallOptions) collective.Call {
	t.Helper()
	o.Algorithm, o.Protocol = a, p
	k := collective.Call{Op: op, CallOptions: o}
	if op != collective.OpBarrier {
		k.Type, k.Count = reduce.Float32, bytes/4
	}
	s := plan.Shape{Ranks: ranks, Slots: 16, SlotSize: 256 << 10, Shared: p == collective.Direct}
	k, err := s.Plan(k, collective.Table{})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// wires has nothing but the textbook's costs.
func wires(ranks int) Machine {
	return Machine{Ranks: ranks, Edge: Edge{Alpha: 3e-6, Beta: 1 / 10e9}, Gamma: 1 / 20e9}
}

func near(t *testing.T, what string, got, want, share float64) {
	t.Helper()
	if math.Abs(got-want) > share*want {
		t.Errorf("%s: %.3f us, want %.3f us within %.1f %%", what, got*1e6, want*1e6, share*100)
	}
}

// TestTextbook: with segments as long as they come and no costs of a CPU's own, the
// formulas are those of Thakur, Rabenseifner and Gropp, and α until the last
// message is acknowledged, less the work meanwhile.
func TestTextbook(t *testing.T) {
	const alpha, beta, gamma = 3e-6, 1 / 10e9, 1 / 20e9
	for _, n := range []int{2, 4, 8, 64, 256} {
		for _, size := range []int{4 * n, 64 * n, 1024 * n} {
			m, v := wires(n), float64(size)
			f, lg := float64(n), math.Log2(float64(n))
			chunk := v / f
			for _, c := range []struct {
				op   collective.Operation
				a    collective.Algorithm
				want float64
			}{
				{collective.OpAllReduce, collective.AlgorithmRing, 2*(f-1)*(alpha+chunk*beta) + (f-1)*chunk*gamma + alpha},
				{collective.OpReduceScatter, collective.AlgorithmRing, (f-1)*(alpha+chunk*beta+chunk*gamma) + max(0, alpha-chunk*gamma)},
				{collective.OpAllGather, collective.AlgorithmRing, (f-1)*(alpha+chunk*beta) + alpha},
				{collective.OpBarrier, collective.AlgorithmRing, (f-1)*alpha + alpha},
				{collective.OpBarrier, collective.AlgorithmRecursiveDoubling, lg * alpha},
				{collective.OpAllReduce, collective.AlgorithmRecursiveDoubling, lg * (alpha + v*(beta+gamma))},
				{collective.OpReduceScatter, collective.AlgorithmRecursiveDoubling, lg*alpha + (f-1)*chunk*(beta+gamma)},
				{collective.OpAllGather, collective.AlgorithmRecursiveDoubling, lg*alpha + (f-1)*chunk*beta},
			} {
				if c.a == collective.AlgorithmRecursiveDoubling && size > 32<<10 {
					continue // in segments
				}
				k := planned(t, c.op, c.a, collective.Eager, n, size, collective.CallOptions{Segment: 1 << 20})
				near(t, fmt.Sprintf("%s by %s on %d ranks, %d bytes", c.op, c.a, n, size), m.Time(k), c.want, 1e-3)
			}
		}
	}
}

// TestAlongHosts: messages along hosts cost what the formula says.
func TestAlongHosts(t *testing.T) {
	const size, l, h = 1 << 20, 4, 4
	hosts := topology.Sized(slices.Repeat([]int{l}, h)...)
	m := Machine{Ranks: l * h, Hosts: hosts, Edge: Edge{1e-6, 1 / 1e9}, Within: &Edge{1e-6, 1 / 20e9}}
	shape := plan.Shape{Ranks: l * h, Slots: 16, SlotSize: 256 << 10, Hosts: hosts}
	k, err := shape.Plan(collective.Call{Op: collective.OpAllReduce, Type: reduce.Float32, Count: size / 4, CallOptions: collective.CallOptions{Algorithm: collective.AlgorithmHierarchical}}, collective.Table{})
	if err != nil {
		t.Fatal(err)
	}
	want := 2*(1e-6+size*0.75/20e9) + 2*(1e-6+size*0.75/l/1e9)
	if got := m.Time(k); got < 0.98*want || got > 1.3*want { // a message more where segments are
		t.Errorf("%.1f us: expected %.1f to 1.3 times that", got*1e6, want*1e6)
	}
	k.Algorithm = collective.AlgorithmRing
	if flat := m.Time(k); flat < 2*want {
		t.Errorf("the ring takes %.1f us, and along hosts it is %.1f", flat*1e6, want*1e6)
	}
}

// TestBarrier: a barrier takes its hops, and among ranks that share memory a line of each.
func TestBarrier(t *testing.T) {
	const alpha = 3e-6
	for _, n := range []int{2, 3, 5, 8, 9, 100, 1000} {
		m := wires(n)
		m.Line = 0.1e-6
		up := math.Floor(math.Log2(float64(n))) // the depth of the tree
		for _, c := range []struct {
			a    collective.Algorithm
			p    collective.Protocol
			most int
			want float64
		}{
			{collective.AlgorithmRecursiveDoubling, collective.Eager, n, math.Ceil(math.Log2(float64(n))) * alpha},
			{collective.AlgorithmTree, collective.Eager, n, 2 * up * alpha},
			{collective.AlgorithmInbox, collective.Eager, collective.AlgorithmInbox.MaxRanks(collective.Auto, false), alpha},
			{collective.AlgorithmInbox, collective.Direct, collective.AlgorithmInbox.MaxRanks(collective.Direct, true), float64(n-1) * m.Line},
		} {
			if n <= c.most {
				near(t, fmt.Sprintf("%s, %s on %d ranks", c.a, c.p, n), m.Time(planned(t, collective.OpBarrier, c.a, c.p, n, 0, collective.CallOptions{})), c.want, 1e-3)
			}
		}
	}
}

// TestLongVectors: a long vector takes the slowest stage's time for each byte, also down a chain.
func TestLongVectors(t *testing.T) {
	const n, size = 16, 1 << 30
	m := wires(n)
	k := planned(t, collective.OpAllReduce, collective.AlgorithmRing, collective.Eager, n, size, collective.CallOptions{Depth: 8})
	near(t, "wire", m.Time(k), 2.0*(n-1)/n*size/10e9, 0.05)
	m.Gamma, m.Copy = 1/2e9, 1/4e9
	near(t, "CPU", m.Time(k), 2.0*(n-1)/n*size*0.75/2e9, 0.05) // with the copy's half in the second phase
	for _, op := range []collective.Operation{collective.OpBroadcast, collective.OpReduce} {
		m := wires(n)
		k := planned(t, op, collective.AlgorithmRing, collective.RendezvousWrite, n, size, collective.CallOptions{Depth: 8})
		near(t, op.String(), m.Time(k), size/10e9, 0.05)
		near(t, op.String()+" in a row", m.Row(k), size/10e9, 0.05)
	}
}

// TestHandshakes: rendezvous costs a handshake where it cannot be hidden, and the copy
// out of slots where that is spared.
func TestHandshakes(t *testing.T) {
	m := wires(4)
	m.Copy, m.Overhead = 1/5e9, 0.3e-6
	time := func(p collective.Protocol, size int) float64 {
		return m.Time(planned(t, collective.OpAllReduce, collective.AlgorithmRing, p, 4, size, collective.CallOptions{}))
	}
	const small, large = 1 << 10, 256 << 20
	if e, w, r := time(collective.Eager, small), time(collective.RendezvousWrite, small), time(collective.RendezvousRead, small); !(e < w && w < r) {
		t.Errorf("%d bytes: eager %.2f us, rendezvous-write %.2f, rendezvous-read %.2f: want them in this order", small, e*1e6, w*1e6, r*1e6)
	}
	if e, i := time(collective.Eager, large), time(collective.ReceiverInitiated, large); !(i < e) {
		t.Errorf("%d bytes: eager %.2f us, receiver-initiated %.2f: want the copy to cost", large, e*1e6, i*1e6)
	}
}

// TestEverything: all that there is has a time, which grows with the vector and with each cost.
func TestEverything(t *testing.T) {
	costs := []func(*Machine){
		func(m *Machine) { m.Edge.Alpha *= 2; m.Line *= 2 },
		func(m *Machine) { m.Edge.Beta *= 2; m.Copy *= 2 },
		func(m *Machine) { m.Overhead *= 2; m.Gamma *= 2 },
		func(m *Machine) { m.SendByte, m.RecvByte = 1/5e9, 1/5e9 },
	}
	for _, n := range []int{1, 2, 3, 4, 7, 8, 100} {
		for _, op := range plan.AllOperations() {
			for _, a := range plan.Algorithms()[1:] {
				for _, p := range plan.Protocols()[1:] {
					before := 0.0
					for size := 1 << 10; size <= 1<<30; size <<= 5 {
						s := plan.Shape{Ranks: n, Slots: 16, SlotSize: 256 << 10, Shared: true}
						if n >= 4 && n%2 == 0 {
							s.Hosts = topology.Sized(n/2, n/2)
						}
						k := collective.Call{Op: op, CallOptions: collective.CallOptions{Algorithm: a, Protocol: p}}
						if op.OnVectors() {
							k.Type, k.Count = reduce.Float32, size/4
						}
						k, err := s.Plan(k, collective.Table{})
						if err != nil {
							continue
						}
						m := wires(n)
						m.Hosts, m.Overhead, m.Copy, m.Line = s.Hosts, 1e-7, 1/10e9, 1e-7
						got, row := m.Time(k), m.Row(k)
						if n > 1 && !(got > 0 && row > 0) || math.IsInf(got, 0) || math.IsNaN(got) || got < before || row > got*1.5 {
							t.Errorf("%s by %s/%s of %d bytes on %d: %v s, in a row %v, and a 32nd takes %v", op, a, p, size, n, got, row, before)
						}
						before = got
						for i, change := range costs {
							dear := m
							change(&dear)
							if more := dear.Time(k); more < got*0.999 {
								t.Errorf("%s by %s/%s of %d bytes on %d: %v s with cost %d doubled, %v before", op, a, p, size, n, more, i, got)
							}
						}
					}
				}
			}
		}
	}
}

// TestAuto: without a table, what auto takes on more ranks than an inbox has takes at most
// three times as long as the fastest.
func TestAuto(t *testing.T) {
	software := Machine{Edge: Edge{Alpha: 12e-6, Beta: 1 / 2e9}, Overhead: 4e-6, SendByte: 1 / 2e9, RecvByte: 1 / 2e9}
	port := Machine{Edge: Edge{Alpha: 3e-6, Beta: 1 / 12.5e9}, Overhead: 0.3e-6}
	fast := port
	fast.Edge.Beta = 1 / 50e9
	for _, n := range []int{9, 16, 48, 64, 256, 1024} {
		for mbps, m := range map[int]Machine{0: software, 100_000: port, 400_000: fast} {
			m.Ranks, m.Gamma, m.Copy = n, 1/20e9, 1/20e9
			for _, op := range plan.Operations() {
				for size := 1 << 10; size <= 1<<28; size <<= 3 {
					time := func(a collective.Algorithm, p collective.Protocol) float64 {
						s := plan.Shape{Ranks: n, Slots: 16, SlotSize: 256 << 10, Software: mbps == 0, LinkMbps: mbps}
						k, err := s.Plan(collective.Call{Op: op, Type: reduce.Float32, Count: size / 4, CallOptions: collective.CallOptions{Algorithm: a, Protocol: p}}, collective.Table{})
						if err != nil {
							t.Fatal(err)
						}
						return m.Time(k)
					}
					got := time(collective.AlgorithmAuto, collective.Auto)
					best := min(time(collective.AlgorithmRing, collective.Eager), time(collective.AlgorithmRing, collective.RendezvousWrite), time(collective.AlgorithmRecursiveDoubling, collective.Eager))
					if got > 3*best {
						t.Errorf("%s of %d bytes on %d ranks with ports of %d Mb/s: %.0f us, %.1f times the fastest", op, size, n, mbps, got*1e6, got/best)
					}
				}
			}
		}
	}
}
