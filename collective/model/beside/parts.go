package main

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"

	"ringcli/collective"
	"ringcli/collective/model"
	"ringcli/collective/reduce"
)

// bench is one device with so many ranks, and what its parts cost but for bytes and protocols.
type bench struct {
	device string
	parts  model.Machine
	memory costs
	shape  collective.Shape
}

// parts measures what does not go by protocol and size.
func (o options) parts(ctx context.Context, out *page, device string, n int) (*bench, error) {
	shm := strings.HasPrefix(device, "shm")
	b := &bench{device: device, parts: model.Machine{Ranks: n}, memory: memory(min(n, runtime.NumCPU()), o.quick)}
	b.shape = collective.Shape{Ranks: n, Slots: 16, SlotSize: 256 << 10, Software: true, Shared: shm}
	m := &b.parts
	m.Line, m.CPUs = b.memory.line, runtime.NumCPU()
	if err := o.messages(ctx, b); err != nil {
		return nil, err
	}
	out.printf("\n%s, %d ranks: alpha %.2f us, o %.2f us, line %.3f us\n", device, n, m.Edge.Alpha*1e6, m.Overhead*1e6, m.Line*1e6)
	return b, nil
}

// messages measures what a word costs: α is told by an exchange of ranks that have a CPU each, in
// which nobody waits for an acknowledgement, o by a row of messages, and a call without messages by
// one through the inbox.
func (o options) messages(ctx context.Context, b *bench) error {
	alone := b.parts
	alone.Ranks = min(alone.Ranks, alone.CPUs)
	exchange := b.word(collective.AlgorithmRecursiveDoubling, alone.Ranks)
	lines := []string{command(exchange)}
	if b.shape.Shared {
		lines = append(lines, command(direct(exchange, collective.AlgorithmInbox)))
	}
	overhead, words, err := o.row(ctx, b, alone.Ranks, lines...)
	if err != nil {
		return err
	}
	steps := math.Ceil(math.Log2(float64(alone.Ranks)))
	alone.Overhead = min(overhead, words[0]/steps/2)
	solve(&alone, exchange, words[0], func(x float64) { alone.Edge.Alpha = x })
	if b.shape.Shared {
		solve(&alone, direct(exchange, collective.AlgorithmInbox), words[1], func(x float64) { alone.Call = x })
	}
	b.parts.Overhead, b.parts.Edge.Alpha, b.parts.Call = alone.Overhead, alone.Edge.Alpha, alone.Call
	if b.parts.Ranks > alone.Ranks { // ranks of one CPU have less of its caches
		b.parts.Overhead, _, err = o.row(ctx, b, b.parts.Ranks)
	}
	return err
}

// row measures short messages round the ring, by what each of them takes its CPUs, at each end, and
// what else is to be measured between rows of them. Of each it is the median.
func (o options) row(ctx context.Context, b *bench, ranks int, lines ...string) (overhead float64, times []float64, err error) {
	const messages, short = 2048, 256
	lines = append([]string{fmt.Sprintf("all-gather --size %d --segment %d --algorithm ring --protocol eager", ranks*messages*short, short)}, lines...)
	list, err := o.lines(ctx, b.device, ranks, slices.Repeat(lines, 3)...)
	if err != nil {
		return 0, nil, err
	}
	for i := range lines {
		times = append(times, median(list[i].seconds(), list[i+len(lines)].seconds(), list[i+2*len(lines)].seconds()))
	}
	crowd := math.Ceil(float64(ranks) / float64(b.parts.CPUs))
	return times[0] / float64(ranks-1) / messages / 2 / crowd, times[1:], nil
}

// words are the calls that move a word, by what they tell. They are measured among the operations
// of a size, since a run's messages may cost something else than another's.
type words struct{ exchange, ring, inbox, pull collective.Call }

func (b *bench) words() (w words, list []collective.Call) {
	n := b.parts.Ranks
	w.exchange, w.ring = b.word(collective.AlgorithmRecursiveDoubling, n), b.word(collective.AlgorithmRing, n)
	list = []collective.Call{w.exchange, w.ring}
	if b.shape.Shared {
		w.inbox, w.pull = direct(w.ring, collective.AlgorithmInbox), direct(w.ring, collective.AlgorithmRing)
		list = append(list, w.inbox, w.pull)
	}
	return w, list
}

