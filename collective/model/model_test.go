package model

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"ringcli/collective"
	"ringcli/collective/reduce"
	"ringcli/collective/topology"
	"ringcli/ring"
	"ringcli/verbs/verbstest"
)

// planned is a call of so many bytes of float32 as so many ranks would run it.
func planned(t *testing.T, op collective.Operation, a collective.Algorithm, p collective.Protocol, ranks, bytes int, o collective.CallOptions) collective.Call {
	t.Helper()
	o.Algorithm, o.Protocol = a, p
	k := collective.Call{Op: op, CallOptions: o}
	if op != collective.OpBarrier {
		k.Type, k.Count = reduce.Float32, bytes/4
	}
	s := collective.Shape{Ranks: ranks, Slots: 16, SlotSize: 256 << 10, Shared: p == collective.Direct}
	k, err := s.Plan(k, collective.Table{})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// wires has nothing but the textbook's costs.
func wires(ranks int) Machine {
	return Machine{Ranks: ranks, Edge: Edge{Alpha: 3e-6, Beta: 1 / 10e9}, Gamma: Flat(1 / 20e9)}
}

func near(t *testing.T, what string, got, want, share float64) {
	t.Helper()
	if math.Abs(got-want) > share*want {
		t.Errorf("%s: %.3f us, want %.3f us within %.1f %%", what, got*1e6, want*1e6, share*100)
	}
}

// TestTextbook: with segments as long as they come and no costs of a CPU's own, what
// remains are the formulas of Thakur, Rabenseifner and Gropp, and α until the last
// message is acknowledged, less what is reduced meanwhile.
func TestTextbook(t *testing.T) {
	const alpha, beta, gamma = 3e-6, 1 / 10e9, 1 / 20e9
	for _, n := range []int{2, 4, 8, 64, 256} {
		for _, size := range []int{4 * n, 64 * n, 1024 * n} {
			m, v := wires(n), float64(size)
			f, lg := float64(n), math.Log2(float64(n))
			chunk := v / f
			ends := alpha
			if size <= 32<<10 {
				ends = 0 // by a script; nobody waits
			}
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
				{collective.OpAllReduce, collective.AlgorithmRecursiveDoubling, lg*(alpha+v*(beta+gamma)) + ends},
				{collective.OpReduceScatter, collective.AlgorithmRecursiveDoubling, lg*alpha + (f-1)*chunk*(beta+gamma) + ends},
				{collective.OpAllGather, collective.AlgorithmRecursiveDoubling, lg*alpha + (f-1)*chunk*beta + ends},
			} {
				k := planned(t, c.op, c.a, collective.Eager, n, size, collective.CallOptions{Segment: 1 << 20})
				if c.a == collective.AlgorithmRecursiveDoubling && size > 32<<10 {
					continue // in segments
				}
				near(t, fmt.Sprintf("%s by %s on %d ranks, %d bytes", c.op, c.a, n, size), m.Time(k), c.want, 1e-3)
			}
		}
	}
}

