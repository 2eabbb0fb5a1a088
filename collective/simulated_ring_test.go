package collective

import (
	"math"
	"testing"
	"time"

	"ringcli/collective/plan"
	"ringcli/collective/reduce"
	"ringcli/verbs/soft/rc/rctest/fabric"
)

// simulatedCall is an all-reduce of so many bytes as so many ranks on several hosts plan it.
func simulatedCall(t *testing.T, ranks, bytes int, o CallOptions) Call {
	t.Helper()
	k, err := plan.Shape{Ranks: ranks, Slots: simulatedSlots, SlotSize: 256 << 10}.Plan(
		Call{Op: OpAllReduce, Type: reduce.Float32, Count: bytes / 4, CallOptions: o}, Table{})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// The ports and CPUs of simulated ranks: 100 Gb/s, 3 us, and what a message and a byte cost.
const (
	simulatedRate  = 12e9
	simulatedAlpha = 3000.0 // ns
)

var simulatedCosts = Costs{Overhead: 300, Reduce: 1 / 20.0, Copy: 1 / 15.0}

func simulatedPorts(ranks int) *fabric.Ports {
	return fabric.NewPorts(fabric.Options{Nodes: ranks, Latency: simulatedAlpha, Rate: simulatedRate})
}

func simulate(t *testing.T, net fabric.Network, c Costs, k Call, ranks int) float64 {
	t.Helper()
	ns, err := Simulate(net, c, k, ranks, 1)
	if err != nil {
		t.Fatal(err)
	}
	return ns
}

// TestSimulatedTextbook: without a CPU's costs an operation of one segment takes its hops, each
// with the latency and its bytes, and an acknowledgement.
func TestSimulatedTextbook(t *testing.T) {
	for _, n := range []int{2, 4, 16, 64} {
		const bytes = 8 << 10
		// With the headers of slots.
		hop := func(bytes float64) float64 { return simulatedAlpha + (bytes+64)/simulatedRate*1e9 }
		steps := math.Log2(float64(n))
		for a, want := range map[Algorithm]float64{
			AlgorithmRing:              2*float64(n-1)*hop(bytes/float64(n)) + simulatedAlpha,
			AlgorithmRecursiveDoubling: steps * hop(bytes),
		} {
			k := simulatedCall(t, n, bytes, CallOptions{Algorithm: a, Protocol: Eager})
			got := simulate(t, fabric.NewMessages(simulatedPorts(n)), Costs{}, k, n)
			if math.Abs(got-want) > want/100 {
				t.Errorf("%s on %d: %.1f us, want %.1f", a, n, got/1e3, want/1e3)
			}
		}
	}
}

// TestSimulatedByPackets: queue pairs under their own timers give what messages give, but where
// the packets of two children's messages take turns at a port: each then ends as late as the other.
func TestSimulatedByPackets(t *testing.T) {
	const n = 8
	for _, o := range []CallOptions{
		{Algorithm: AlgorithmRing, Protocol: Eager}, {Algorithm: AlgorithmRing, Protocol: RendezvousWrite},
		{Algorithm: AlgorithmRecursiveDoubling}, {Algorithm: AlgorithmTree}, {Algorithm: AlgorithmInbox},
	} {
		for _, bytes := range []int{4 << 10, 1 << 20} {
			k := simulatedCall(t, n, bytes, o)
			messages := simulate(t, fabric.NewMessages(simulatedPorts(n)), simulatedCosts, k, n)
			packets := simulate(t, fabric.NewPackets(simulatedPorts(n), bytes+64), simulatedCosts, k, n)
			within := 0.03
			if k.Algorithm == AlgorithmTree {
				within = 0.08
			}
			if off := messages/packets - 1; math.Abs(off) > within {
				t.Errorf("%s by %s, %d bytes: %.1f us by messages, %.1f by packets: %+.1f %%", k.Algorithm, k.Protocol, bytes, messages/1e3, packets/1e3, off*100)
			}
		}
	}
}

// TestSimulatedFaults: one slow port slows the whole ring down as it should, and losses cost what
// they cost queue pairs.
func TestSimulatedFaults(t *testing.T) {
	const n, bytes = 8, 4 << 20
	k := simulatedCall(t, n, bytes, CallOptions{Algorithm: AlgorithmRing, Protocol: RendezvousWrite})
	healthy := simulate(t, fabric.NewMessages(simulatedPorts(n)), simulatedCosts, k, n)
	ports := simulatedPorts(n)
	ports.SetNode(3, simulatedRate, simulatedRate/4)
	slow := simulate(t, fabric.NewMessages(ports), simulatedCosts, k, n)
	if least := 2.0 * (n - 1) / n * bytes / (simulatedRate / 4) * 1e9; slow < least || slow > 1.2*least || slow < 2.5*healthy {
		t.Errorf("with a slow receiver %v, healthy %v: want %v and little more", time.Duration(slow), time.Duration(healthy), time.Duration(least))
	}
	ports = simulatedPorts(n)
	ports.SetPair(2, 3, fabric.Pair{Loss: 0.01})
	net := fabric.NewPackets(ports, bytes)
	if lossy := simulate(t, net, simulatedCosts, k, n); lossy < 1.02*healthy || net.QueuePair(2, 3).PacketSeqErr == 0 {
		t.Errorf("with losses %v, healthy %v, %d NAKs", time.Duration(lossy), time.Duration(healthy), net.QueuePair(2, 3).PacketSeqErr)
	}
}