// costs are what the parts cost in a run in which words take so long: a turn, if ranks take turns,
// and else the messages' share of what they cost alone, is told by the exchange, and what an
// acknowledgement costs by the ring. Without messages, the inbox tells what a turn or a call costs,
// and the ring what a call by that algorithm does.
func (w words) costs(parts model.Machine, a collective.Algorithm, p collective.Protocol, took func(collective.Call) float64) (m model.Machine) {
	m = parts
	crowded := m.Ranks > m.CPUs
	turn := func(x float64) { m.Turn = x }
	if p == collective.Direct {
		if solve(&m, w.inbox, took(w.inbox), turn); !crowded || m.Turn == 0 {
			solve(&m, w.inbox, took(w.inbox), func(x float64) { m.Call = x })
		}
		if a == collective.AlgorithmRing {
			solve(&m, w.pull, took(w.pull), func(x float64) { m.Call = x })
		}
		return m
	}
	share := func(x float64) { m.Overhead, m.Edge.Alpha = x*parts.Overhead, x*parts.Edge.Alpha }
	if crowded {
		solve(&m, w.exchange, took(w.exchange), turn)
	}
	if m.Turn == 0 {
		solve(&m, w.exchange, took(w.exchange), func(x float64) { share(x * 1e4) })
	}
	solve(&m, w.ring, took(w.ring), func(x float64) { m.Ack = x })
	return m
}

// solve sets a cost in seconds to that by which a call takes so long.
func solve(m *model.Machine, k collective.Call, took float64, set func(float64)) {
	x := bisect(0, 1e-3, func(x float64) bool { set(x); return m.Row(k) > took })
	if x < 1e-12 {
		x = 0
	}
	set(x)
}

func median(v ...float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// direct is a call without messages.
func direct(k collective.Call, a collective.Algorithm) collective.Call {
	k.Algorithm, k.Protocol = a, collective.Direct
	return k
}

// word is an all-gather of a word of each of so many ranks.
func (b *bench) word(a collective.Algorithm, ranks int) collective.Call {
	s := b.shape
	s.Ranks = ranks
	k := collective.Call{Op: collective.OpAllGather, Type: reduce.Float32, Count: 2 * ranks, CallOptions: collective.CallOptions{Algorithm: a, Protocol: collective.Eager}}
	k, err := s.Plan(k, collective.Table{})
	if err != nil {
		panic(err) // all shapes of this program have it
	}
	return k
}

// command is that which runs a call.
func command(k collective.Call) string {
	if !k.Op.OnVectors() {
		return fmt.Sprintf("%s --algorithm %s --protocol %s", k.Op, k.Algorithm, k.Protocol)
	}
	return fmt.Sprintf("%s --size %d --algorithm %s --protocol %s", k.Op, k.Count*k.Type.Size(), k.Algorithm, k.Protocol)
}

// machine is that on which an all-gather takes so long in seconds, of which bytes take what the
// costs of words leave over; of these there is a share where that is too long.
func (b *bench) machine(words model.Machine, gather collective.Call, took float64) *model.Machine {
	with := func(share, perByte float64) *model.Machine {
		m := words
		m.Overhead, m.Edge.Alpha, m.Ack, m.Turn = share*m.Overhead, share*m.Edge.Alpha, share*m.Ack, share*m.Turn
		m.Gamma, m.Copy = b.memory.gamma, b.memory.copy
		if gather.Protocol == collective.Direct {
			m.Call, m.Line = share*m.Call, share*m.Line
			vector := float64(gather.Count * gather.Type.Size())
			m.Copy = model.Flat(perByte)
			m.Gamma, m.Fetch = model.Flat(perByte+b.memory.reduced.At(vector)), model.Flat(perByte+b.memory.fetched.At(vector))
			return &m
		}
		m.RecvByte = model.Flat(perByte)
		if !b.shape.Shared { // whoever receives copies
			m.SendByte = m.RecvByte
		}
		return &m
	}
	const slowest = 1e-8 // s/byte
	if with(1, 0).Time(gather) > took {
		return with(bisect(0, 1, func(x float64) bool { return with(x, 0).Time(gather) > took }), 0)
	}
	return with(1, bisect(0, slowest, func(x float64) bool { return with(1, x).Time(gather) > took }))
}

// bisect is where between two values something begins to be so.
func bisect(lo, hi float64, is func(float64) bool) float64 {
	for range 40 {
		if mid := (lo + hi) / 2; is(mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}
