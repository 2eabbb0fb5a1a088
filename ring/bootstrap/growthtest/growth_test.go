package growthtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"text/tabwriter"
	"time"

	"ringcli/ring/bootstrap"
	"ringcli/ring/bootstrap/hosts"
	"ringcli/verbs/verbstest"
)

// cost is what a step takes.
type cost struct {
	virtual       time.Duration
	frames, bytes float64 // a rank
	memory        float64 // bytes a rank, with what it returns
	cpu           time.Duration
}

var steps = []string{"exchange", "agreement", "gather of nothing"}

// TestGrowth is how the exchange, the agreement and a gather grow with the ranks, with the
// exponents; RINGTEST_MATRIX=full takes up to 10,000, for which it needs 16 GiB of memory. See make growth.
func TestGrowth(t *testing.T) {
	sizes, from := []int{2, 8, 24, 100}, 8
	if verbstest.Full() {
		sizes, from = []int{2, 8, 64, 1000, 10_000}, 64
		debug.SetMemoryLimit(13 << 30)
	}
	all := map[int][]cost{}
	for _, n := range sizes {
		begun := time.Now()
		synctest.Test(t, func(t *testing.T) { all[n] = bringUp(t, n) })
		t.Logf("%d ranks took %s", n, time.Since(begun).Round(time.Millisecond))
	}
	var b strings.Builder
	out := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(out, "step\tranks\ttime\tframes/rank\tbytes/rank\tmemory/rank\tCPU/rank\t")
	figures := []func(c *cost, n int) float64{
		func(c *cost, n int) float64 { return float64(c.virtual) },
		func(c *cost, n int) float64 { return c.frames },
		func(c *cost, n int) float64 { return c.bytes },
		func(c *cost, n int) float64 { return c.memory },
		func(c *cost, n int) float64 { return float64(c.cpu) / float64(n) },
	}
	for i, step := range steps {
		var x, y []float64
		for _, n := range sizes {
			c := all[n][i]
			_, _ = fmt.Fprintf(out, "%s\t%d\t%s\t%.1f\t%.0f\t%.0f\t%s\t\n", step, n, c.virtual, c.frames, c.bytes, c.memory, (c.cpu / time.Duration(n)).Round(time.Microsecond))
		}
		_, _ = fmt.Fprintf(out, "%s\tfrom %d, exponent\t", step, from)
		for k, figure := range figures {
			x, y = nil, nil
			for _, n := range sizes {
				if n >= from {
					x, y = append(x, math.Log(float64(n))), append(y, math.Log(figure(&all[n][i], n)))
				}
			}
			by := slope(x, y)
			_, _ = fmt.Fprintf(out, "%.2f\t", by)
			// Each rank hears of each other one, over all others: time and bytes grow so, and frames less.
			if most := []float64{1.1, 0.7, 1.1, math.Inf(1), math.Inf(1)}[k]; by > most {
				t.Errorf("%s: figure %d grows with the ranks to the power of %.2f, expected at most %.2f", step, k, by, most)
			}
		}
		_, _ = fmt.Fprintln(out)
	}
	_ = out.Flush()
	t.Log("\n" + b.String())
}

// slope is that of the line through points: least squares.
func slope(x, y []float64) float64 {
	var sx, sy, sxx, sxy float64
	for i := range x {
		sx, sy, sxx, sxy = sx+x[i], sy+y[i], sxx+x[i]*x[i], sxy+x[i]*y[i]
	}
	n := float64(len(x))
	return (n*sxy - sx*sy) / (n*sxx - sx*sx)
}

// bringUp has n ranks come up, agree, and gather nothing.
func bringUp(t *testing.T, n int) (costs []cost) {
	net := &network{listeners: map[string]*listener{}}
	nodes, addrs := make([]hosts.Node, n), make([]netip.AddrPort, n)
	for i := range nodes {
		addr := netip.AddrFrom4([4]byte{127, 1, byte(i / 250), byte(1 + i%250)})
		nodes[i] = hosts.Node{Host: addr.String(), Port: 18600}
		addrs[i] = netip.AddrPortFrom(addr, 18600)
	}
	memory := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc + m.StackInuse)
	}
	least := memory()
	ranks := make([]*bootstrap.Control, n)
	each := func(f func(c *bootstrap.Control, rank int) error) {
		var wg sync.WaitGroup
		errs := make([]error, n)
		for rank := range ranks {
			wg.Go(func() { errs[rank] = f(ranks[rank], rank) })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatalf("%d ranks: %.2000v", n, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	gathered := make([][][]byte, n) // held until its memory is told
	step := func(f func(c *bootstrap.Control, rank int) error) {
		begun, frames, bytes, cpu := time.Now(), net.frames.Load(), net.bytes.Load(), cpuTime()
		each(f)
		costs = append(costs, cost{
			time.Since(begun), float64(net.frames.Load()-frames) / float64(n), float64(net.bytes.Load()-bytes) / float64(n),
			(memory() - least) / float64(n), cpuTime() - cpu,
		})
		clear(gathered)
	}
	each(func(_ *bootstrap.Control, rank int) (err error) {
		ranks[rank], err = bootstrap.Open(ctx, bootstrap.Config{
			List: nodes, Rank: rank, Addrs: addrs, Bind: addrs[rank], Listen: net.listen, Dial: net.dial(addrs[rank].String()),
			Clock: func() int64 { return time.Now().UnixNano() }, Sample: func(int, int64, int64, int64) {},
		})
		return err
	})
	// What a rank says of its device and slots to a neighbour.
	device := strings.Repeat("x", 600)
	step(func(c *bootstrap.Control, _ int) error {
		_, _, err := c.Exchange(ctx, device, device)
		return err
	})
	// What it says in collective.Agree.
	can := []byte(strings.Repeat("x", 60))
	step(func(c *bootstrap.Control, rank int) (err error) {
		gathered[rank], err = c.Gather(ctx, bootstrap.Purpose{What: "agreement"}, can)
		return err
	})
	step(func(c *bootstrap.Control, rank int) (err error) {
		gathered[rank], err = c.Gather(ctx, bootstrap.Purpose{What: "gather"}, nil)
		return err
	})
	each(func(c *bootstrap.Control, _ int) error { return c.Close() })
	return costs
}

// cpuTime is what this process has taken.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // fails on a bad pointer only
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