// TestAlongHosts: what goes along hosts costs what the formula says, where all exchanges are of
// messages of one length and no rank has a CPU that matters.
func TestAlongHosts(t *testing.T) {
	const size, l, h = 1 << 20, 4, 4
	hosts := topology.Sized(slices.Repeat([]int{l}, h)...)
	m := Machine{Ranks: l * h, Hosts: hosts, Edge: Edge{1e-6, 1 / 1e9}, Within: &Edge{1e-6, 1 / 20e9}}
	shape := collective.Shape{Ranks: l * h, Slots: 16, SlotSize: 256 << 10, Hosts: hosts}
	k, err := shape.Plan(collective.Call{Op: collective.OpAllReduce, Type: reduce.Float32, Count: size / 4, CallOptions: collective.CallOptions{Algorithm: collective.AlgorithmHierarchical}}, collective.Table{})
	if err != nil {
		t.Fatal(err)
	}
	want := 2*(1e-6+size*0.75/20e9) + 2*(1e-6+size*0.75/l/1e9)
	if got := m.Time(k); got < 0.98*want || got > 1.3*want { // a message more where segments are, and one less that is not waited for
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

// TestPipeline: what long vectors take is the slowest stage's time for each byte.
func TestPipeline(t *testing.T) {
	const n, size = 16, 1 << 30
	for _, c := range []struct {
		name   string
		change func(*Machine)
		stage  float64 // s/byte
	}{
		{"wire", func(*Machine) {}, 1 / 10e9},
		{"CPU", func(m *Machine) { m.Gamma = Flat(1 / 2e9) }, 0.75 / 2e9}, // with the copy's half in the second phase
	} {
		m := wires(n)
		m.Copy = Flat(1 / 4e9)
		c.change(&m)
		k := planned(t, collective.OpAllReduce, collective.AlgorithmRing, collective.Eager, n, size, collective.CallOptions{Depth: 8})
		if c.name == "wire" {
			m.Copy = nil
		}
		near(t, c.name, m.Time(k), 2.0*(n-1)/n*size*c.stage, 0.05)
	}
}

// TestChain: the last rank of a chain has a short vector after a hop for each rank before it,
// and of a long one the ranks cost little beside what one edge carries.
func TestChain(t *testing.T) {
	for _, op := range collective.Operations() {
		if !op.Rooted() {
			continue
		}
		for _, n := range []int{2, 4, 16} {
			m := wires(n)
			short := planned(t, op, collective.AlgorithmRing, collective.Eager, n, 64, collective.CallOptions{})
			hop := 3e-6 + 64*(1/10e9)
			if op.Reduces() {
				hop += 64 * m.Gamma.At(64)
			}
			near(t, fmt.Sprintf("%s of 64 bytes on %d ranks", op, n), m.Time(short), float64(n-1)*hop+3e-6, 0.02)
			const size = 1 << 30
			long := planned(t, op, collective.AlgorithmRing, collective.RendezvousWrite, n, size, collective.CallOptions{Depth: 8})
			near(t, fmt.Sprintf("%s of 1 GiB on %d ranks", op, n), m.Time(long), size/10e9, 0.05)
		}
	}
}

// TestHandshakes: rendezvous costs a handshake where it cannot be hidden, and the copy
// out of slots where that is spared.
func TestHandshakes(t *testing.T) {
	m := wires(4)
	m.Copy, m.Overhead = Flat(1/5e9), 0.3e-6
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

// TestRow: of a row of calls each takes as long as one alone, where all wait for all, and where
// they do not, what the busiest rank does.
func TestRow(t *testing.T) {
	const o, size = 1e-6, 64
	for _, n := range []int{2, 4} {
		m := wires(n)
		m.Overhead, m.Gamma = o, nil
		for _, a := range []collective.Algorithm{collective.AlgorithmRing, collective.AlgorithmRecursiveDoubling} {
			k := planned(t, collective.OpAllReduce, a, collective.Eager, n, size, collective.CallOptions{})
			near(t, fmt.Sprintf("a row of all-reduces by %s on %d ranks", a, n), m.Row(k), m.Time(k), 1e-2)
		}
		long := planned(t, collective.OpBroadcast, collective.AlgorithmTree, collective.Eager, n, 64<<20, collective.CallOptions{})
		near(t, fmt.Sprintf("a row of long broadcasts on %d ranks", n), m.Row(long), m.Time(long), 1e-2)
	}
	m := Machine{Ranks: 2, Overhead: o}
	tree := planned(t, collective.OpBroadcast, collective.AlgorithmTree, collective.Eager, 2, size, collective.CallOptions{})
	near(t, "a row of broadcasts by tree", m.Row(tree), o*(1+2./ring.MeshSlots), 1e-2) // with a credit for half the slots
	chain := planned(t, collective.OpBroadcast, collective.AlgorithmRing, collective.Eager, 2, size, collective.CallOptions{})
	near(t, "a row of broadcasts round the ring", m.Row(chain), 3*o, 1e-2) // until that is acknowledged
}

// TestTurns: ranks that have one CPU for all take what all of them do, and a turn for each time
// that it goes from one to another.
func TestTurns(t *testing.T) {
	const n, o, turn = 4, 1e-6, 5e-6
	m := Machine{Ranks: n, Overhead: o, CPUs: 1}
	for a, messages := range map[collective.Algorithm]float64{collective.AlgorithmRing: 3, collective.AlgorithmRecursiveDoubling: 2, collective.AlgorithmInbox: 3} {
		k := planned(t, collective.OpAllGather, a, collective.Eager, n, 64, collective.CallOptions{})
		m.Turn = 0
		near(t, fmt.Sprintf("%s without turns", a), m.Time(k), n*messages*2*o, 0.01)
		m.Turn = turn
		if with, least := m.Time(k), n*(messages*2*o+turn); with < least*0.99 {
			t.Errorf("%s: %.3f us with turns, want %.3f at least", a, with*1e6, least*1e6)
		}
		alone := m
		alone.CPUs = n
		near(t, fmt.Sprintf("%s on as many CPUs", a), alone.Time(k), messages*2*o, 0.3)
	}
	for p, ways := range map[collective.Protocol]float64{collective.Eager: 2, collective.RendezvousWrite: 4, collective.RendezvousRead: 5} {
		k := planned(t, collective.OpBroadcast, collective.AlgorithmRing, p, n, 64, collective.CallOptions{})
		cpu := 2 * o
		if p.Handshakes() {
			cpu += 4 * o
		}
		m.Turn = turn
		near(t, fmt.Sprintf("a row of broadcasts round the ring by %s", p), m.Row(k), (n-1)*(cpu+ways*turn), 0.01)
	}
}

// TestAck: who waits for an acknowledgement waits for the CPUs that send and take it, and who does
// not has them idle, unless nothing goes back.
func TestAck(t *testing.T) {
	const ack = 2e-6
	m := Machine{Ranks: 2, Overhead: 1e-6}
	dear := m
	dear.Ack = ack
	for _, c := range []struct {
		op          collective.Operation
		a           collective.Algorithm
		least, most float64
	}{
		{collective.OpAllGather, collective.AlgorithmRing, 2 * ack, 2 * ack},
		{collective.OpAllGather, collective.AlgorithmRecursiveDoubling, 0, 0},
		{collective.OpAllReduce, collective.AlgorithmTree, 0, 0},
		{collective.OpBroadcast, collective.AlgorithmTree, 0.1 * ack, 2 * ack}, // while nothing comes
	} {
		k := planned(t, c.op, c.a, collective.Eager, 2, 64, collective.CallOptions{})
		if more := dear.Row(k) - m.Row(k); more < c.least*0.99 || more > c.most*1.01 {
			t.Errorf("%s by %s: %.3f us more than %.3f, want %.3f to %.3f", c.op, c.a, more*1e6, m.Row(k)*1e6, c.least*1e6, c.most*1e6)
		}
	}
}

// TestLeftOver: a rank beyond a power of two costs a hop more, and not two: while its
// contribution comes, the others have made theirs.
func TestLeftOver(t *testing.T) {
	time := func(n int) float64 {
		m := wires(n)
		return m.Time(planned(t, collective.OpAllReduce, collective.AlgorithmRecursiveDoubling, collective.Eager, n, 8, collective.CallOptions{}))
	}
	near(t, "5 ranks after 4", time(5), time(4)+3e-6, 1e-2)
}

// TestEverything: all that there is has a time, which grows with the vector and with each cost.
func TestEverything(t *testing.T) {
	if verbstest.Race {
		t.Skip("one goroutine reckons, for minutes")
	}
	costs := []func(*Machine){
		func(m *Machine) { m.Edge.Alpha *= 2; m.Line *= 2 },
		func(m *Machine) { m.Edge.Beta *= 2; m.Copy = Flat(1 / 2e9) },
		func(m *Machine) { m.Overhead *= 2; m.Gamma = Flat(1 / 2e9) },
	}
	for _, n := range []int{1, 2, 3, 4, 7, 8, 100} {
		for _, op := range collective.Operations() {
			for _, a := range collective.Algorithms()[1:] {
				for _, p := range collective.Protocols()[1:] {
					before := 0.0
					for size := 1 << 10; size <= 1<<30; size <<= 5 {
						s := collective.Shape{Ranks: n, Slots: 16, SlotSize: 256 << 10, Shared: true}
						k, err := s.Plan(collective.Call{Op: op, Type: reduce.Float32, Count: size / 4, CallOptions: collective.CallOptions{Algorithm: a, Protocol: p}}, collective.Table{})
						if err != nil {
							continue
						}
						m := wires(n)
						m.Overhead, m.Copy, m.Line = 1e-7, Flat(1/10e9), 1e-7
						got := m.Time(k)
						if n > 1 && !(got > 0) || math.IsInf(got, 0) || math.IsNaN(got) || got < before {
							t.Errorf("%s by %s/%s of %d bytes on %d: %v s, and a 32nd takes %v", op, a, p, size, n, got, before)
						}
						before = got
						for i, change := range costs {
							dear := m
							change(&dear)
							if more := dear.Time(k); more < got*0.85 { // CPUs and ports serve messages in another order, and of long vectors the first groups are played
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
// two and a half times as long as the fastest.
func TestAuto(t *testing.T) {
	if verbstest.Race {
		t.Skip("one goroutine reckons, for minutes")
	}
	software := Machine{Edge: Edge{Alpha: 12e-6, Beta: 1 / 2e9}, Overhead: 4e-6, SendByte: Flat(1 / 2e9), RecvByte: Flat(1 / 2e9)}
	port := Machine{Edge: Edge{Alpha: 3e-6, Beta: 1 / 12.5e9}, Overhead: 0.3e-6}
	fast := port
	fast.Edge.Beta = 1 / 50e9
	for _, n := range []int{9, 16, 48, 64, 256, 1024} {
		for mbps, m := range map[int]Machine{0: software, 100_000: port, 400_000: fast} {
			if testing.Short() && n > 64 && (n == 1024 || mbps != 400_000) {
				continue // seconds each
			}
			m.Ranks, m.Gamma, m.Copy = n, Flat(1/20e9), Flat(1/20e9)
			for _, op := range collective.Operations() {
				for size := 1 << 10; size <= 1<<28; size <<= 3 {
					time := func(a collective.Algorithm, p collective.Protocol) float64 {
						s := collective.Shape{Ranks: n, Slots: 16, SlotSize: 256 << 10, Software: mbps == 0, LinkMbps: mbps}
						k, err := s.Plan(collective.Call{Op: op, Type: reduce.Float32, Count: size / 4, CallOptions: collective.CallOptions{Algorithm: a, Protocol: p}}, collective.Table{})
						if err != nil {
							t.Fatal(err)
						}
						return m.Time(k)
					}
					got := time(collective.AlgorithmAuto, collective.Auto)
					best := min(time(collective.AlgorithmRing, collective.Eager), time(collective.AlgorithmRing, collective.RendezvousWrite), time(collective.AlgorithmRecursiveDoubling, collective.Eager))
					if got > 2.5*best {
						t.Errorf("%s of %d bytes on %d ranks with ports of %d Mb/s: %.0f us, %.1f times the fastest", op, size, n, mbps, got*1e6, got/best)
					}
				}
			}
		}
	}
}

func TestCurve(t *testing.T) {
	c := Curve{{1 << 10, 1}, {1 << 20, 3}}
	for bytes, want := range map[float64]float64{1: 1, 1 << 10: 1, 1 << 15: 2, 1 << 20: 3, 1 << 30: 3} {
		if got := c.At(bytes); math.Abs(got-want) > 1e-9 {
			t.Errorf("at %v: %v, want %v", bytes, got, want)
		}
	}
	if got := Curve(nil).At(5); got != 0 {
		t.Errorf("nothing costs %v", got)
	}
}
