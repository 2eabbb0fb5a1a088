package fabric_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"ringcli/verbs/soft/rc/rctest/fabric"
)

const (
	rate  = 10e9
	large = 256 << 10
)

var options = fabric.Options{Nodes: 8, Latency: 2 * time.Microsecond, Rate: rate, Around: 66}

// sends has messages follow one another on some pairs, so many at a time, and notes when each
// pair was done.
type sends struct {
	net   fabric.Network
	bytes int
	left  map[[2]int]int
	done  map[[2]int]float64
}

func (s *sends) Arrived(from, to, bytes int, tag uint64) {}
func (s *sends) Woke(int)                                {}
func (s *sends) Acked(from, to int, tag uint64) {
	p := [2]int{from, to}
	if s.left[p] > 0 {
		s.left[p]--
		s.net.Send(from, to, s.bytes, 0)
	}
	s.done[p] = s.net.Now()
}

// run sends count messages on each of the pairs, four at a time.
func run(t *testing.T, net fabric.Network, bytes, count int, pairs ...[2]int) map[[2]int]float64 {
	t.Helper()
	s := &sends{net, bytes, map[[2]int]int{}, map[[2]int]float64{}}
	begun := net.Now()
	for _, p := range pairs {
		s.left[p] = count
		for range min(4, count) {
			s.left[p]--
			net.Send(p[0], p[1], bytes, 0)
		}
	}
	if !net.Run(s, time.Minute) {
		t.Fatal("still running after a virtual minute")
	}
	for p := range s.done {
		s.done[p] -= begun
	}
	return s.done
}

// TestMessagesAreSumsOfPackets: messages take as long as their packets do, alone and where
// they meet at ports and links.
func TestMessagesAreSumsOfPackets(t *testing.T) {
	all := func(k int) (list [][2]int) {
		for i := range options.Nodes {
			list = append(list, [2]int{i, (i + k) % options.Nodes})
		}
		return list
	}
	for _, c := range []struct {
		name   string
		bytes  int
		change func(*fabric.Ports)
		pairs  [][2]int
		stage  float64 // of how many pairs the bytes pass the narrowest place, at Rate
		within float64
	}{
		{"one pair", large, nil, all(1)[:1], 1, 0.01},
		{"small", 8, nil, all(1)[:1], 0, 0.02},
		{"ring", large, nil, all(1), 1, 0.02},
		{"all to one", large, nil, [][2]int{{1, 0}, {2, 0}, {3, 0}}, 3, 0.02},
		{"one to all", large, nil, [][2]int{{0, 1}, {0, 2}, {0, 3}}, 3, 0.02},
		{"slow receiver", large, func(p *fabric.Ports) { p.SetNode(3, rate, rate/4) }, all(1), 4, 0.02},
		{"slow sender", large, func(p *fabric.Ports) { p.SetNode(3, rate/4, rate) }, all(1), 4, 0.02},
		{"slow pair", large, func(p *fabric.Ports) { p.SetPair(3, 4, fabric.Pair{Rate: rate / 4}) }, all(1), 4, 0.02},
		{"later pair", 8, func(p *fabric.Ports) { p.SetPair(3, 4, fabric.Pair{Later: 5 * time.Millisecond}) }, all(1), 0, 0.02},
		{"thin link", large, func(p *fabric.Ports) {
			p.SetGroups([]int{0, 0, 0, 0, 1, 1, 1, 1})
			p.SetTrunk(0, 1, rate/2)
		}, all(4), 8, 0.02},
	} {
		var ends []float64
		for _, packets := range []bool{true, false} {
			ports := fabric.NewPorts(options)
			if c.change != nil {
				c.change(ports)
			}
			var net fabric.Network = fabric.NewMessages(ports)
			if packets {
				net = fabric.NewPackets(ports, c.bytes)
			}
			const count = 16
			end := 0.0
			for _, at := range run(t, net, c.bytes, count, c.pairs...) {
				end = max(end, at)
			}
			if least := c.stage * count * float64(c.bytes) / rate * 1e9; end < least || c.stage > 0 && end > 1.15*least {
				t.Errorf("%s, packets %v: %.1f us, want %.1f to 1.15 of it", c.name, packets, end/1e3, least/1e3)
			}
			ends = append(ends, end)
		}
		if off := ends[1]/ends[0] - 1; math.Abs(off) > c.within {
			t.Errorf("%s: %.2f us by messages, %.2f by packets: %+.1f %%", c.name, ends[1]/1e3, ends[0]/1e3, off*100)
		} else {
			t.Logf("%s: %.2f us by messages, %.2f by packets: %+.1f %%", c.name, ends[1]/1e3, ends[0]/1e3, off*100)
		}
	}
}

// A queue pair sends again what was lost, and the others do not notice.
func TestLosses(t *testing.T) {
	var before string
	for range 2 {
		ports := fabric.NewPorts(options)
		ports.SetPair(0, 1, fabric.Pair{Loss: 0.01})
		net := fabric.NewPackets(ports, large)
		done := run(t, net, large, 32, [2]int{0, 1}, [2]int{2, 3})
		c := net.QueuePair(0, 1)
		if lossy, clean := done[[2]int{0, 1}], done[[2]int{2, 3}]; lossy < 1.05*clean || c.PacketSeqErr == 0 {
			t.Errorf("%.1f us with losses, %.1f without, %d NAKs", lossy/1e3, clean/1e3, c.PacketSeqErr)
		}
		now := fmt.Sprint(done, *c)
		if before != "" && before != now {
			t.Errorf("two runs of one seed differ:\n%s\n%s", before, now)
		}
		before = now
	}
}

func TestWake(t *testing.T) {
	for _, net := range []fabric.Network{fabric.NewMessages(fabric.NewPorts(options)), fabric.NewPackets(fabric.NewPorts(options), 1)} {
		var w woken
		begun := net.Now()
		for _, at := range []float64{30, 10, 20} {
			net.Wake(begun+at, int(at))
		}
		net.Run(&w, 25)
		if !slices.Equal(w.nodes, []int{10, 20}) || !net.Run(&w, time.Second) || net.Now() != begun+30 {
			t.Errorf("%v were woken at %v", w.nodes, net.Now()-begun)
		}
	}
}

type woken struct {
	sends
	nodes []int
}

func (w *woken) Woke(node int) { w.nodes = append(w.nodes, node) }

// BenchmarkMessages is the cost of a message of 10,000 nodes.
func BenchmarkMessages(b *testing.B) {
	o := options
	o.Nodes = 10_000
	net := fabric.NewMessages(fabric.NewPorts(o))
	h := &forever{net: net}
	for i := range o.Nodes {
		h.Arrived(0, i, 0, 0)
	}
	b.ResetTimer()
	for h.count = 0; h.count < b.N; {
		net.Run(h, 10*time.Microsecond)
	}
}

type forever struct {
	sends
	net   fabric.Network
	count int
}

func (f *forever) Acked(int, int, uint64) {}
func (f *forever) Arrived(_, to, _ int, _ uint64) {
	f.count++
	f.net.Send(to, (to+1)%10_000, 100, 0)
}
