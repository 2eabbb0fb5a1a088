package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"ringcli/collective"
	"ringcli/collective/model"
	"ringcli/collective/plan"
	"ringcli/collective/reduce"
)

// bench is one device with so many ranks, and what its parts cost but for bytes.
type bench struct {
	device string
	parts  model.Machine
	shape  plan.Shape
}

// parts measures what a message costs: an exchange of a word takes α and 2o. A row of short messages
// takes 2o each; the rest is α. Ranks that share memory take a line for a word by the inbox.
func (o options) parts(ctx context.Context, device string, n int) (*bench, error) {
	b := &bench{device: device, parts: model.Machine{Ranks: n}}
	b.shape = plan.Shape{Ranks: n, Slots: 16, SlotSize: 256 << 10, Software: true, Shared: strings.HasPrefix(device, "shm")}
	const messages, short, times = 2048, 256, 3
	word := b.gather(collective.AlgorithmRecursiveDoubling, collective.Eager, 8*n)
	lines := []string{fmt.Sprintf("all-gather --size %d --segment %d --algorithm ring --protocol eager", n*messages*short, short), command(word)}
	if b.shape.Shared {
		lines = append(lines, command(b.gather(collective.AlgorithmInbox, collective.Direct, 8*n)))
	}
	list, err := o.lines(ctx, device, n, slices.Repeat(lines, times)...)
	if err != nil {
		return nil, err
	}
	took := func(line int) float64 {
		var all []float64
		for k := line; k < len(list); k += len(lines) {
			all = append(all, list[k].seconds())
		}
		return median(all...)
	}
	m := &b.parts
	m.Overhead = took(0) / float64(n-1) / messages / 2
	if alone := took(1); m.Overhead*2 > alone {
		m.Overhead = alone / 2
	}
	m.Edge.Alpha = bisect(1e-3, func(x float64) bool { m.Edge.Alpha = x; return m.Time(word) > took(1) })
	if b.shape.Shared {
		m.Line = took(2) / float64(n-1)
	}
	fmt.Printf("\n%s, %d ranks: alpha %.2f us, o %.2f us, line %.3f us\n", device, n, m.Edge.Alpha*1e6, m.Overhead*1e6, m.Line*1e6)
	return b, nil
}

// gather is an all-gather of so many bytes.
func (b *bench) gather(a collective.Algorithm, p collective.Protocol, bytes int) collective.Call {
	k, err := b.shape.Plan(collective.Call{Op: collective.OpAllGather, Type: reduce.Float32, Count: bytes / 4, CallOptions: collective.CallOptions{Algorithm: a, Protocol: p}}, collective.Table{})
	if err != nil {
		panic(err) // all shapes of this program have it
	}
	return k
}

// machine is that on which an all-gather takes so long, of which bytes take what messages leave over.
// memory is what a byte of a reduction takes beyond a copy.
func (b *bench) machine(gather collective.Call, took float64, c costs) *model.Machine {
	m := b.parts
	if gather.Protocol == collective.Direct {
		m.Copy = bisect(1e-8, func(x float64) bool { m.Copy = x; return m.Time(gather) > took })
		m.Gamma = m.Copy + max(0, c.gamma-c.copy)
		return &m
	}
	m.Gamma, m.Copy = c.gamma, c.copy
	bisect(1e-8, func(x float64) bool {
		if m.RecvByte = x; !b.shape.Shared { // else the receiver copies
			m.SendByte = x
		}
		return m.Time(gather) > took
	})
	return &m
}

// bisect is the least value up to most of which something is true.
func bisect(most float64, is func(float64) bool) float64 {
	least := 0.0
	for range 40 {
		if mid := (least + most) / 2; is(mid) {
			most = mid
		} else {
			least = mid
		}
	}
	is(most)
	return most
}

func median(v ...float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// command is that which runs a call.
func command(k collective.Call) string {
	size := ""
	if k.Op.OnVectors() {
		size = fmt.Sprintf(" --size %d", k.Count*k.Type.Size())
	}
	return fmt.Sprintf("%s%s --algorithm %s --protocol %s", k.Op, size, k.Algorithm, k.Protocol)
}

// costs are what a byte takes a core, where all ranks work at once.
type costs struct{ gamma, copy float64 }

// memory measures them on vectors of so many bytes, by the median of many rounds.
func memory(n, size int) costs {
	const span = 50 * time.Millisecond
	add := reduce.Lookup(reduce.Float32, reduce.Sum)
	var times [2][]float64
	in, out := make([][]byte, n), make([][]byte, n)
	for r := range n {
		in[r], out[r] = make([]byte, size+64), make([]byte, size+64)
	}
	for begun := time.Now(); time.Since(begun) < span || len(times[0]) < 5; {
		for i, do := range []func(r int){
			func(r int) { add(out[r][:size], out[r][:size], in[r][:size]) },
			func(r int) { copy(out[r][:size], in[r][:size]) },
		} {
			var all sync.WaitGroup
			each := make([]float64, n)
			for r := range n {
				all.Go(func() {
					begun := time.Now()
					do(r)
					each[r] = time.Since(begun).Seconds() / float64(size)
				})
			}
			all.Wait()
			times[i] = append(times[i], slices.Max(each))
		}
		runtime.Gosched()
	}
	return costs{median(times[0]...), median(times[1]...)}
}
